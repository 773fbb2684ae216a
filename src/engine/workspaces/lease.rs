//! Leases: which process holds a session.

use crate::model::id::SessionId;
use crate::model::record::Lease;
use crate::model::session_command::{Guard, Holder, SessionOutcome, SessionRefusal};
use crate::tx::Tx;
use crate::workspaces::rows;
use crate::workspaces::rows::{Outcome, StoredSession};

/// Gives a session to a process. A session that is held is taken over only if its holder is known to be dead, or is the
/// same process.
pub(crate) fn take(
    tx: &mut Tx<'_, '_>,
    id: SessionId,
    guard: Guard,
    holder: Holder,
) -> Outcome<(StoredSession, SessionOutcome)> {
    let before = rows::load(tx, id)?;
    if let Some(lease) = tx.db.leases.get(tx, &id)? {
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
    let lease = Lease { epoch, pid, started, boot, since: tx.now.wall, beat: tx.now.wall };
    tx.db.leases.put(tx, &id, &lease)?;
    rows::save(tx, &before, &found)?;
    Ok((found, SessionOutcome::Leased { epoch }))
}

fn is_of(lease: &Lease, holder: &Holder) -> bool {
    (lease.pid, lease.started, lease.boot.as_str()) == (holder.pid, holder.started, holder.boot.as_str())
}

/// Records that the holder is alive.
pub(crate) fn beat(tx: &mut Tx<'_, '_>, id: SessionId, epoch: u64) -> Outcome<(StoredSession, SessionOutcome)> {
    let found = held(tx, id, epoch)?;
    let now = tx.now.wall;
    tx.db.leases.update(tx, &id, |lease| lease.beat = now)?;
    Ok((found, SessionOutcome::Leased { epoch }))
}

/// Ends a lease.
pub(crate) fn release(tx: &mut Tx<'_, '_>, id: SessionId, epoch: u64) -> Outcome<(StoredSession, SessionOutcome)> {
    let found = held(tx, id, epoch)?;
    tx.db.leases.delete(tx, &id)?;
    Ok((found, SessionOutcome::Changed))
}

fn held(tx: &Tx<'_, '_>, id: SessionId, epoch: u64) -> Outcome<StoredSession> {
    rows::guarded(tx, id, Guard { epoch: Some(epoch), ..Guard::default() })
}
