//! Something was configured: what is asked may be answered by it, or may be about nothing any more.

use super::{approvers, channels, outcome, rows, send, senders};
use crate::engine::{Cx, Result, remove, sessions};
use crate::model::approval::Matters;
use crate::model::effect::Effect;
use crate::model::id::ApprovalId;
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
            Matters::Packages { session, .. }
            | Matters::McpServer { session, .. }
            | Matters::CreateAgent { session, .. } => {
                let removed = match sessions::load(cx, txn, *session)? {
                    Some(session) => remove::is_removed(cx, txn, session.agent)?,
                    None => true,
                };
                if removed {
                    outcome::supersede(cx, txn, id, "the agent was removed", effects)?;
                }
            }
        }
        ask_somebody_else(cx, txn, id, effects)?;
    }
    Ok(())
}

/// Whoever was asked may have lost the right to decide: then somebody else is asked.
fn ask_somebody_else(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, effects: &mut Vec<Effect>) -> Result<()> {
    let Some(approval) = rows::open(cx, txn, id)? else { return Ok(()) };
    let Some(asked) = &approval.approver else { return Ok(()) };
    let scope = approvers::scope(cx, txn, &approval.about)?;
    if approvers::may_decide(cx, txn, asked, &scope)? {
        return Ok(());
    }
    send::show_again(cx, txn, id, effects)
}
