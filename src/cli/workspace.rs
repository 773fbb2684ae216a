//! `hearth workspace`: the directories with separate sessions, and their state in the store.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Map, json};

use super::{Done, print, session};
use crate::config::Paths;
use crate::contracts::workspace as directory;
use crate::model::workspace::Fingerprint;
use error::WorkspaceError;

mod adopt;
pub(super) mod error;
mod place;
mod shown;

pub(super) use place::{AllowBroad, Cwd, Guarded, guard, put_path, sight};
use place::{any_path, store};

#[derive(Debug, Args)]
pub(super) struct WorkspaceArgs {
    #[command(flatten)]
    cwd: Cwd,
    #[command(subcommand)]
    command: WorkspaceCommand,
}

#[derive(Debug, Subcommand)]
enum WorkspaceCommand {
    /// Print the fingerprint of a directory; needs no data directory
    Fingerprint {
        /// The directory [default: the current one]
        #[arg(value_parser = any_path())]
        path: Option<PathBuf>,
    },
    /// Show the workspace of a directory and its state
    Status {
        /// The directory [default: the current one]
        #[arg(value_parser = any_path())]
        path: Option<PathBuf>,
    },
    /// List the workspaces
    List,
    /// Create, resume, fork, list and remove the sessions of a directory
    #[command(visible_alias = "session")]
    Sessions(Box<session::SessionArgs>),
    /// Continue the sessions of a directory that was moved, replaced, or reached by another path
    Adopt(adopt::AdoptArgs),
}

/// Runs commands that need no data directory.
pub(super) fn without_data(args: &WorkspaceArgs, json: bool) -> Option<Done> {
    let WorkspaceCommand::Fingerprint { path } = &args.command else { return None };
    let dir = args.cwd.at(path.as_deref());
    Some(dir.map_err(|refused| refused.tell("fingerprint", json)).and_then(|dir| fingerprint(&dir, json)))
}

fn fingerprint(dir: &Path, json: bool) -> Done {
    let canonical = directory::canonical(dir).into_os_string().into_encoded_bytes();
    let fingerprint = Fingerprint::of_path(&canonical).to_string();
    if !json {
        return print::line(&fingerprint);
    }
    let mut answer = Map::new();
    put_path(&mut answer, "root", &canonical);
    answer.insert("fingerprint".to_owned(), json!(fingerprint));
    print::json(&answer)
}

/// Shows and adopts workspaces.
pub(super) fn workspace(paths: &Paths, args: WorkspaceArgs, json: bool) -> Done {
    let WorkspaceArgs { cwd, command } = args;
    let at = |path: Option<PathBuf>| cwd.at(path.as_deref());
    let (action, done) = match command {
        WorkspaceCommand::Fingerprint { path } => {
            ("fingerprint", at(path).and_then(|dir| Ok(fingerprint(&dir, json)?)))
        }
        WorkspaceCommand::Status { path } => ("status", at(path).and_then(|dir| shown::status(paths, &dir, json))),
        WorkspaceCommand::List => ("list", shown::list(paths, json)),
        WorkspaceCommand::Adopt(adopt) => ("adopt", adopt::adopt(paths, &cwd, &adopt, json)),
        WorkspaceCommand::Sessions(args) => return session::session(paths, *args, json),
    };
    done.map_err(|refused| refused.tell(action, json))
}
