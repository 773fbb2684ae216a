//! `hearth workspace sessions`: conversations of programs and people, kept separately for each directory.

mod export;
mod files;
mod find;
mod import;
mod lifecycle;
mod place;
mod read;
mod records;
mod shape;
mod taking;
mod write;

use clap::{Args, Subcommand};

pub(super) use self::import::{ClawArgs, claw};

use self::place::CommandDir;
use super::workspace::{AllowBroad, Cwd, Guarded, guard, sight};
use super::{Done, Failure, listed};
use crate::cli::workspace::error::WorkspaceError;
use crate::config::Paths;

#[derive(Debug, Args)]
pub(super) struct SessionArgs {
    #[command(flatten)]
    cwd: Cwd,
    #[command(flatten)]
    allow: AllowBroad,
    #[command(subcommand)]
    command: SessionCommand,
}

/// Which session.
#[derive(Debug, Args)]
struct SessionArg {
    /// Its id, or `latest` for the newest session with messages
    session: String,
}

/// Which session; none means the one switched to, else the newest.
#[derive(Debug, Args)]
struct OptionalSessionArg {
    /// Its id, or `latest` [default: the one that was switched to, else `latest`]
    session: Option<String>,
    /// Skip this one
    #[arg(long, value_name = "ID")]
    exclude: Option<String>,
}

/// Conditions for a change.
#[derive(Debug, Default, Args)]
struct Conditions {
    /// Refuse unless the last record has this number
    #[arg(long, value_name = "NUMBER")]
    expect: Option<u64>,
    /// Do it under this lease
    #[arg(long, value_name = "EPOCH")]
    lease: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// Create a session
    New(write::NewArgs),
    /// Add to a session: one message, or with --lines records from standard input
    Append(write::AppendArgs),
    /// List the sessions, the newest first
    List {
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = listed::limit)]
        limit: usize,
        /// Show the sessions in the trash
        #[arg(long)]
        trash: bool,
    },
    /// Show a session with its messages
    Show {
        #[command(flatten)]
        which: SessionArg,
        /// Show at most this many records, the newest ones
        #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = listed::limit)]
        limit: usize,
        /// An earlier revision, from before it was cleared or compacted
        #[arg(long, value_name = "NUMBER")]
        revision: Option<u32>,
    },
    /// Show the newest session that is not empty
    #[command(visible_aliases = ["last", "recent"])]
    Latest {
        /// Skip this one
        #[arg(long, value_name = "ID")]
        exclude: Option<String>,
    },
    /// Print whether a session with this id exists: `yes` or `no`, with exit code 0 for both
    Exists {
        /// Its id
        session: String,
    },
    /// Print a whole session, for programs
    Load(SessionArg),
    /// Resume a session
    Resume {
        #[command(flatten)]
        which: OptionalSessionArg,
        /// Look in other directories too; a session found there is continued here as a fork
        #[arg(long)]
        any_workspace: bool,
        /// Acquire its lease for this process
        #[arg(long, value_name = "PID")]
        pid: Option<u32>,
    },
    /// Create a session as a copy of another
    Fork(write::ForkArgs),
    /// Give a session a title
    Rename {
        #[command(flatten)]
        which: SessionArg,
        /// The title
        #[arg(required_unless_present = "clear")]
        title: Option<String>,
        /// Remove the title
        #[arg(long, conflicts_with = "title")]
        clear: bool,
    },
    /// Make this the session that `resume` uses by default
    Switch(SessionArg),
    /// Move a session to the trash, where it stays for 30 days
    Delete {
        /// Its id; no alias
        session: String,
        /// Do not ask
        #[arg(long)]
        force: bool,
    },
    /// Restore a session from the trash
    Restore {
        /// Its id
        session: String,
    },
    /// Clear a session; its messages are kept as an earlier revision
    Clear {
        #[command(flatten)]
        which: SessionArg,
        /// Do not ask
        #[arg(long)]
        confirm: bool,
        #[command(flatten)]
        conditions: Conditions,
    },
    /// Keep only the newest messages; the others stay in an earlier revision
    Compact {
        #[command(flatten)]
        which: SessionArg,
        /// Messages to keep; more if a turn would be cut
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        keep: u64,
        /// Summary of the removed messages
        #[arg(long, value_name = "TEXT")]
        summary: Option<String>,
        #[command(flatten)]
        conditions: Conditions,
    },
    /// Show typed prompts, newest last
    History {
        #[command(flatten)]
        which: OptionalSessionArg,
        /// Show this many
        #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
    },
    /// Delete a session for good, in the trash or not
    Purge {
        /// Its id; no alias
        session: String,
        /// Do not ask
        #[arg(long)]
        force: bool,
    },
    /// Import session files of claw; the files are not changed
    Import(import::ImportArgs),
    /// Export a session: as a file of claw, as JSON lines, or as Markdown
    Export(export::ExportArgs),
    /// Acquire, renew or release a session's lease, which reserves it for one process
    Lease {
        /// Its id
        session: String,
        #[command(flatten)]
        act: write::LeaseAct,
    },
}

