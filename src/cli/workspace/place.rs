//! The directory that commands about workspaces and sessions work in.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde_json::{Map, Value, json};

use super::error::WorkspaceError;
use crate::cli::print;
use crate::config::{Paths, env};
use crate::contracts::workspace::{self as directory, Broad};
use crate::model::workspace_sight::WorkspaceSight;
use crate::state::{self, Digest, Reader, WorkspaceDigestKey};

/// Where a command works.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct Cwd {
    /// Work as if this were the current directory
    #[arg(short = 'C', long = "cwd", visible_alias = "directory", global = true, value_name = "PATH", value_parser = any_path())]
    pub(in crate::cli) cwd: Option<PathBuf>,
}

/// Accepts any path. An empty one is rejected later, with a reason.
pub(super) fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Whether a command may work in a home directory or at the root.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(in crate::cli) struct AllowBroad {
    /// Allow the home directory and the root of the file system
    #[arg(long)]
    pub(in crate::cli) allow_broad_cwd: bool,
}

impl Cwd {
    /// The directory to work in, as it was given.
    ///
    /// # Errors
    /// [`WorkspaceError`] with the kind `invalid_cwd` and a reason, or `workspace_missing` if the current directory is gone.
    pub(in crate::cli) fn find(&self) -> Result<PathBuf, WorkspaceError> {
        match &self.cwd {
            Some(given) => valid(given).map(|()| given.clone()),
            None => {
                let gone = |error| {
                    let message = format!("the current directory is gone: {error}");
                    WorkspaceError::new(
                        "workspace_missing",
                        message,
                        "change to an existing directory, or give one with -C",
                    )
                };
                let real = std::env::current_dir().map_err(gone)?;
                // The shell may use a path with links.
                let typed = env::typed_in().filter(|typed| typed.canonicalize().is_ok_and(|typed| typed == real));
                Ok(typed.unwrap_or(real))
            }
        }
    }

    /// A given path, relative to the directory; without one, the directory itself.
    pub(super) fn at(&self, path: Option<&Path>) -> Result<PathBuf, WorkspaceError> {
        match (path, &self.cwd) {
            (None, _) => self.find(),
            (Some(path), None) => named(path),
            (Some(path), Some(_)) => Ok(self.find()?.join(named(path)?)),
        }
    }
}

fn named(path: &Path) -> Result<PathBuf, WorkspaceError> {
    if path.as_os_str().is_empty() { Err(invalid("empty", path)) } else { Ok(path.to_owned()) }
}

fn valid(given: &Path) -> Result<(), WorkspaceError> {
    if given.as_os_str().is_empty() {
        return Err(invalid("empty", given));
    }
    match std::fs::metadata(given) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(invalid("not_a_directory", given)),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Err(invalid("not_a_directory", given)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(invalid("not_found", given)),
        Err(error) => Err(invalid("unreachable", given).with("cause", error.to_string())),
    }
}

fn invalid(reason: &'static str, given: &Path) -> WorkspaceError {
    let shown = given.display().to_string();
    let message = format!("invalid_cwd: {reason}: `{shown}`");
    WorkspaceError::new("invalid_cwd", message, "specify an existing directory").with("reason", reason).at(given)
}

/// The user's decision about working in a broad directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Guarded {
    Go,
    /// Do nothing. This is not a failure.
    Aborted,
}

/// Keeps session commands from working in a home directory or at the root by accident. Must be called before anything
/// is read or created.
///
/// # Errors
/// [`WorkspaceError`] with the kind `broad_cwd` if the user cannot be asked.
pub(in crate::cli) fn guard(dir: &Path, allow: AllowBroad, json: bool) -> Result<Guarded, WorkspaceError> {
    let found = directory::broad(dir, env::home().as_deref());
    let Some(broad) = found.filter(|_| !allow.allow_broad_cwd) else { return Ok(Guarded::Go) };
    let what = match broad {
        Broad::Root => "the root of the file system",
        Broad::Home => "your home directory",
    };
    let message = format!("{} is {what}: sessions of everything below it would be mixed", dir.display());
    if json || !std::io::stdin().is_terminal() {
        let hint = "work in the directory of a project, or use --allow-broad-cwd";
        return Err(WorkspaceError::new("broad_cwd", message, hint).at(dir));
    }
    print::warning(&message);
    if print::agreed("Continue anyway? [y/N]: ") {
        return Ok(Guarded::Go);
    }
    print::note("Aborted.");
    Ok(Guarded::Aborted)
}

/// The identity of a directory, with other workspace paths that lead to it. Creates nothing. Must not be called while
/// the store is open, because a process can open it only once at a time.
///
/// # Errors
/// When there is a store and it cannot be read.
pub(in crate::cli) fn sight(paths: &Paths, dir: &Path) -> Result<WorkspaceSight, state::Error> {
    let mut sight = directory::look(dir);
    let Some(witness) = &sight.witness else { return Ok(sight) };
    let Some(reader) = store(paths)? else { return Ok(sight) };
    let known = reader.read(|db, txn| {
        let mut known = Vec::new();
        for (WorkspaceDigestKey { workspace, .. }, ()) in
            db.workspaces_by_witness.collect_prefix(txn, &Digest::of_witness(witness), usize::MAX)?
        {
            known.push(db.workspaces.require(txn, &workspace)?.path);
        }
        Ok::<_, state::Error>(known)
    })?;
    sight.also_at = directory::also_at(&sight, known);
    Ok(sight)
}

/// The store to read, if there is one.
pub(in crate::cli) fn store(paths: &Paths) -> Result<Option<Reader>, state::Error> {
    match Reader::open(paths.data()) {
        Ok(reader) => Ok(Some(reader)),
        Err(state::Error::NoStore { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds a path to an object: as text for people, and also in base64 if the text is not exact.
pub(in crate::cli) fn put_path(object: &mut Map<String, Value>, name: &str, path: &[u8]) {
    object.insert(name.to_owned(), json!(String::from_utf8_lossy(path)));
    if std::str::from_utf8(path).is_err() {
        object.insert(format!("{name}_bytes"), json!(STANDARD.encode(path)));
    }
}
