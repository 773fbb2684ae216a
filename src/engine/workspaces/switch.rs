//! Which session of a workspace is resumed when none is named.

use super::super::Cx;
use super::rows::{self, Found, Outcome};
use crate::model::id::SessionId;
use crate::model::session_command::SessionOutcome;
use crate::state::Write;

/// Makes a session the current one of its workspace.
pub(super) fn switch(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId) -> Outcome<(Found, SessionOutcome)> {
    let found = rows::load(cx, txn, id)?;
    let before = cx.db.workspaces.require(txn, &found.workspace)?.current;
    if before == Some(id) {
        return Ok((found, SessionOutcome::Unchanged));
    }
    cx.db.workspaces.update(txn, &found.workspace, |workspace| workspace.current = Some(id))?;
    Ok((found, SessionOutcome::Changed))
}

/// Forgets that a session is the current one, because it goes.
pub(super) fn leave(cx: &Cx<'_>, txn: &mut Write<'_>, found: &Found) -> Outcome<()> {
    if cx.db.workspaces.require(txn, &found.workspace)?.current == Some(found.id) {
        cx.db.workspaces.update(txn, &found.workspace, |workspace| workspace.current = None)?;
    }
    Ok(())
}
