//! The way into the trash and out of it.

use super::super::{Cx, Result};
use super::rows::{self, Found, Outcome};
use super::{purge, switch};
use crate::model::id::SessionId;
use crate::model::session_command::{Guard, SessionOutcome, SessionRefusal};
use crate::state::Write;

/// Puts a session into the trash, unless somebody works on it. Forks of it keep what they share.
pub(super) fn delete(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: SessionId,
    guard: Guard,
) -> Outcome<(Found, SessionOutcome)> {
    let before = rows::load(cx, txn, id)?;
    protect(cx, txn, &before, guard)?;
    switch::leave(cx, txn, &before)?;
    cx.db.leases.delete(txn, &id)?;
    let mut found = before.clone();
    found.row.deleted = Some(cx.now.wall);
    rows::save(cx, txn, &before, &found)?;
    Ok((found, SessionOutcome::Changed))
}

/// Refuses what would take a session away from whoever works on it.
pub(super) fn protect(cx: &Cx<'_>, txn: &Write<'_>, found: &Found, guard: Guard) -> Outcome<()> {
    let lease = cx.db.leases.get(txn, &found.id)?.filter(|lease| guard.dead != Some(lease.epoch));
    if let Some(lease) = lease {
        return Err(SessionRefusal::Active { session: found.row.label.to_string(), pid: lease.pid }.into());
    }
    Ok(())
}

/// Takes a session out of the trash, unless another one has its id by now or it is being removed for good.
pub(super) fn restore(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId) -> Outcome<(Found, SessionOutcome)> {
    let before = rows::any(cx, txn, id)?;
    let label = before.row.label.to_string();
    match before.row.deleted {
        None => return Err(SessionRefusal::NotInTrash { session: label }.into()),
        Some(purge::UNDER_WAY) => return Err(SessionRefusal::NotFound { session: label }.into()),
        Some(_) => {}
    }
    if cx.db.session_labels.contains(txn, &rows::label_key(before.workspace, &before.row.label)?)? {
        return Err(SessionRefusal::Exists { session: label }.into());
    }
    let mut found = before.clone();
    found.row.deleted = None;
    rows::save(cx, txn, &before, &found)?;
    Ok((found, SessionOutcome::Changed))
}

/// Finds something in the trash that is due: sessions that are being removed come first.
pub(super) fn due(cx: &Cx<'_>, txn: &Write<'_>, end: crate::model::time::Timestamp) -> Result<Option<SessionId>> {
    Ok(cx.db.trash.first(txn, ..)?.filter(|((since, _), ())| *since < end).map(|((_, id), ())| id))
}
