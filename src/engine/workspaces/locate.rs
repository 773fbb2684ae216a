//! Which workspace a directory is. The fingerprint only begins a key: whether a directory is a workspace is said by the
//! complete path and by what the directory looks like.

use crate::engine::{Cx, Result};
use crate::model::report::Refusal;
use crate::model::workspace::{
    Discriminator, Fingerprint, Workspace, WorkspaceEvent, WorkspaceFact, WorkspaceKey, WorkspaceSight, key_text,
};
use crate::state::{self, Digest, Read, Tables, Write};

/// What a directory is to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// This workspace.
    Known(WorkspaceKey),
    /// No workspace, and nothing looks like it.
    Unknown,
    /// It looks like a workspace that is not at its path any more. Nothing is written until it is adopted.
    Moved {
        /// Which.
        key: WorkspaceKey,
        /// Where it was, raw bytes.
        from: Vec<u8>,
    },
    /// It is a workspace seen through another path. It is a workspace of its own unless it is adopted.
    Alias {
        /// Which.
        key: WorkspaceKey,
        /// Where it is as well, raw bytes.
        at: Vec<u8>,
    },
    /// Another directory was at its path. What is begun here is kept apart from what was there, unless it is adopted.
    Replaced {
        /// The newest one that was there.
        key: WorkspaceKey,
    },
}

/// What a directory is to the store, with everything that is related to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relations {
    /// What it is.
    pub located: Located,
    /// Workspaces of other directories that were at its path, the oldest first.
    pub earlier: Vec<WorkspaceKey>,
    /// Other workspaces that look like it, with their paths as they are kept.
    pub alike: Vec<(WorkspaceKey, Vec<u8>)>,
}

type Row = (WorkspaceKey, Workspace);

/// Which workspace a directory is. `groups` is the directory of the agent groups' folders.
///
/// # Errors
/// Those of reading.
pub fn locate(db: &Tables, txn: &Read<'_>, groups: &[u8], sight: &WorkspaceSight) -> Result<Located> {
    Ok(relations(db, txn, groups, sight)?.located)
}

/// As [`locate`], with everything related.
///
/// # Errors
/// Those of reading.
pub fn relations(db: &Tables, txn: &Read<'_>, groups: &[u8], sight: &WorkspaceSight) -> Result<Relations> {
    let at_path = at_path(db, txn, groups, &sight.path)?;
    let alike = alike(db, txn, sight)?;
    let located = decide(sight, &at_path, &alike);
    let own = match &located {
        Located::Known(key) => Some(*key),
        _ => None,
    };
    let others = |rows: Vec<Row>| rows.into_iter().filter(move |(key, _)| Some(*key) != own);
    Ok(Relations {
        located,
        alike: others(alike).map(|(key, row)| (key, row.path)).collect(),
        earlier: others(at_path).map(|(key, _)| key).collect(),
    })
}

/// The workspace of a directory, which is made if there is none. Refused for a directory that was moved and not adopted.
///
/// # Errors
/// Those of the store.
pub fn ensure(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    sight: &WorkspaceSight,
) -> Result<std::result::Result<WorkspaceKey, Refusal>> {
    match locate(cx.db, txn, cx.groups_path, sight)? {
        Located::Known(key) => {
            seen(cx, txn, key, sight)?;
            Ok(Ok(key))
        }
        Located::Moved { key, from } => Ok(Err(moved(sight, key, &from))),
        Located::Unknown | Located::Alias { .. } | Located::Replaced { .. } => {
            displace(cx, txn, sight, None)?;
            make(cx, txn, sight).map(Ok)
        }
    }
}

fn moved(sight: &WorkspaceSight, key: WorkspaceKey, from: &[u8]) -> Refusal {
    let (here, there) = (String::from_utf8_lossy(&sight.path), String::from_utf8_lossy(from));
    let key = key_text(key);
    Refusal {
        code: "workspace_moved",
        message: format!(
            "{here} is the directory that was {there} when its sessions were kept (workspace {key}): run `hearth workspace \
             adopt` in it to go on with them here"
        ),
    }
}

