//! `hearth workspace`: the directories whose sessions are kept apart, and what the store knows of them.
//!
//! The place a command works in is found here for all commands about sessions: [`Cwd`], [`guard`], [`sight`].

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::{Done, Failure, out};
use crate::config::{Paths, env};
use crate::contracts::workspace::{self as directory, Broad};
use crate::model::workspace::{Fingerprint, WorkspaceSight};
use crate::state::{self, Digest, Reader};

mod adopt;
mod shown;

#[derive(Debug, Args)]
pub(super) struct WorkspaceArgs {
    #[command(flatten)]
    cwd: Cwd,
    #[command(subcommand)]
    command: WorkspaceCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum WorkspaceCommand {
    /// Print the fingerprint of a directory; needs no data directory
    Fingerprint {
        /// The directory [default: the current one]
        #[arg(value_parser = any_path())]
        path: Option<PathBuf>,
    },
    /// Show which workspace a directory is, and what is known of it
    Status {
        /// The directory [default: the current one]
        #[arg(value_parser = any_path())]
        path: Option<PathBuf>,
    },
    /// List the workspaces
    List,
    /// Continue the sessions of a directory that was moved, replaced, or reached by another path
    Adopt(adopt::AdoptArgs),
}

/// Where a command works.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Cwd {
    /// Work as if this were the current directory
    #[arg(short = 'C', long = "cwd", visible_alias = "directory", global = true, value_name = "PATH", value_parser = any_path())]
    pub(super) cwd: Option<PathBuf>,
}

/// A path as it was typed; an empty one is refused later, with its reason.
fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Whether a command may work in a home directory or at the root.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(super) struct AllowBroad {
    /// Allow the home directory and the root of the file system
    #[arg(long)]
    pub(super) allow_broad_cwd: bool,
}

/// Why a command about workspaces or sessions did nothing.
#[derive(Debug)]
pub(super) struct Refused {
    /// A word for programs.
    pub(super) kind: String,
    /// What, where.
    pub(super) message: String,
    /// What to do next.
    pub(super) hint: String,
    /// What else programs can use.
    pub(super) fields: Map<String, Value>,
    /// How the command ends.
    pub(super) exit: u8,
}

impl Refused {
    pub(super) fn new(kind: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), message: message.into(), hint: hint.into(), fields: Map::new(), exit: 1 }
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    fn at(mut self, path: &Path) -> Self {
        put_path(&mut self.fields, "path", path.as_os_str().as_encoded_bytes());
        self
    }

    /// Tells it: programs hear it on standard output.
    fn tell(self, action: &str, json: bool) -> Failure {
        let Self { kind, message, hint, mut fields, exit } = self;
        if message.is_empty() {
            return Failure::Exit(exit);
        }
        if !json {
            return Failure::Failed(if hint.is_empty() { message } else { format!("{message}; {hint}") });
        }
        for (name, value) in [
            ("status", json!("error")),
            ("kind", json!(kind)),
            ("error_kind", json!(kind)),
            ("action", json!(action)),
            ("error", json!(message)),
            ("hint", json!(hint)),
            ("exit_code", json!(exit)),
        ] {
            fields.insert(name.to_owned(), value);
        }
        match out::json(&fields) {
            // That nobody read it does not make it done.
            Ok(()) | Err(Failure::Exit(_)) => Failure::Exit(exit),
            Err(failure) => failure,
        }
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed(message) | Failure::Changed(message) => Self::new("failed", message, ""),
            Failure::Store("store_busy", message) => {
                Self::new("store_busy", message, "try again in a moment").with("retry_safe", true)
            }
            Failure::Store(kind, message) => Self::new(kind, message, ""),
            Failure::Told => Self::new("failed", "", ""),
            Failure::Exit(exit) => Self { exit, ..Self::new("failed", "", "") },
        }
    }
}

impl From<state::Error> for Refused {
    fn from(error: state::Error) -> Self {
        Failure::from(error).into()
    }
}

impl Cwd {
    /// The directory to work in, as it was given.
    ///
    /// # Errors
    /// [`Refused`] with the kind `invalid_cwd` and a reason, or `workspace_missing` if the current directory is gone.
    pub(super) fn find(&self) -> Result<PathBuf, Refused> {
        match &self.cwd {
            Some(given) => valid(given).map(|()| given.clone()),
            None => {
                let gone = |error| {
                    let message = format!("the current directory is gone: {error}");
                    Refused::new("workspace_missing", message, "change to an existing directory, or name one with -C")
                };
                let real = std::env::current_dir().map_err(gone)?;
                // The shell may call it by a path with links.
                let typed = env::typed_in().filter(|typed| typed.canonicalize().is_ok_and(|typed| typed == real));
                Ok(typed.unwrap_or(real))
            }
        }
    }

    /// A path that was given besides, seen from there; the directory itself if none was.
    fn at(&self, path: Option<&Path>) -> Result<PathBuf, Refused> {
        match (path, &self.cwd) {
            (None, _) => self.find(),
            (Some(path), None) => named(path),
            (Some(path), Some(_)) => Ok(self.find()?.join(named(path)?)),
        }
    }
}