impl SessionCommand {
    /// The command's name in JSON output.
    const fn action(&self) -> &'static str {
        match self {
            Self::New(_) => "new",
            Self::Append(_) => "append",
            Self::List { .. } => "list",
            Self::Show { .. } => "show",
            Self::Latest { .. } => "latest",
            Self::Exists { .. } => "exists",
            Self::Load(_) => "load",
            Self::Resume { .. } => "restore",
            Self::Fork(_) => "fork",
            Self::Rename { .. } => "rename",
            Self::Switch(_) => "switch",
            Self::Delete { .. } => "delete",
            Self::Restore { .. } => "undelete",
            Self::Clear { .. } => "clear",
            Self::Compact { .. } => "compact",
            Self::History { .. } => "history",
            Self::Purge { .. } => "purge",
            Self::Lease { .. } => "lease",
            Self::Import(_) => "import",
            Self::Export(_) => "export",
        }
    }
}

/// Runs a session command.
pub(super) fn session(paths: &Paths, args: SessionArgs, json: bool) -> Done {
    let action = args.command.action();
    match begin(paths, &args, json) {
        Ok(Some(place)) => carry_out(&place, args.command, json).map_err(|why| tell(why, action, json)),
        Ok(None) => Ok(()),
        Err(trouble) => Err(tell(trouble, action, json)),
    }
}

/// Reports a usage error as JSON, with the parser's message.
pub(super) fn misused(words: &str) -> Failure {
    let words = words.trim();
    let (what, more) = words.split_once("\n\n").unwrap_or((words, ""));
    let what = what.strip_prefix("error: ").unwrap_or(what);
    let message = what.split_whitespace().collect::<Vec<_>>().join(" ");
    WorkspaceError::new("invalid_usage", message, more.trim()).usage().tell("abort", true)
}

/// Reports as JSON that no data directory was found.
pub(super) fn unplaced(failure: Failure) -> Failure {
    WorkspaceError::from(failure).tell("abort", true)
}

/// Reports an error, unless it has already been reported.
fn tell(trouble: WorkspaceError, action: &str, json: bool) -> Failure {
    if trouble.message.is_empty() { Failure::Exit(trouble.exit) } else { trouble.tell(action, json) }
}

/// The place of a command; none if the user declined. The directory is checked before anything is read.
fn begin(paths: &Paths, args: &SessionArgs, json: bool) -> Result<Option<CommandDir>, WorkspaceError> {
    let dir = args.cwd.find()?;
    match guard(&dir, args.allow, json)? {
        Guarded::Aborted => Ok(None),
        Guarded::Go => Ok(Some(CommandDir::new(paths, sight(paths, &dir)?))),
    }
}

fn carry_out(place: &CommandDir, command: SessionCommand, json: bool) -> Result<(), WorkspaceError> {
    match command {
        SessionCommand::New(args) => write::new(place, args, json),
        SessionCommand::Append(args) => write::append(place, args, json),
        SessionCommand::List { limit, trash } => read::list(place, limit, trash, json),
        SessionCommand::Show { which, limit, revision } => {
            read::show(place, &which.session, revision, limit, read::OutputFormat::Shown, json)
        }
        SessionCommand::Latest { exclude } => read::latest(place, exclude.as_deref(), json),
        SessionCommand::Exists { session } => read::exists(place, &session, json),
        SessionCommand::Load(which) => {
            read::show(place, &which.session, None, usize::MAX, read::OutputFormat::Loaded, json)
        }
        SessionCommand::Resume { which, any_workspace, pid } => write::resume(place, which, any_workspace, pid, json),
        SessionCommand::Fork(args) => write::fork(place, args, json),
        SessionCommand::Rename { which, title, clear } => {
            write::rename(place, &which.session, title.filter(|_| !clear), json)
        }
        SessionCommand::Switch(which) => write::switch(place, &which.session, json),
        SessionCommand::Delete { session, force } => write::delete(place, &session, force, json),
        SessionCommand::Restore { session } => write::restore(place, &session, json),
        SessionCommand::Clear { which, confirm, conditions } => {
            write::clear(place, &which.session, confirm, conditions, json)
        }
        SessionCommand::Compact { which, keep, summary, conditions } => {
            write::compact(place, &which.session, keep, summary, conditions, json)
        }
        SessionCommand::History { which, count } => read::history(place, &which, count, json),
        SessionCommand::Purge { session, force } => write::purge(place, &session, force, json),
        SessionCommand::Import(args) => import::import(place, &args, json),
        SessionCommand::Export(args) => export::export(place, &args, json),
        SessionCommand::Lease { session, act } => write::lease(place, &session, &act, json),
    }
}
