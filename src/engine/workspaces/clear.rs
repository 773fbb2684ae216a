//! Clears a session.

use crate::model::id::SessionId;
use crate::model::session_command::{Guard, SessionOutcome};
use crate::tx::Tx;
use crate::workspaces::rows;
use crate::workspaces::rows::{Outcome, StoredSession};

/// Starts an empty revision. Id, title, model, lineage and creation time stay, and the previous revision keeps the
/// records. A session without records stays as it is.
pub(crate) fn clear(tx: &mut Tx<'_, '_>, id: SessionId, guard: Guard) -> Outcome<(StoredSession, SessionOutcome)> {
    let before = rows::guarded(tx, id, guard)?;
    if before.row.records == 0 && before.row.compaction.is_none() {
        return Ok((before, SessionOutcome::Unchanged));
    }
    let mut found = before.clone();
    rows::renew(tx, &mut found)?;
    rows::touch(tx, &mut found)?;
    rows::save(tx, &before, &found)?;
    Ok((found, SessionOutcome::Shortened { removed: before.row.messages }))
}
