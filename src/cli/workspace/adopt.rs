//! `hearth workspace adopt`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, json};

use super::{AllowBroad, Cwd, Guarded, WorkspaceError, any_path, guard, put_path, sight, store};
use crate::cli::offline::{self, mismatch};
use crate::cli::print;
use crate::config::{Paths, paths};
use crate::contracts::workspace as directory;
use crate::model::workspace::{WorkspaceKey, key_text, parse_key};
use crate::model::workspace_command::{AdoptFrom, WorkspaceInput, WorkspaceReply};
use crate::model::workspace_sight::WorkspaceSight;
use crate::socket::command::{Answer, ClientCommand};
use crate::state::{self, Digest, Reader};

#[derive(Debug, Args)]
pub(in crate::cli) struct AdoptArgs {
    /// The directory [default: the current one]
    #[arg(value_parser = any_path())]
    path: Option<PathBuf>,
    /// The workspace: its key, or the path at which it was [default: the one that looks like the directory]
    #[arg(long, value_name = "KEY|PATH")]
    from: Option<PathBuf>,
    /// Take it even from a directory that still exists
    #[arg(long, requires = "from")]
    force: bool,
    #[command(flatten)]
    broad: AllowBroad,
}

/// Adopts a directory as an existing workspace.
pub(super) fn adopt(paths: &Paths, cwd: &Cwd, args: &AdoptArgs, json: bool) -> Result<(), WorkspaceError> {
    let dir = cwd.at(args.path.as_deref())?;
    if guard(&dir, args.broad, json)? == Guarded::Aborted {
        return Ok(());
    }
    let sight = sight(paths, &dir)?;
    // Without a store there is nothing to adopt, so none is created.
    let Some(reader) = store(paths)? else {
        let message = format!("there is no workspace in {}", paths.data().display());
        return Err(WorkspaceError::new("nothing_to_adopt", message, "creating a session creates one"));
    };
    let from = args.from.as_deref().map_or(AdoptFrom::Found, |from| named(cwd, from));
    if !args.force {
        still_there(&reader, &sight, &from)?.map_or(Ok(()), Err)?;
    }
    drop(reader);
    let (key, changed) = submit(paths, sight.clone(), from)?;
    let key = key_text(key);
    if json {
        let mut answer = Map::new();
        answer.insert("workspace".to_owned(), json!(key));
        answer.insert("changed".to_owned(), json!(changed));
        put_path(&mut answer, "root", &sight.path);
        return Ok(print::json(&answer)?);
    }
    let word = if changed { "adopted  " } else { "unchanged" };
    Ok(print::line(&format!("{word} workspace {key} at {}", String::from_utf8_lossy(&sight.path)))?)
}

/// The value of `--from`: a key, or a path that need not exist any more.
fn named(cwd: &Cwd, text: &Path) -> AdoptFrom {
    if let Some(key) = text.to_str().and_then(parse_key) {
        return AdoptFrom::Key(key);
    }
    let seen_from = cwd.cwd.as_ref().map_or_else(|| text.to_owned(), |cwd| cwd.join(text));
    let path = paths::canonical(&seen_from).unwrap_or(seen_from);
    AdoptFrom::Path(path.into_os_string().into_encoded_bytes())
}

/// Refuses that a copy adopts the sessions of a workspace whose original directory still exists.
fn still_there(
    reader: &Reader,
    sight: &WorkspaceSight,
    from: &AdoptFrom,
) -> Result<Option<WorkspaceError>, state::Error> {
    let row = reader.read(|db, txn| {
        let key: Option<WorkspaceKey> = match from {
            AdoptFrom::Found => None,
            AdoptFrom::Key(key) => Some(*key),
            AdoptFrom::Path(path) => {
                let last = db.workspaces_by_path.collect_last(txn, &Digest::of(path), 1)?;
                last.first().map(|(key, ())| key.workspace)
            }
        };
        key.map_or(Ok(None), |key| db.workspaces.get(txn, &key).map(|row| row.map(|row| (key, row))))
    })?;
    let Some((key, row)) = row.filter(|(_, row)| row.agent.is_none()) else { return Ok(None) };
    let found = directory::witness(directory::path_of(&row.path));
    let alive = found.zip(row.witness).is_some_and(|(found, known)| {
        found.is_of_same(&known) && sight.witness.as_ref().is_none_or(|own| !own.is_of_same(&known))
    });
    let there = String::from_utf8_lossy(&row.path);
    Ok(alive.then(|| {
        let message = format!("the directory of workspace {} still exists: {there}", key_text(key));
        WorkspaceError::new(
            "workspace_still_there",
            message,
            "a copy has separate sessions; --force takes those of the original",
        )
    }))
}

/// Submits the adoption.
fn submit(paths: &Paths, sight: WorkspaceSight, from: AdoptFrom) -> Result<(WorkspaceKey, bool), WorkspaceError> {
    match offline::submit(paths, ClientCommand::Workspace(Box::new(WorkspaceInput::Adopt(sight, from))))? {
        Answer::Workspace(WorkspaceReply::Adopted { key, changed }) => Ok((key, changed)),
        other => Err(mismatch(&other).into()),
    }
}
