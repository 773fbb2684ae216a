//! A session begins anew.

use super::super::Cx;
use super::rows::{self, Found, Outcome};
use crate::model::id::SessionId;
use crate::model::session_command::{Guard, SessionOutcome};
use crate::state::Write;

/// Begins a revision without records. Id, title, model, lineage and the time of its making stay; what was said is kept in
/// the revision before. A session without records stays as it is.
pub(super) fn clear(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId, guard: Guard) -> Outcome<(Found, SessionOutcome)> {
    let before = rows::guarded(cx, txn, id, guard)?;
    if before.row.records == 0 && before.row.compaction.is_none() {
        return Ok((before, SessionOutcome::Unchanged));
    }
    let mut found = before.clone();
    rows::renew(cx, txn, &mut found)?;
    rows::touch(cx, txn, &mut found)?;
    rows::save(cx, txn, &before, &found)?;
    Ok((found, SessionOutcome::Shortened { removed: before.row.messages }))
}
