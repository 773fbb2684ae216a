//! What is due of approvals: cards to be shown again, names nobody gave, decisions nobody made.

use super::{outcome, rows, send};
use crate::engine::{Cx, Result};
use crate::model::approval::ApprovalState;
use crate::model::effect::Effect;
use crate::model::id::ApprovalId;
use crate::state::Write;

/// Approvals that one sweep looks at: with each of them go the messages that wait for it.
const PER_SWEEP: usize = 16;

/// Does what is due; the cost follows what is due, not what is open.
pub(in crate::engine) fn due(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let until = (cx.now.wall, ApprovalId::new(u64::MAX));
    for ((_, id), ()) in cx.db.approvals_due.collect_range(txn, ..=until, PER_SWEEP)? {
        cx.apart(txn, effects, |txn, effects| one(cx, txn, id, effects))?;
    }
    Ok(())
}

fn one(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, effects: &mut Vec<Effect>) -> Result<()> {
    let Some(approval) = rows::open(cx, txn, id)? else { return Ok(()) };
    if cx.now.wall >= approval.expires {
        return outcome::expire(cx, txn, id, effects);
    }
    match approval.state {
        ApprovalState::Unsent { .. } => send::again(cx, txn, id, effects),
        // The name is not waited for any more: the choice is open again.
        ApprovalState::Naming { .. } => send::show_again(cx, txn, id, effects),
        ApprovalState::Pending
        | ApprovalState::Approved { .. }
        | ApprovalState::Rejected { .. }
        | ApprovalState::Expired { .. }
        | ApprovalState::Superseded { .. } => Ok(()),
    }
}