/// A new workspace with a key that no other one ever had.
fn make(cx: &Cx<'_>, txn: &mut Write<'_>, sight: &WorkspaceSight) -> Result<WorkspaceKey> {
    let key = free_key(cx, txn, Fingerprint::of_path(&sight.path))?;
    let workspace = Workspace {
        path: sight.path.clone(),
        former_paths: Vec::new(),
        aliases: Vec::new(),
        agent: None,
        witness: sight.witness.clone(),
        project: sight.project.clone(),
        replaced: None,
        current: None,
        created: cx.now.wall,
    };
    stored(cx, txn, key, (None, &workspace))?;
    happened(cx, txn, key, WorkspaceFact::Made)?;
    Ok(key)
}

/// Takes down what a known directory looks like now.
fn seen(cx: &Cx<'_>, txn: &mut Write<'_>, key: WorkspaceKey, sight: &WorkspaceSight) -> Result<()> {
    let before = cx.db.workspaces.require(txn, &key)?;
    if before.agent.is_some() || sight.witness.is_none() {
        return Ok(());
    }
    let after =
        Workspace { witness: sight.witness.clone(), project: sight.project.clone(), replaced: None, ..before.clone() };
    if before.replaced.is_some() {
        displace(cx, txn, sight, Some(key))?;
        happened(cx, txn, key, WorkspaceFact::Returned)?;
    }
    if before == after { Ok(()) } else { stored(cx, txn, key, (Some(&before), &after)) }
}

/// Notes for all other workspaces at a path that another directory is there now.
pub(super) fn displace(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    sight: &WorkspaceSight,
    own: Option<WorkspaceKey>,
) -> Result<()> {
    for (key, before) in at_path(cx.db, txn, cx.groups_path, &sight.path)? {
        if Some(key) != own && before.agent.is_none() && before.replaced.is_none() {
            let after = Workspace { replaced: Some(cx.now.wall), ..before.clone() };
            stored(cx, txn, key, (Some(&before), &after))?;
            happened(cx, txn, key, WorkspaceFact::Replaced)?;
        }
    }
    Ok(())
}

/// Writes a workspace and what it is found by.
pub(in crate::engine) fn stored(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    key: WorkspaceKey,
    (before, after): (Option<&Workspace>, &Workspace),
) -> Result<()> {
    let (fingerprint, discriminator) = key;
    let by_path = |row: &Workspace| (Digest::of(&row.path), fingerprint, discriminator);
    let by_witness = |row: &Workspace| Some((Digest::of_witness(row.witness.as_ref()?), fingerprint, discriminator));
    if let Some(before) = before {
        cx.db.workspaces_by_path.delete(txn, &by_path(before))?;
        if let Some(witness) = by_witness(before) {
            cx.db.workspaces_by_witness.delete(txn, &witness)?;
        }
    }
    cx.db.workspaces_by_path.put(txn, &by_path(after), &())?;
    if let Some(witness) = by_witness(after) {
        cx.db.workspaces_by_witness.put(txn, &witness, &())?;
    }
    cx.db.workspaces.put(txn, &key, after)
}

/// Notes what happened to a workspace.
pub(in crate::engine) fn happened(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (fingerprint, discriminator): WorkspaceKey,
    what: WorkspaceFact,
) -> Result<()> {
    let last = cx.db.workspace_events.last_in(txn, &(fingerprint, discriminator))?;
    let number = last.map_or(0, |((_, _, number), _)| number).saturating_add(1);
    let event = WorkspaceEvent { at: cx.now.wall, what };
    cx.db.workspace_events.put(txn, &(fingerprint, discriminator, number), &event)
}

/// The next key of a fingerprint. Keys are not used again.
pub(in crate::engine) fn free_key(cx: &Cx<'_>, txn: &Read<'_>, fingerprint: Fingerprint) -> Result<WorkspaceKey> {
    let next = match cx.db.workspaces.last_in(txn, &fingerprint)? {
        Some(((_, Discriminator(last)), _)) => last.checked_add(1),
        None => Some(0),
    };
    let full = || state::Error::Exists { table: "workspaces", key: format!("{fingerprint} with every discriminator") };
    Ok((fingerprint, Discriminator(next.ok_or_else(full)?)))
}

