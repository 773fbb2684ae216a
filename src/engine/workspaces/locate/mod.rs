//! Identifies the workspace of a directory. The fingerprint is only the first part of a key. The complete path and the
//! directory's witness decide whether a directory is a workspace.

use crate::Result;
use crate::model::report::Refusal;
use crate::model::workspace::{
    Discriminator, Fingerprint, Workspace, WorkspaceEvent, WorkspaceFact, WorkspaceKey, key_text,
};
use crate::model::workspace_sight::WorkspaceSight;
use crate::state;
use crate::state::{Digest, Read, Tables, WorkspaceDigestKey, WorkspaceEventKey};
use crate::tx::Tx;

#[cfg(test)]
mod tests;

/// How the store knows a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// As this workspace.
    Known(WorkspaceKey),
    /// Not at all; no workspace looks like it.
    Unknown,
    /// It looks like a workspace whose path no longer leads to it. Nothing is written until it is adopted.
    Moved {
        key: WorkspaceKey,
        /// Its previous path, raw bytes.
        from: Vec<u8>,
    },
    /// It is a workspace reached through another path. It counts as a separate workspace unless it is adopted.
    Alias {
        key: WorkspaceKey,
        /// Its other path, raw bytes.
        at: Vec<u8>,
    },
    /// Another directory was at its path. Its sessions are kept separate from the earlier ones, unless it is adopted.
    Replaced {
        /// The newest workspace that was there.
        key: WorkspaceKey,
    },
}

/// How the store knows a directory, with all related workspaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relations {
    /// How the store knows it.
    pub located: Located,
    /// Workspaces of other directories that were at its path, oldest first.
    pub earlier: Vec<WorkspaceKey>,
    /// Other workspaces that look like it, with their stored paths.
    pub alike: Vec<(WorkspaceKey, Vec<u8>)>,
}

type Row = (WorkspaceKey, Workspace);

/// Identifies the workspace of a directory. `groups` is the directory of the agent groups' folders.
///
/// # Errors
/// Faults of the store.
pub fn locate(db: &Tables, txn: &Read<'_>, groups: &[u8], sight: &WorkspaceSight) -> Result<Located> {
    Ok(relations(db, txn, groups, sight)?.located)
}

/// Like [`locate`], with all related workspaces.
///
/// # Errors
/// Faults of the store.
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

