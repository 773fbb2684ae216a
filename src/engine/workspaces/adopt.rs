//! `hearth workspace adopt`: somebody says that a directory is a workspace that the store knows from elsewhere.

use super::Outcome;
use super::locate::{Located, displace, happened, relations, stored};
use crate::engine::{Cx, Result};
use crate::model::report::Refusal;
use crate::model::workspace::{
    AdoptFrom, Workspace, WorkspaceFact, WorkspaceKey, WorkspaceReply, WorkspaceSight, key_text,
};
use crate::state::{Digest, Write};

/// Makes a directory be a known workspace: its history stays, its path is the directory's from now on. A directory that is
/// that workspace already stays as it is.
pub(super) fn adopt(cx: &Cx<'_>, txn: &mut Write<'_>, sight: &WorkspaceSight, from: &AdoptFrom) -> Result<Outcome> {
    let found = relations(cx.db, txn, cx.groups_path, sight)?;
    let own = match &found.located {
        Located::Known(key) => Some(*key),
        _ => None,
    };
    let key = match wanted(cx, txn, &found.located, &found.earlier, from)? {
        Ok(key) => key,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if own == Some(key) {
        return Ok(Ok(WorkspaceReply::Adopted { key, changed: false }));
    }
    let before = cx.db.workspaces.require(txn, &key)?;
    if let Err(refusal) = allowed(cx, txn, sight, (key, &before), own)? {
        return Ok(Err(refusal));
    }
    let live = sight.also_at.contains(&before.path);
    let (after, fact) = decide(&before, sight, live);
    if !live {
        displace(cx, txn, sight, Some(key))?;
    }
    if let Some(own) = own {
        set_aside(cx, txn, own)?;
    }
    stored(cx, txn, key, (Some(&before), &after))?;
    happened(cx, txn, key, fact)?;
    Ok(Ok(WorkspaceReply::Adopted { key, changed: true }))
}

/// Which workspace is meant.
fn wanted(
    cx: &Cx<'_>,
    txn: &Write<'_>,
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
        AdoptFrom::Key(key) if cx.db.workspaces.contains(txn, key)? => Ok(Ok(*key)),
        AdoptFrom::Key(key) => {
            nothing(format!("there is no workspace {}; see `hearth workspace list`", key_text(*key)))
        }
        AdoptFrom::Path(path) => {
            let rows = cx.db.workspaces_by_path.collect_last(txn, &Digest::of(path), 1)?;
            match rows.first() {
                Some(((_, fingerprint, discriminator), ())) => Ok(Ok((*fingerprint, *discriminator))),
                None => nothing(format!(
                    "no workspace is at {}; see `hearth workspace list`{}",
                    String::from_utf8_lossy(path),
                    if earlier.is_empty() { "" } else { ", and `hearth workspace status` for those that were here" }
                )),
            }
        }
    }
}

/// Whether it may be done at all.
fn allowed(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    sight: &WorkspaceSight,
    (key, row): (WorkspaceKey, &Workspace),
    own: Option<WorkspaceKey>,
) -> Result<std::result::Result<(), Refusal>> {
    let here = String::from_utf8_lossy(&sight.path);
    let refused = |code, message| Ok(Err(Refusal { code, message }));
    if sight.witness.is_none() {
        return refused("workspace_missing", format!("there is no directory {here}: nothing was adopted"));
    }
    let agents = |row: &Workspace| row.agent.is_some();
    let own_row = own.map(|own| cx.db.workspaces.require(txn, &own)).transpose()?;
    if agents(row) || own_row.as_ref().is_some_and(agents) {
        let message = format!("the folder of an agent stays the agent's: {here} and {} are not joined", key_text(key));
        return refused("agent_folder", message);
    }
    if let Some(own) = own
        && cx.db.recency.first_in(txn, &own)?.is_some()
    {
        let one = super::view::newest(cx.db, txn, key, 1)?;
        let one = one.first().map_or_else(|| "ID".to_owned(), |(id, _)| id.to_string());
        let message = format!(
            "{here} has sessions of its own already (workspace {}), so those of {} stay where they are: `hearth session \
             resume {one} --any-workspace` goes on here with one of them as a fork; or delete those of this directory, \
             then adopt again",
            key_text(own),
            key_text(key)
        );
        return refused("has_own_sessions", message);
    }
    Ok(Ok(()))
}

/// A workspace without sessions makes room for the adopted one: it is an earlier one that nobody comes back to.
fn set_aside(cx: &Cx<'_>, txn: &mut Write<'_>, own: WorkspaceKey) -> Result<()> {
    let before = cx.db.workspaces.require(txn, &own)?;
    let after = Workspace { witness: None, replaced: Some(cx.now.wall), ..before.clone() };
    stored(cx, txn, own, (Some(&before), &after))?;
    if before.replaced.is_none() { happened(cx, txn, own, WorkspaceFact::Replaced) } else { Ok(()) }
}

/// The workspace as it is once it is adopted, and what to note. `live` is whether the directory is at the old path as well.
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
