//! The current session of a workspace, which is resumed when none is named.

use crate::model::id::SessionId;
use crate::model::session_command::SessionOutcome;
use crate::tx::Tx;
use crate::workspaces::rows;
use crate::workspaces::rows::{Outcome, StoredSession};

/// Makes a session the current one of its workspace.
pub(crate) fn switch(tx: &mut Tx<'_, '_>, id: SessionId) -> Outcome<(StoredSession, SessionOutcome)> {
    let found = rows::load(tx, id)?;
    let before = tx.db.workspaces.require(tx, &found.workspace)?.current;
    if before == Some(id) {
        return Ok((found, SessionOutcome::Unchanged));
    }
    tx.db.workspaces.update(tx, &found.workspace, |workspace| workspace.current = Some(id))?;
    Ok((found, SessionOutcome::Changed))
}

/// Clears the current session of a workspace if it is the one being removed.
pub(crate) fn leave(tx: &mut Tx<'_, '_>, found: &StoredSession) -> Outcome<()> {
    if tx.db.workspaces.require(tx, &found.workspace)?.current == Some(found.id) {
        tx.db.workspaces.update(tx, &found.workspace, |workspace| workspace.current = None)?;
    }
    Ok(())
}
