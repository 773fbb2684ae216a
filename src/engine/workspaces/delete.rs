//! Moves sessions to the trash and restores them.

use crate::Result;
use crate::model::id::SessionId;
use crate::model::session_command::{Guard, SessionOutcome, SessionRefusal};
use crate::tx::Tx;
use crate::workspaces::rows::{Outcome, StoredSession};
use crate::workspaces::{purge, rows, switch};

/// Moves a session to the trash, unless a process holds it. Forks of it keep what they share.
pub(crate) fn delete(tx: &mut Tx<'_, '_>, id: SessionId, guard: Guard) -> Outcome<(StoredSession, SessionOutcome)> {
    let before = rows::load(tx, id)?;
    protect(tx, &before, guard)?;
    switch::leave(tx, &before)?;
    tx.db.leases.delete(tx, &id)?;
    let mut found = before.clone();
    found.row.deleted = Some(tx.now.wall);
    rows::save(tx, &before, &found)?;
    Ok((found, SessionOutcome::Changed))
}

/// Refuses the removal of a session that a process holds.
pub(crate) fn protect(tx: &Tx<'_, '_>, found: &StoredSession, guard: Guard) -> Outcome<()> {
    let lease = tx.db.leases.get(tx, &found.id)?.filter(|lease| guard.dead != Some(lease.epoch));
    if let Some(lease) = lease {
        return Err(SessionRefusal::Active { session: found.row.label.to_string(), pid: lease.pid }.into());
    }
    Ok(())
}

/// Restores a session from the trash, unless another session has its id by now or it is being purged.
pub(crate) fn restore(tx: &mut Tx<'_, '_>, id: SessionId) -> Outcome<(StoredSession, SessionOutcome)> {
    let before = rows::any(tx, id)?;
    let label = before.row.label.to_string();
    match before.row.deleted {
        None => return Err(SessionRefusal::NotInTrash { session: label }.into()),
        Some(purge::UNDER_WAY) => return Err(SessionRefusal::NotFound { session: label }.into()),
        Some(_) => {}
    }
    if tx.db.session_labels.contains(tx, &rows::label_key(before.workspace, &before.row.label)?)? {
        return Err(SessionRefusal::Exists { session: label }.into());
    }
    let mut found = before.clone();
    found.row.deleted = None;
    rows::save(tx, &before, &found)?;
    Ok((found, SessionOutcome::Changed))
}

/// A session in the trash whose time is over. Sessions that are being purged come first.
pub(crate) fn due(tx: &Tx<'_, '_>, end: crate::model::time::Timestamp) -> Result<Option<SessionId>> {
    Ok(tx.db.sessions_by_deletion.first(tx, ..)?.filter(|(key, ())| key.at < end).map(|(key, ())| key.id))
}