fn named(path: &Path) -> Result<PathBuf, Refused> {
    if path.as_os_str().is_empty() { Err(invalid("empty", path)) } else { Ok(path.to_owned()) }
}

fn valid(given: &Path) -> Result<(), Refused> {
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

fn invalid(reason: &'static str, given: &Path) -> Refused {
    let shown = given.display().to_string();
    let message = format!("invalid_cwd: {reason}: `{shown}`");
    Refused::new("invalid_cwd", message, "name an existing directory").with("reason", reason).at(given)
}

/// What a person at a terminal says about working in a broad directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarded {
    /// Work.
    Go,
    /// Do nothing; that is no failure.
    Aborted,
}

/// Keeps commands about sessions from working in a home directory or at the root by accident. To be asked before anything
/// is read or made.
///
/// # Errors
/// [`Refused`] with the kind `broad_cwd` where nobody can be asked.
pub(super) fn guard(dir: &Path, allow: AllowBroad, json: bool) -> Result<Guarded, Refused> {
    let found = directory::broad(dir, env::home().as_deref());
    let Some(broad) = found.filter(|_| !allow.allow_broad_cwd) else { return Ok(Guarded::Go) };
    let what = match broad {
        Broad::Root => "the root of the file system",
        Broad::Home => "your home directory",
    };
    let message = format!("{} is {what}: sessions of everything below it would be mixed", dir.display());
    if json || !std::io::stdin().is_terminal() {
        let hint = "work in the directory of a project, or use --allow-broad-cwd";
        return Err(Refused::new("broad_cwd", message, hint).at(dir));
    }
    out::warning(&message);
    let mut answer = String::new();
    let asked = out::question("Continue anyway? [y/N]: ").is_ok();
    let heard = asked.then(|| std::io::stdin().read_line(&mut answer));
    if matches!(heard, Some(Ok(_))) && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        return Ok(Guarded::Go);
    }
    out::note("Aborted.");
    Ok(Guarded::Aborted)
}

/// A directory as it is found, with the other paths of workspaces that lead to it. Nothing is made. Not while the store is
/// open: a process opens it once at a time.
///
/// # Errors
/// When there is a store and it cannot be read.
pub(super) fn sight(paths: &Paths, dir: &Path) -> Result<WorkspaceSight, state::Error> {
    let mut sight = directory::look(dir);
    let Some(witness) = &sight.witness else { return Ok(sight) };
    let Some(reader) = store(paths)? else { return Ok(sight) };
    let known = reader.read(|db, txn| {
        let mut known = Vec::new();
        for ((_, fingerprint, discriminator), ()) in
            db.workspaces_by_witness.collect_prefix(txn, &Digest::of_witness(witness), usize::MAX)?
        {
            known.push(db.workspaces.require(txn, &(fingerprint, discriminator))?.path);
        }
        Ok::<_, state::Error>(known)
    })?;
    sight.also_at = directory::also_at(&sight, known);
    Ok(sight)
}

/// The store to read, if there is one.
pub(super) fn store(paths: &Paths) -> Result<Option<Reader>, state::Error> {
    match Reader::open(paths.data()) {
        Ok(reader) => Ok(Some(reader)),
        Err(state::Error::NoStore { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What needs no data directory.
pub(super) fn without_data(args: &WorkspaceArgs, json: bool) -> Option<Done> {
    let WorkspaceCommand::Fingerprint { path } = &args.command else { return None };
    let dir = args.cwd.at(path.as_deref());
    Some(dir.map_err(|refused| refused.tell("fingerprint", json)).and_then(|dir| fingerprint(&dir, json)))
}

fn fingerprint(dir: &Path, json: bool) -> Done {
    let canonical = directory::canonical(dir).into_os_string().into_encoded_bytes();
    let fingerprint = Fingerprint::of_path(&canonical).to_string();
    if !json {
        return out::line(&fingerprint);
    }
    let mut answer = Map::new();
    put_path(&mut answer, "root", &canonical);
    answer.insert("fingerprint".to_owned(), json!(fingerprint));
    out::json(&answer)
}

/// Puts a path into an object: as text for people, and in base64 besides if the text is not all of it.
pub(super) fn put_path(object: &mut Map<String, Value>, name: &str, path: &[u8]) {
    object.insert(name.to_owned(), json!(String::from_utf8_lossy(path)));
    if std::str::from_utf8(path).is_err() {
        object.insert(format!("{name}_bytes"), json!(STANDARD.encode(path)));
    }
}

/// Shows and adopts workspaces.
pub(super) fn workspace(paths: &Paths, args: &WorkspaceArgs, json: bool) -> Done {
    let at = |path: &Option<PathBuf>| args.cwd.at(path.as_deref());
    let (action, done) = match &args.command {
        WorkspaceCommand::Fingerprint { path } => {
            ("fingerprint", at(path).and_then(|dir| Ok(fingerprint(&dir, json)?)))
        }
        WorkspaceCommand::Status { path } => ("status", at(path).and_then(|dir| shown::status(paths, &dir, json))),
        WorkspaceCommand::List => ("list", shown::list(paths, json)),
        WorkspaceCommand::Adopt(adopt) => ("adopt", adopt::adopt(paths, &args.cwd, adopt, json)),
    };
    done.map_err(|refused| refused.tell(action, json))
}
