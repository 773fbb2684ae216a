//! A new session of a workspace.

use super::super::Cx;
use super::rows::{self, Found, Outcome};
use super::{locate, rename};
use crate::model::id::ChangeId;
use crate::model::session::WorkspaceSession;
use crate::model::session_command::{Home, NewSession, SessionRefusal};
use crate::model::workspace::{WorkspaceKey, key_text};
use crate::state::Write;

/// Makes a session with its first records.
pub(super) fn create(cx: &Cx<'_>, txn: &mut Write<'_>, new: NewSession) -> Outcome<Found> {
    let workspace = settle(cx, txn, &new.home)?;
    rename::check_new(&new)?;
    let label = rows::choose_label(cx, txn, workspace, new.label)?;
    let now = rows::stamp(cx, txn, workspace)?;
    let order: ChangeId = cx.db.allocate(txn)?;
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
    let before = rows::insert(cx, txn, workspace, row)?;
    if new.records.is_empty() {
        return Ok(before);
    }
    let mut found = before.clone();
    rows::add(cx, txn, &mut found, &new.records)?;
    rows::save(cx, txn, &before, &found)?;
    Ok(found)
}

/// The workspace of a new session; its directory must not have been replaced.
pub(super) fn settle(cx: &Cx<'_>, txn: &mut Write<'_>, home: &Home) -> Outcome<WorkspaceKey> {
    let key = match home {
        Home::Known(key) => *key,
        Home::Seen(sight) => locate::ensure(cx, txn, sight)?.map_err(SessionRefusal::Workspace)?,
    };
    match cx.db.workspaces.get(txn, &key)? {
        Some(workspace) if workspace.replaced.is_none() => Ok(key),
        _ => Err(SessionRefusal::NoWorkspace { workspace: key_text(key) }.into()),
    }
}
