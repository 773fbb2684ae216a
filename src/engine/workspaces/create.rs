//! Creates sessions in a workspace.

use crate::model::id::ChangeId;
use crate::model::session::WorkspaceSession;
use crate::model::session_command::{Home, NewSession, SessionRefusal};
use crate::model::workspace::{WorkspaceKey, key_text};
use crate::tx::Tx;
use crate::workspaces::rows::{Outcome, StoredSession};
use crate::workspaces::{locate, rename, rows};

/// Creates a session with its first records.
pub(crate) fn create(tx: &mut Tx<'_, '_>, new: NewSession) -> Outcome<StoredSession> {
    let workspace = settle(tx, &new.home)?;
    rename::check_new(&new)?;
    let label = rows::choose_label(tx, workspace, new.label)?;
    let now = rows::stamp(tx, workspace)?;
    let order: ChangeId = tx.db.allocate(tx)?;
    let (created, updated) = new.times.unwrap_or((now, now));
    let row = WorkspaceSession {
        title: new.title,
        model: new.model,
        created,
        updated,
        order: order.number(),
        source: new.source,
        ..WorkspaceSession::new(label, now)
    };
    let before = rows::insert(tx, workspace, row)?;
    if new.records.is_empty() {
        return Ok(before);
    }
    let mut found = before.clone();
    rows::add(tx, &mut found, &new.records)?;
    rows::save(tx, &before, &found)?;
    Ok(found)
}

/// The workspace of a new session. Refused if another directory has replaced it.
pub(crate) fn settle(tx: &mut Tx<'_, '_>, home: &Home) -> Outcome<WorkspaceKey> {
    let key = match home {
        Home::Known(key) => *key,
        Home::Seen(sight) => locate::ensure(tx, sight)?.map_err(SessionRefusal::Workspace)?,
    };
    match tx.db.workspaces.get(tx, &key)? {
        Some(workspace) if workspace.replaced.is_none() => Ok(key),
        _ => Err(SessionRefusal::NoWorkspace { workspace: key_text(key) }.into()),
    }
}
