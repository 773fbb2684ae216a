//! Appends records to a session.

use crate::model::id::SessionId;
use crate::model::record::SessionRecord;
use crate::model::session_command::{Guard, SessionOutcome};
use crate::tx::Tx;
use crate::workspaces::rows;
use crate::workspaces::rows::{Outcome, StoredSession};

/// Appends all of the records, or none.
pub(crate) fn append(
    tx: &mut Tx<'_, '_>,
    id: SessionId,
    guard: Guard,
    records: &[SessionRecord],
) -> Outcome<(StoredSession, SessionOutcome)> {
    let before = rows::guarded(tx, id, guard)?;
    if records.is_empty() {
        return Ok((before, SessionOutcome::Unchanged));
    }
    let mut found = before.clone();
    rows::add(tx, &mut found, records)?;
    rows::touch(tx, &mut found)?;
    rows::save(tx, &before, &found)?;
    Ok((found, SessionOutcome::Changed))
}
