//! Handles approval deadlines: cards to resend, agent names that were not given, and approvals that expire.

use crate::Result;
use crate::approvals::{send, waitlist};
use crate::decisions::{outcome, reconsider};
use crate::model::approval::ApprovalState;
use crate::model::id::ApprovalId;
use crate::rows::approvals;
use crate::state::Timed;
use crate::tx::Tx;

/// Approvals examined per sweep. Each may also move the messages that wait for it.
const PER_SWEEP: usize = 16;

/// Handles all deadlines that have passed. The cost depends on how many those are, not on how many approvals are open.
pub(crate) fn due(tx: &mut Tx<'_, '_>) -> Result<()> {
    let until = Timed { at: tx.now.wall, id: ApprovalId::new(u64::MAX) };
    for (Timed { id, .. }, ()) in tx.db.approvals_due.collect_range(tx, ..=until, PER_SWEEP)? {
        tx.isolated(|tx| one(tx, id))?;
    }
    tx.isolated(reconsider::go_on)?;
    waitlist::due(tx)
}

fn one(tx: &mut Tx<'_, '_>, id: ApprovalId) -> Result<()> {
    let Some(approval) = approvals::open(tx, id)? else { return Ok(()) };
    if tx.now.wall >= approval.expires {
        return outcome::expire(tx, id);
    }
    match approval.state {
        ApprovalState::Unsent { .. } => send::again(tx, id),
        // The name was not given in time: the choice is open again.
        ApprovalState::Naming { .. } => send::show_again(tx, id),
        ApprovalState::Pending
        | ApprovalState::Approved { .. }
        | ApprovalState::Rejected { .. }
        | ApprovalState::Expired { .. }
        | ApprovalState::Superseded { .. } => Ok(()),
    }
}
