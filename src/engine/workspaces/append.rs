//! More records at the end of a session.

use super::super::Cx;
use super::rows::{self, Found, Outcome};
use crate::model::id::SessionId;
use crate::model::record::SessionRecord;
use crate::model::session_command::{Guard, SessionOutcome};
use crate::state::Write;

/// Adds records, all of them or none.
pub(super) fn append(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, guard): (SessionId, Guard),
    records: &[SessionRecord],
) -> Outcome<(Found, SessionOutcome)> {
    let before = rows::guarded(cx, txn, id, guard)?;
    if records.is_empty() {
        return Ok((before, SessionOutcome::Unchanged));
    }
    let mut found = before.clone();
    rows::add(cx, txn, &mut found, records)?;
    rows::touch(cx, txn, &mut found)?;
    rows::save(cx, txn, &before, &found)?;
    Ok((found, SessionOutcome::Changed))
}
