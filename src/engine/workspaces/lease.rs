//! Who works on a session.

use super::super::Cx;
use super::rows::{self, Found, Outcome};
use crate::model::id::SessionId;
use crate::model::record::Lease;
use crate::model::session_command::{Guard, Holder, SessionOutcome, SessionRefusal};
use crate::state::Write;

/// Gives a session to a process. One that is held is taken over only if its holder is dead beyond doubt, or is the same
/// process.
pub(super) fn take(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, guard): (SessionId, Guard),
    holder: Holder,
) -> Outcome<(Found, SessionOutcome)> {
    let before = rows::load(cx, txn, id)?;
    if let Some(lease) = cx.db.leases.get(txn, &id)? {
        if is_of(&lease, &holder) {
            return Ok((before, SessionOutcome::Leased { epoch: lease.epoch }));
        }
        if guard.dead != Some(lease.epoch) {
            let session = before.row.label.to_string();
            return Err(SessionRefusal::Held { session, pid: lease.pid, epoch: lease.epoch }.into());
        }
    }
    let mut found = before.clone();
    found.row.lease_epoch = found.row.lease_epoch.saturating_add(1);
    let epoch = found.row.lease_epoch;
    let Holder { pid, started, boot } = holder;
    let lease = Lease { epoch, pid, started, boot, since: cx.now.wall, beat: cx.now.wall };
    cx.db.leases.put(txn, &id, &lease)?;
    rows::save(cx, txn, &before, &found)?;
    Ok((found, SessionOutcome::Leased { epoch }))
}

fn is_of(lease: &Lease, holder: &Holder) -> bool {
    (lease.pid, lease.started, lease.boot.as_str()) == (holder.pid, holder.started, holder.boot.as_str())
}

/// Notes that the holder is alive.
pub(super) fn beat(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId, epoch: u64) -> Outcome<(Found, SessionOutcome)> {
    let found = held(cx, txn, id, epoch)?;
    cx.db.leases.update(txn, &id, |lease| lease.beat = cx.now.wall)?;
    Ok((found, SessionOutcome::Leased { epoch }))
}

/// Ends a lease.
pub(super) fn release(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId, epoch: u64) -> Outcome<(Found, SessionOutcome)> {
    let found = held(cx, txn, id, epoch)?;
    cx.db.leases.delete(txn, &id)?;
    Ok((found, SessionOutcome::Changed))
}

fn held(cx: &Cx<'_>, txn: &Write<'_>, id: SessionId, epoch: u64) -> Outcome<Found> {
    rows::guarded(cx, txn, id, Guard { epoch: Some(epoch), ..Guard::default() })
}
