//! `hearth workspace adopt`: declares that a directory is a workspace that the store knows from another path.

use crate::Result;
use crate::model::report::Refusal;
use crate::model::workspace::{Workspace, WorkspaceFact, WorkspaceKey, key_text};
use crate::model::workspace_command::{AdoptFrom, WorkspaceReply};
use crate::model::workspace_sight::WorkspaceSight;
use crate::state::Digest;
use crate::tx::Tx;
use crate::workspaces::locate::Located;
use crate::workspaces::{Outcome, locate, view};

/// Makes a directory a known workspace. Its history stays, and its path becomes the directory's. If the directory
/// already is that workspace, nothing changes.
pub(crate) fn adopt(tx: &mut Tx<'_, '_>, sight: &WorkspaceSight, from: &AdoptFrom) -> Result<Outcome> {
    let found = locate::relations(tx.db, tx, tx.cx.groups_path, sight)?;
    let own = match &found.located {
        Located::Known(key) => Some(*key),
        _ => None,
    };
    let key = match wanted(tx, &found.located, &found.earlier, from)? {
        Ok(key) => key,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if own == Some(key) {
        return Ok(Ok(WorkspaceReply::Adopted { key, changed: false }));
    }
    let before = tx.db.workspaces.require(tx, &key)?;
    if let Err(refusal) = allowed(tx, sight, key, &before, own)? {
        return Ok(Err(refusal));
    }
    let live = sight.also_at.contains(&before.path);
    let (after, fact) = decide(&before, sight, live);
    if !live {
        locate::displace(tx, sight, Some(key))?;
    }
    if let Some(own) = own {
        set_aside(tx, own)?;
    }
    locate::stored(tx, key, Some(&before), &after)?;
    locate::happened(tx, key, fact)?;
    Ok(Ok(WorkspaceReply::Adopted { key, changed: true }))
}

/// The workspace to adopt.
fn wanted(
    tx: &Tx<'_, '_>,
    located: &Located,
    earlier: &[WorkspaceKey],
    from: &AdoptFrom,
) -> Result<std::result::Result<WorkspaceKey, Refusal>> {
    let nothing = |message| Ok(Err(Refusal { code: "nothing_to_adopt", message }));
    match from {
        AdoptFrom::Found => match located {
            Located::Moved { key, .. } | Located::Alias { key, .. } | Located::Replaced { key } => Ok(Ok(*key)),
            Located::Known(key) => Ok(Ok(*key)),
            Located::Unknown => nothing(
                "no workspace looks like this directory, and none was at its path: name the one you mean with --from, \
                 see `hearth workspace list`"
                    .to_owned(),
            ),
        },
        AdoptFrom::Key(key) if tx.db.workspaces.contains(tx, key)? => Ok(Ok(*key)),
        AdoptFrom::Key(key) => nothing(format!("workspace {} not found; see `hearth workspace list`", key_text(*key))),
        AdoptFrom::Path(path) => {
            let rows = tx.db.workspaces_by_path.collect_last(tx, &Digest::of(path), 1)?;
            match rows.first() {
                Some((key, ())) => Ok(Ok(key.workspace)),
                None => nothing(format!(
                    "no workspace is at {}; see `hearth workspace list`{}",
                    String::from_utf8_lossy(path),
                    if earlier.is_empty() { "" } else { ", and `hearth workspace status` for those that were here" }
                )),
            }
        }
    }
}

/// Whether the adoption is allowed.
fn allowed(
    tx: &Tx<'_, '_>,
    sight: &WorkspaceSight,
    key: WorkspaceKey,
    row: &Workspace,
    own: Option<WorkspaceKey>,
) -> Result<std::result::Result<(), Refusal>> {
    let here = String::from_utf8_lossy(&sight.path);
    let refused = |code, message| Ok(Err(Refusal { code, message }));
    if sight.witness.is_none() {
        return refused("workspace_missing", format!("directory {here} does not exist: nothing was adopted"));
    }
    let agents = |row: &Workspace| row.agent.is_some();
    let own_row = own.map(|own| tx.db.workspaces.require(tx, &own)).transpose()?;
    if agents(row) || own_row.as_ref().is_some_and(agents) {
        let message = format!("the folder of an agent stays the agent's: {here} and {} are not joined", key_text(key));
        return refused("agent_folder", message);
    }
    if let Some(own) = own
        && tx.db.sessions_by_update.first_in(tx, &own)?.is_some()
    {
        let one = view::newest(tx.db, tx, key, 1)?;
        let one = one.first().map_or_else(|| "ID".to_owned(), |(id, _)| id.to_string());
        let message = format!(
            "{here} has sessions of its own already (workspace {}), so those of {} stay where they are: `hearth workspace sessions \
             resume {one} --any-workspace` goes on here with one of them as a fork; or delete those of this directory, \
             then adopt again",
            key_text(own),
            key_text(key)
        );
        return refused("has_own_sessions", message);
    }
    Ok(Ok(()))
}

/// Sets aside the directory's own workspace, which has no sessions, in favor of the adopted one. It becomes an earlier
/// workspace of this path that no directory returns to.
fn set_aside(tx: &mut Tx<'_, '_>, own: WorkspaceKey) -> Result<()> {
    let before = tx.db.workspaces.require(tx, &own)?;
    let after = Workspace { witness: None, replaced: Some(tx.now.wall), ..before.clone() };
    locate::stored(tx, own, Some(&before), &after)?;
    if before.replaced.is_none() { locate::happened(tx, own, WorkspaceFact::Replaced) } else { Ok(()) }
}

/// The workspace after the adoption, and the event to record. `live` tells whether the directory is also at the old
/// path.
fn decide(before: &Workspace, sight: &WorkspaceSight, live: bool) -> (Workspace, WorkspaceFact) {
    let mut after = before.clone();
    after.witness = sight.witness.clone();
    after.project = sight.project.clone();
    after.replaced = None;
    if live {
        after.aliases.push(sight.path.clone());
        return (after, WorkspaceFact::Aliased { path: sight.path.clone() });
    }
    if before.path == sight.path {
        return (after, WorkspaceFact::Attached);
    }
    after.aliases.retain(|path| *path != sight.path);
    after.former_paths.retain(|path| *path != sight.path);
    after.former_paths.push(std::mem::replace(&mut after.path, sight.path.clone()));
    (after, WorkspaceFact::Adopted { from: before.path.clone() })
}
