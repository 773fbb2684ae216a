//! Consequences of changes to entities, collected and applied once.

use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::{mailbox_view, replies};
use crate::model::effect::{Effect, Export};
use crate::model::id::AgentId;
use crate::model::incarnation::IncarnationId;
use crate::model::report::{Action, ChangeReport};
use crate::rows::sessions;
use crate::tx::Tx;
use crate::{Result, lifecycle};
use std::collections::BTreeSet;

/// Consequences of changes, applied once no matter how many changes there are.
#[derive(Default)]
pub(crate) struct ChangedAgents {
    /// Agents whose context files changed.
    pub(crate) changed: BTreeSet<AgentId>,
    /// Agents whose launch configuration changed.
    pub(crate) renewed: BTreeSet<AgentId>,
}

/// The reports of what was done, or why it was refused.
pub(crate) type ChangeResult = std::result::Result<Vec<ChangeReport>, String>;

/// One line of a report.
pub(crate) fn report(entity: String, action: Action) -> ChangeReport {
    ChangeReport { entity, action, fields: Vec::new(), note: None }
}

/// Rewrites the context files of the changed agents' live sessions.
pub(crate) fn renew_contexts(tx: &mut Tx<'_, '_>, after: &mut ChangedAgents) -> Result<()> {
    if after.changed.is_empty() {
        return Ok(());
    }
    for IncarnationId { session, .. } in lifecycle::live_of(tx, |agent| after.changed.contains(&agent))? {
        let (row, ()) = sessions::update(tx, session, |row| {
            row.context_version = row.context_version.saturating_add(1);
        })?;
        let agent = tx.db.agents.require(tx, &row.agent)?;
        let context = Some(mailbox_view::context_view(tx, SessionRef { id: session, session: &row, agent: &agent })?);
        let (messages, replies) = (Vec::new(), Some(replies::of(tx, session, row.live)?));
        tx.effects.push(Effect::Export(Box::new(Export {
            session,
            context,
            messages,
            replies,
            exact: false,
            files: Vec::new(),
        })));
    }
    Ok(())
}
