//! Something was configured: what is asked may be answered by it, or may be about nothing any more.

use super::{channels, rows, senders};
use crate::engine::{Cx, Result};
use crate::model::approval::Matters;
use crate::model::effect::Effect;
use crate::state::Write;

/// Open approvals that one change of the configuration looks at; a decision looks again.
const LOOKED_AT_MAX: usize = 200;

/// Looks at what is open about chats and people. Nothing open costs one look at an index.
pub(in crate::engine) fn reconsider(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    for ((_, id), ()) in cx.db.approvals_due.collect_range(txn, .., LOOKED_AT_MAX)? {
        let Some(approval) = rows::open(cx, txn, id)? else { continue };
        match &approval.about {
            Matters::Sender { .. } => senders::reconsider(cx, txn, (id, &approval), effects)?,
            Matters::Channel { chat, .. } => channels::reconsider(cx, txn, (id, *chat), effects)?,
            Matters::Packages { .. } | Matters::McpServer { .. } | Matters::CreateAgent { .. } => {}
        }
    }
    Ok(())
}
