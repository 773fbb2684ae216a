//! Applies a changed launch configuration: live agents are replaced when idle, and backoffs are cancelled.

use crate::lifecycle::{capacity, rate_limit, start_backoff};
use crate::model::id::AgentId;
use crate::model::incarnation::{IncarnationId, Phase, StopReason};
use crate::rows::sessions;
use crate::tx::Tx;
use crate::{Result, lifecycle, rows};
use std::collections::BTreeSet;

/// Applies a changed launch configuration to these agents.
pub(crate) fn agents(tx: &mut Tx<'_, '_>, agents: &BTreeSet<AgentId>) -> Result<()> {
    if agents.is_empty() {
        return Ok(());
    }
    for id in lifecycle::live_of(tx, |agent| agents.contains(&agent))? {
        look(tx, id)?;
    }
    rate_limit::clear(tx, agents)?;
    start_backoff::forgive(tx, agents)?;
    capacity::assign_free_slots(tx)
}

/// Retires a live incarnation if its launch configuration is outdated.
pub(crate) fn look(tx: &mut Tx<'_, '_>, id: IncarnationId) -> Result<()> {
    let Some(row) = sessions::load(tx, id.session)? else { return Ok(()) };
    let incarnation = tx.db.incarnations.require(tx, &id)?;
    if incarnation.outdated.is_some() || !matches!(incarnation.phase, Phase::Starting | Phase::Running) {
        return Ok(());
    }
    let agent = tx.db.agents.require(tx, &row.agent)?;
    let digest = rows::agents::of(tx, id.session, &row, &agent)?.digest;
    let providers = rows::session_providers::of(tx.db, tx, id.session)?;
    let is_listed = providers.fallback().is_none_or(|fallback| agent.settings.fallback.contains(fallback));
    match is_listed && digest == incarnation.digest {
        true => Ok(()),
        false => lifecycle::mark_outdated(tx, id, StopReason::Renewed),
    }
}
