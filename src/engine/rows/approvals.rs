//! The only writer of approvals: a row changes together with the waitlist of its approver.

use crate::Result;
use crate::model::Turn;
use crate::model::address::UserId;
use crate::model::approval::{Approval, Waitlist};
use crate::model::id::ApprovalId;
use crate::state::PersonKey;
use crate::tx::Tx;

/// Stores a new approval.
pub(crate) fn insert(tx: &mut Tx<'_, '_>, approval: &Approval) -> Result<ApprovalId> {
    let id = tx.db.allocate(tx)?;
    tx.db.approvals.append(tx, &id, approval)?;
    count_waiting(tx, None, approval)?;
    Ok(id)
}

pub(crate) fn update(tx: &mut Tx<'_, '_>, id: ApprovalId, change: impl FnOnce(&mut Approval)) -> Result<Approval> {
    let before = tx.db.approvals.require(tx, &id)?;
    let mut approval = before.clone();
    change(&mut approval);
    // Nothing has to be done after it expires.
    approval.due = approval.due.min(approval.expires);
    tx.db.approvals.replace(tx, &id, &before, &approval)?;
    count_waiting(tx, Some(&before), &approval)?;
    Ok(approval)
}

/// Removes an old, closed approval.
pub(crate) fn forget(tx: &mut Tx<'_, '_>, id: ApprovalId) -> Result<()> {
    tx.db.approvals.delete(tx, &id).map(drop)
}

/// Updates the count of the approver's waitlist.
fn count_waiting(tx: &mut Tx<'_, '_>, before: Option<&Approval>, now: &Approval) -> Result<()> {
    let (was, is) = (before.and_then(waits_for), waits_for(now));
    if was == is {
        return Ok(());
    }
    if let Some(user) = was {
        count(tx, user, |waits| waits.saturating_sub(1))?;
    }
    is.map_or(Ok(()), |user| count(tx, user, |waits| waits.saturating_add(1)))
}

/// The approver on whose waitlist an approval is.
fn waits_for(approval: &Approval) -> Option<&UserId> {
    let waits = approval.state.is_open() && approval.turn() == Turn::Later;
    approval.approver.as_ref().filter(|_| waits)
}

fn count(tx: &mut Tx<'_, '_>, user: &UserId, change: impl FnOnce(u64) -> u64) -> Result<()> {
    let key = PersonKey::of(user);
    let mut list =
        tx.db.waitlists.get(tx, &key)?.unwrap_or_else(|| Waitlist { user: user.clone(), waits: 0, digest: None });
    list.waits = change(list.waits);
    if list.waits == 0 && list.digest.is_none() {
        return tx.db.waitlists.delete(tx, &key).map(drop);
    }
    tx.db.waitlists.put(tx, &key, &list)
}

/// An approval that can still be decided.
pub(crate) fn open(tx: &Tx<'_, '_>, id: ApprovalId) -> Result<Option<Approval>> {
    Ok(tx.db.approvals.get(tx, &id)?.filter(|approval| approval.state.is_open()))
}