/// The workspace of a directory, created if there is none. Refused for a directory that was moved and not adopted.
///
/// # Errors
/// Faults of the store.
pub fn ensure(tx: &mut Tx<'_, '_>, sight: &WorkspaceSight) -> Result<std::result::Result<WorkspaceKey, Refusal>> {
    match locate(tx.db, tx, tx.cx.groups_path, sight)? {
        Located::Known(key) => {
            seen(tx, key, sight)?;
            Ok(Ok(key))
        }
        Located::Moved { key, from } => Ok(Err(moved(sight, key, &from))),
        Located::Unknown | Located::Alias { .. } | Located::Replaced { .. } => {
            displace(tx, sight, None)?;
            make(tx, sight).map(Ok)
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

/// Creates a workspace with a key that was never used.
fn make(tx: &mut Tx<'_, '_>, sight: &WorkspaceSight) -> Result<WorkspaceKey> {
    let key = free_key(tx, Fingerprint::of_path(&sight.path))?;
    let workspace = Workspace {
        path: sight.path.clone(),
        former_paths: Vec::new(),
        aliases: Vec::new(),
        agent: None,
        witness: sight.witness.clone(),
        project: sight.project.clone(),
        replaced: None,
        current: None,
        created: tx.now.wall,
    };
    stored(tx, key, None, &workspace)?;
    happened(tx, key, WorkspaceFact::Made)?;
    Ok(key)
}

/// Records what a known directory looks like now.
fn seen(tx: &mut Tx<'_, '_>, key: WorkspaceKey, sight: &WorkspaceSight) -> Result<()> {
    let before = tx.db.workspaces.require(tx, &key)?;
    if before.agent.is_some() || sight.witness.is_none() {
        return Ok(());
    }
    let after =
        Workspace { witness: sight.witness.clone(), project: sight.project.clone(), replaced: None, ..before.clone() };
    if before.replaced.is_some() {
        displace(tx, sight, Some(key))?;
        happened(tx, key, WorkspaceFact::Returned)?;
    }
    if before == after { Ok(()) } else { stored(tx, key, Some(&before), &after) }
}

/// Records in all other workspaces at a path that another directory is there now.
pub(crate) fn displace(tx: &mut Tx<'_, '_>, sight: &WorkspaceSight, own: Option<WorkspaceKey>) -> Result<()> {
    for (key, before) in at_path(tx.db, tx, tx.cx.groups_path, &sight.path)? {
        if Some(key) != own && before.agent.is_none() && before.replaced.is_none() {
            let after = Workspace { replaced: Some(tx.now.wall), ..before.clone() };
            stored(tx, key, Some(&before), &after)?;
            happened(tx, key, WorkspaceFact::Replaced)?;
        }
    }
    Ok(())
}

/// Stores a workspace.
pub(crate) fn stored(
    tx: &mut Tx<'_, '_>,
    key: WorkspaceKey,
    before: Option<&Workspace>,
    after: &Workspace,
) -> Result<()> {
    match before {
        Some(before) => tx.db.workspaces.replace(tx, &key, before, after),
        None => tx.db.workspaces.append(tx, &key, after),
    }
}

/// Records an event of a workspace.
pub(crate) fn happened(tx: &mut Tx<'_, '_>, workspace: WorkspaceKey, what: WorkspaceFact) -> Result<()> {
    let last = tx.db.workspace_events.last_in(tx, &workspace)?;
    let number = last.map_or(0, |(key, _)| key.number).saturating_add(1);
    let event = WorkspaceEvent { at: tx.now.wall, what };
    tx.db.workspace_events.put(tx, &WorkspaceEventKey { workspace, number }, &event)
}

/// The next key of a fingerprint. Keys are never reused.
pub(crate) fn free_key(tx: &Tx<'_, '_>, fingerprint: Fingerprint) -> Result<WorkspaceKey> {
    let next = match tx.db.workspaces.last_in(tx, &fingerprint)? {
        Some((key, _)) => key.discriminator.0.checked_add(1),
        None => Some(0),
    };
    let full = || state::Error::Exists { table: "workspaces", key: format!("{fingerprint} with every discriminator") };
    Ok(WorkspaceKey { fingerprint, discriminator: Discriminator(next.ok_or_else(full)?) })
}

/// Workspaces at a path, oldest first. An agent's folder is always the same workspace, whatever directory is there.
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
    for (WorkspaceDigestKey { workspace, .. }, ()) in found {
        let row = db.workspaces.require(txn, &workspace)?;
        if row.path == path {
            rows.push((workspace, row));
        }
    }
    // If a directory was adopted at this path, the keys differ in their fingerprints.
    rows.sort_by_key(|(key, row)| (row.created, *key));
    Ok(rows)
}

/// Workspaces that look like a directory, at any path, without agents' folders.
fn alike(db: &Tables, txn: &Read<'_>, sight: &WorkspaceSight) -> Result<Vec<Row>> {
    let Some(witness) = &sight.witness else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for (WorkspaceDigestKey { workspace, .. }, ()) in
        db.workspaces_by_witness.collect_prefix(txn, &Digest::of_witness(witness), usize::MAX)?
    {
        let row = db.workspaces.require(txn, &workspace)?;
        if row.agent.is_none() && row.witness.as_ref().is_some_and(|known| known.is_of_same(witness)) {
            rows.push((workspace, row));
        }
    }
    rows.sort_by_key(|(key, row)| (row.created, *key));
    Ok(rows)
}

/// The stored path of an agent's folder, relative to the data directory. None for paths not directly in `groups`.
fn relative(groups: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let name = path.strip_prefix(groups)?.strip_prefix(b"/")?;
    (!name.is_empty() && !name.contains(&b'/')).then(|| [b"groups/", name].concat())
}

/// Identifies a directory from the workspaces at its path and those that look like it, both oldest first.
fn decide(sight: &WorkspaceSight, at_path: &[Row], alike: &[Row]) -> Located {
    if let Some((key, _)) = at_path.iter().find(|(_, row)| row.agent.is_some()) {
        return Located::Known(*key);
    }
    // A workspace that was set aside may be newer than the one that was adopted in its place.
    let newest = at_path.iter().rev().find(|(_, row)| row.replaced.is_none()).or(at_path.last()).map(|(key, _)| *key);
    let Some(witness) = &sight.witness else { return newest.map_or(Located::Unknown, Located::Known) };
    let same = |row: &Workspace| row.witness.as_ref().is_some_and(|known| known.is_of_same(witness));
    let here = at_path.iter().rev().find(|(_, row)| same(row));
    let as_alias = || alike.iter().rev().find(|(_, row)| row.aliases.contains(&sight.path));
    // The directory did not exist when it became a workspace.
    let unseen = || at_path.iter().rev().find(|(_, row)| row.witness.is_none() && row.replaced.is_none());
    if let Some((key, _)) = here.or_else(as_alias).or_else(unseen) {
        return Located::Known(*key);
    }
    // If several are the same directory, the oldest one is used.
    let live = alike.iter().filter(|(_, row)| sight.also_at.contains(&row.path));
    if let Some((key, row)) = live.min_by_key(|(_, row)| row.created) {
        return Located::Alias { key: *key, at: row.path.clone() };
    }
    match alike.iter().max_by_key(|(_, row)| row.created) {
        Some((key, row)) => Located::Moved { key: *key, from: row.path.clone() },
        None => newest.map_or(Located::Unknown, |key| Located::Replaced { key }),
    }
}