/// Workspaces at a path, the oldest first. The folder of an agent is one workspace, whatever is there.
fn at_path(db: &Tables, txn: &Read<'_>, groups: &[u8], path: &[u8]) -> Result<Vec<Row>> {
    if let Some(relative) = relative(groups, path) {
        let folder = rows_at(db, txn, &relative)?.into_iter().rfind(|(_, row)| row.agent.is_some());
        if let Some(folder) = folder {
            return Ok(vec![folder]);
        }
    }
    let mut rows = rows_at(db, txn, path)?;
    rows.retain(|(_, row)| row.agent.is_none());
    Ok(rows)
}

fn rows_at(db: &Tables, txn: &Read<'_>, path: &[u8]) -> Result<Vec<Row>> {
    let found = db.workspaces_by_path.collect_prefix(txn, &Digest::of(path), usize::MAX)?;
    let mut rows = Vec::new();
    for ((_, fingerprint, discriminator), ()) in found {
        let row = db.workspaces.require(txn, &(fingerprint, discriminator))?;
        if row.path == path {
            rows.push(((fingerprint, discriminator), row));
        }
    }
    // Keys of one path differ in their fingerprints when a directory was adopted there.
    rows.sort_by_key(|(key, row)| (row.created, *key));
    Ok(rows)
}

/// Workspaces of people and programs that look like a directory, wherever they are.
fn alike(db: &Tables, txn: &Read<'_>, sight: &WorkspaceSight) -> Result<Vec<Row>> {
    let Some(witness) = &sight.witness else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for ((_, fingerprint, discriminator), ()) in
        db.workspaces_by_witness.collect_prefix(txn, &Digest::of_witness(witness), usize::MAX)?
    {
        let row = db.workspaces.require(txn, &(fingerprint, discriminator))?;
        if row.agent.is_none() && row.witness.as_ref().is_some_and(|known| known.is_of_same(witness)) {
            rows.push(((fingerprint, discriminator), row));
        }
    }
    rows.sort_by_key(|(key, row)| (row.created, *key));
    Ok(rows)
}

/// How the folder of an agent is kept: relative to the data directory. None for all that does not lie right in `groups`.
fn relative(groups: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let name = path.strip_prefix(groups)?.strip_prefix(b"/")?;
    (!name.is_empty() && !name.contains(&b'/')).then(|| [b"groups/", name].concat())
}

/// What a directory is, from the workspaces at its path and those that look like it, both from the oldest on.
fn decide(sight: &WorkspaceSight, at_path: &[Row], alike: &[Row]) -> Located {
    if let Some((key, _)) = at_path.iter().find(|(_, row)| row.agent.is_some()) {
        return Located::Known(*key);
    }
    // One that was set aside may be younger than the one that was adopted in its place.
    let newest = at_path.iter().rev().find(|(_, row)| row.replaced.is_none()).or(at_path.last()).map(|(key, _)| *key);
    let Some(witness) = &sight.witness else { return newest.map_or(Located::Unknown, Located::Known) };
    let same = |row: &Workspace| row.witness.as_ref().is_some_and(|known| known.is_of_same(witness));
    let here = at_path.iter().rev().find(|(_, row)| same(row));
    let as_alias = || alike.iter().rev().find(|(_, row)| row.aliases.contains(&sight.path));
    // It was not there when it became a workspace.
    let unseen = || at_path.iter().rev().find(|(_, row)| row.witness.is_none() && row.replaced.is_none());
    if let Some((key, _)) = here.or_else(as_alias).or_else(unseen) {
        return Located::Known(*key);
    }
    // Where several are the same directory, the one that was made first is meant.
    let live = alike.iter().filter(|(_, row)| sight.also_at.contains(&row.path));
    if let Some((key, row)) = live.min_by_key(|(_, row)| row.created) {
        return Located::Alias { key: *key, at: row.path.clone() };
    }
    match alike.iter().max_by_key(|(_, row)| row.created) {
        Some((key, row)) => Located::Moved { key: *key, from: row.path.clone() },
        None => newest.map_or(Located::Unknown, |key| Located::Replaced { key }),
    }
}

#[cfg(test)]
mod tests;
