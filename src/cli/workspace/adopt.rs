//! `hearth workspace adopt`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, json};

use super::{AllowBroad, Cwd, Guarded, Refused, any_path, guard, put_path, sight, store};
use crate::cli::local::{Host, host, unfit};
use crate::cli::{Failure, out};
use crate::config::{Paths, paths};
use crate::contracts::workspace as directory;
use crate::model::input::Input;
use crate::model::report::Reply;
use crate::model::workspace::{AdoptFrom, WorkspaceKey, WorkspaceReply, WorkspaceSight, key_text, parse_key};
use crate::socket::client::unexpected;
use crate::socket::protocol::{Request, Response};
use crate::socket::workspace::{WorkspaceDone, WorkspaceRequest};
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

/// Makes a directory be a known workspace.
pub(super) fn adopt(paths: &Paths, cwd: &Cwd, args: &AdoptArgs, json: bool) -> Result<(), Refused> {
    let dir = cwd.at(args.path.as_deref())?;
    if guard(&dir, args.broad, json)? == Guarded::Aborted {
        return Ok(());
    }
    let sight = sight(paths, &dir)?;
    // There is nothing to adopt without a store, so none is made.
    let Some(reader) = store(paths)? else {
        let message = format!("no workspace is known in {}", paths.data().display());
        return Err(Refused::new("nothing_to_adopt", message, "sessions that are begun here make one"));
    };
    let from = args.from.as_deref().map_or(AdoptFrom::Found, |from| named(cwd, from));
    if !args.force {
        still_there(&reader, &sight, &from)?.map_or(Ok(()), Err)?;
    }
    drop(reader);
    let (key, changed) = submit(paths, &sight, &from)?;
    if json {
        let mut answer = Map::new();
        answer.insert("workspace".to_owned(), json!(key));
        answer.insert("changed".to_owned(), json!(changed));
        put_path(&mut answer, "root", &sight.path);
        return Ok(out::json(&answer)?);
    }
    let word = if changed { "adopted  " } else { "unchanged" };
    Ok(out::line(&format!("{word} workspace {key} at {}", String::from_utf8_lossy(&sight.path)))?)
}

/// What was said after `--from`: a key, or a path that need not lead anywhere any more.
fn named(cwd: &Cwd, text: &Path) -> AdoptFrom {
    if let Some(key) = text.to_str().and_then(parse_key) {
        return AdoptFrom::Key(key);
    }
    let seen_from = cwd.cwd.as_ref().map_or_else(|| text.to_owned(), |cwd| cwd.join(text));
    let path = paths::canonical(&seen_from).unwrap_or(seen_from);
    AdoptFrom::Path(path.into_os_string().into_encoded_bytes())
}

/// A copy does not take the sessions of the original as long as that is there, unless somebody insists.
fn still_there(reader: &Reader, sight: &WorkspaceSight, from: &AdoptFrom) -> Result<Option<Refused>, state::Error> {
    let row = reader.read(|db, txn| {
        let key: Option<WorkspaceKey> = match from {
            AdoptFrom::Found => None,
            AdoptFrom::Key(key) => Some(*key),
            AdoptFrom::Path(path) => {
                let last = db.workspaces_by_path.collect_last(txn, &Digest::of(path), 1)?;
                last.first().map(|((_, fingerprint, discriminator), ())| (*fingerprint, *discriminator))
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
        let message = format!("the directory of workspace {} is still there: {there}", key_text(key));
        Refused::new(
            "workspace_still_there",
            message,
            "a copy has sessions of its own; --force takes those of the original",
        )
    }))
}

/// Has it done, by the daemon if there is one.
fn submit(paths: &Paths, sight: &WorkspaceSight, from: &AdoptFrom) -> Result<(String, bool), Refused> {
    let wanted = WorkspaceRequest::adopt(sight, from);
    match host(paths, false)? {
        Host::Daemon(mut client) => match client.ask(&Request::Workspace { wanted }).map_err(Failure::from)? {
            Response::Workspace { done: WorkspaceDone::Adopted { key, changed } } => Ok((key, changed)),
            Response::Refused { code, message, .. } => Err(Refused::new(&code, message, "")),
            other => Err(Failure::from(unexpected(other)).into()),
        },
        Host::Store(local) => {
            let input = wanted.input().map_err(Failure::Failed)?;
            match local.submit(Input::Workspace(Box::new(input)), false)? {
                Reply::Workspace(reply) => match *reply {
                    WorkspaceReply::Adopted { key, changed } => Ok((key_text(key), changed)),
                    other => Err(unfit(Reply::Workspace(Box::new(other))).into()),
                },
                Reply::Refused(refusal) => Err(Refused::new(refusal.code, refusal.message, "")),
                other => Err(unfit(other).into()),
            }
        }
    }
}
