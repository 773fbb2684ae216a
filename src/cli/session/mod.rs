//! `hearth session`: what programs and people say in a directory, kept apart from what is said in others.

mod error;
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

use self::error::Trouble;
use self::place::Place;
use super::workspace::{self, AllowBroad, Cwd, Guarded};
use super::{Done, Failure};
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
struct Which {
    /// Its id, or `latest` for the newest in which something was said
    session: String,
}

/// Which session, or none to go on with what was switched to, else with the newest.
#[derive(Debug, Args)]
struct Perhaps {
    /// Its id, or `latest` [default: the one that was switched to, else `latest`]
    session: Option<String>,
    /// Skip this one
    #[arg(long, value_name = "ID")]
    exclude: Option<String>,
}

/// What has to hold for a change.
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
    /// Begin a session
    New(write::NewArgs),
    /// Add to a session: one message, or with --lines records from standard input
    Append(write::AppendArgs),
    /// List the sessions, the newest first
    List {
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50)]
        limit: usize,
        /// Show the sessions in the trash
        #[arg(long)]
        trash: bool,
    },
    /// Show a session and what was said in it
    Show {
        #[command(flatten)]
        which: Which,
        /// Show at most this many records, the newest ones
        #[arg(long, value_name = "NUMBER", default_value_t = 100)]
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
    /// Tell whether a session with this id exists: `yes` or `no`, with exit code 0 for both
    Exists {
        /// Its id
        session: String,
    },
    /// Print a whole session, for programs
    Load(Which),
    /// Resume a session
    Resume {
        #[command(flatten)]
        which: Perhaps,
        /// Look in other directories too; what is found there is continued here as a fork
        #[arg(long)]
        any_workspace: bool,
        /// Take its lease for this process
        #[arg(long, value_name = "PID")]
        pid: Option<u32>,
    },
    /// Make a new session that begins as a copy of another
    Fork(write::ForkArgs),
    /// Give a session a title
    Rename {
        #[command(flatten)]
        which: Which,
        /// The title
        #[arg(required_unless_present = "clear")]
        title: Option<String>,
        /// Remove the title
        #[arg(long, conflicts_with = "title")]
        clear: bool,
    },
    /// Make this the session that `resume` takes when none is named
    Switch(Which),
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
    /// Empty a session; what was said is kept as an earlier revision
    Clear {
        #[command(flatten)]
        which: Which,
        /// Do not ask
        #[arg(long)]
        confirm: bool,
        #[command(flatten)]
        conditions: Conditions,
    },
    /// Keep only the newest messages; the others stay in an earlier revision
    Compact {
        #[command(flatten)]
        which: Which,
        /// Messages to keep; more, so that no turn is cut in two
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        keep: u64,
        /// A summary of the messages left out
        #[arg(long, value_name = "TEXT")]
        summary: Option<String>,
        #[command(flatten)]
        conditions: Conditions,
    },
    /// Show what was typed, newest last
    History {
        #[command(flatten)]
        which: Perhaps,
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
    /// Take, renew or release a session's lease: which process works on it
    Lease {
        /// Its id
        session: String,
        #[command(flatten)]
        act: write::LeaseAct,
    },
}

impl SessionCommand {
    /// The word for programs.
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

/// Carries out a command about sessions.
pub(super) fn session(paths: &Paths, args: SessionArgs, json: bool) -> Done {
    let action = args.command.action();
    match begin(paths, &args, json) {
        Ok(Some(place)) => carry_out(&place, args.command, json).map_err(|why| tell(why, action, json)),
        Ok(None) => Ok(()),
        Err(trouble) => Err(tell(trouble, action, json)),
    }
}

/// Tells programs that a command is none, in the words of the parser.
pub(super) fn misused(words: &str) -> Failure {
    let words = words.trim();
    let (what, more) = words.split_once("\n\n").unwrap_or((words, ""));
    let what = what.strip_prefix("error: ").unwrap_or(what);
    let message = what.split_whitespace().collect::<Vec<_>>().join(" ");
    Trouble::new("invalid_usage", message, more.trim()).usage().tell("abort", true)
}

/// Tells programs that there is no place for the store.
pub(super) fn unplaced(failure: Failure) -> Failure {
    Trouble::from(failure).tell("abort", true)
}

/// A failure that was told already stays as it is.
fn tell(trouble: Trouble, action: &str, json: bool) -> Failure {
    if trouble.message.is_empty() { Failure::Exit(trouble.exit) } else { trouble.tell(action, json) }
}

/// Where it is given; none if a person thought better of it. Nothing is read before the directory was looked at.
fn begin(paths: &Paths, args: &SessionArgs, json: bool) -> Result<Option<Place>, Trouble> {
    let dir = args.cwd.find()?;
    match workspace::guard(&dir, args.allow, json)? {
        Guarded::Aborted => Ok(None),
        Guarded::Go => Ok(Some(Place::new(paths, workspace::sight(paths, &dir)?))),
    }
}

fn carry_out(place: &Place, command: SessionCommand, json: bool) -> Result<(), Trouble> {
    match command {
        SessionCommand::New(args) => write::new(place, args, json),
        SessionCommand::Append(args) => write::append(place, args, json),
        SessionCommand::List { limit, trash } => read::list(place, (limit, trash), json),
        SessionCommand::Show { which, limit, revision } => {
            read::show(place, (&which.session, revision), (limit, read::Form::Shown), json)
        }
        SessionCommand::Latest { exclude } => read::latest(place, exclude.as_deref(), json),
        SessionCommand::Exists { session } => read::exists(place, &session, json),
        SessionCommand::Load(which) => {
            read::show(place, (&which.session, None), (usize::MAX, read::Form::Loaded), json)
        }
        SessionCommand::Resume { which, any_workspace, pid } => write::resume(place, (which, any_workspace), pid, json),
        SessionCommand::Fork(args) => write::fork(place, args, json),
        SessionCommand::Rename { which, title, clear } => {
            write::rename(place, &which.session, title.filter(|_| !clear), json)
        }
        SessionCommand::Switch(which) => write::switch(place, &which.session, json),
        SessionCommand::Delete { session, force } => write::delete(place, &session, force, json),
        SessionCommand::Restore { session } => write::restore(place, &session, json),
        SessionCommand::Clear { which, confirm, conditions } => {
            write::clear(place, &which.session, (confirm, conditions), json)
        }
        SessionCommand::Compact { which, keep, summary, conditions } => {
            write::compact(place, &which.session, (keep, summary, conditions), json)
        }
        SessionCommand::History { which, count } => read::history(place, &which, count, json),
        SessionCommand::Purge { session, force } => write::purge(place, &session, force, json),
        SessionCommand::Import(args) => import::import(place, &args, json),
        SessionCommand::Export(args) => export::export(place, &args, json),
        SessionCommand::Lease { session, act } => write::lease(place, &session, &act, json),
    }
}
