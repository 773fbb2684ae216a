//! What people type: one file per group of commands. Tables for people, `--json` for programs; 0 done, 1 failed, 2 usage.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::Paths;

mod agent_state;
mod agents;
mod apply;
mod approvals;
mod backup;
mod change;
mod channels;
mod chat;
mod chats;
mod check;
mod configuration;
mod cron;
mod decide;
mod destinations;
mod doctor;
mod dropped;
mod entity;
mod image;
mod import;
mod inject;
mod line;
mod listening;
mod local;
mod log;
mod out;
mod progress;
mod purge;
mod questions;
mod rows;
mod self_test;
mod serve;
mod service;
mod session;
mod sessions;
mod shell;
mod sight;
mod since;
mod skips;
mod status;
mod store;
mod sweep;
mod tasks;
mod time;
mod transcripts;
mod trouble;
mod users;
mod watch;
mod why;
mod wirings;
mod words;
mod workspace;
mod zone;

/// A host daemon for personal AI agents: takes chat messages in, runs an agent for each conversation, brings the answers back
#[derive(Debug, Parser)]
#[command(name = "hearth", version, max_term_width = 100, disable_help_subcommand = true, after_help = FIRST_STEPS)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What somebody who types `hearth` for the first time wants to know.
const FIRST_STEPS: &str = "\
First steps:
  hearth up        set everything up and talk to an agent right here
  hearth doctor    find out what is missing, and how to get it
  hearth status    see what runs and what waits
";

/// Flags of every command, before or after its name; they stand apart from the command's own in its help.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
struct Global {
    /// Data directory [default: $HEARTH_DATA, else $XDG_DATA_HOME/hearth, else ~/.local/share/hearth]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Form of the log on standard error: `text`, or `json` with one object per line
    #[arg(long, global = true, value_enum, default_value_t, env = "HEARTH_LOG_FORMAT", value_name = "FORMAT")]
    #[arg(hide_env_values = true, hide_possible_values = true)]
    log_format: log::LogFormat,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set up what is missing, start, and talk to an agent here
    Up(chat::UpArgs),
    /// Run the daemon in the foreground
    Run(serve::RunArgs),
    /// Talk to an agent; with TEXT, ask one question and print the answers
    Chat(chat::ChatArgs),
    /// Make agents, users and chats match a file, and show what changes
    Apply(apply::ApplyArgs),
    /// Print the whole configuration as a file that `apply` takes
    Export,
    /// Read inbound events from standard input, one JSON object per line
    Inject(inject::InjectArgs),
    /// Explain what happened to a message, and why
    Why(why::WhyArgs),
    /// List refused messages with the reasons, newest first
    Dropped(dropped::DroppedArgs),
    /// Look for due work once, as the daemon does all the time
    Sweep(sweep::SweepArgs),
    /// List, show and change agents
    #[command(subcommand)]
    Agents(Box<agents::AgentsCommand>),
    /// List, show and change chats
    #[command(subcommand)]
    Chats(chats::ChatsCommand),
    /// List and change which agents listen in which chats
    #[command(subcommand)]
    Wirings(wirings::WiringsCommand),
    /// List, show and change people
    #[command(subcommand)]
    Users(users::UsersCommand),
    /// List, grant and revoke roles
    #[command(subcommand)]
    Roles(users::RolesCommand),
    /// List, add and remove the people who may talk to an agent
    #[command(subcommand)]
    Members(users::MembersCommand),
    /// List, add and remove the places an agent may write to
    #[command(subcommand)]
    Destinations(destinations::DestinationsCommand),
    /// List and decide approvals: of strangers, new chats, and requests of agents
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    /// List the configured networks and whether they are up
    #[command(subcommand)]
    Channels(channels::ChannelsCommand),
    /// List and answer the questions that agents ask people
    #[command(subcommand)]
    Questions(questions::QuestionsCommand),
    /// List, add and remove muted threads, which do not wake an agent
    #[command(subcommand)]
    Mutes(listening::MutesCommand),
    /// List and answer what skills left undone; find reports that nobody reads
    #[command(subcommand)]
    Skips(skips::SkipsCommand),
    /// List and end threads in which an agent keeps listening after a mention
    #[command(subcommand)]
    Sticky(listening::StickyCommand),
    /// List, show, reset and restart the conversations of agents
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
    /// List, add and change scheduled tasks
    #[command(subcommand)]
    Tasks(Box<tasks::TasksCommand>),
    /// Begin, resume, fork, list and remove sessions of the current directory
    Session(Box<session::SessionArgs>),
    /// Show, list and adopt workspaces: directories with sessions of their own
    Workspace(workspace::WorkspaceArgs),
    /// Show what runs, what waits and what is wrong
    Status(status::StatusArgs),
    /// Find what could keep Hearth from working, and say how to fix it
    Doctor(doctor::DoctorArgs),
    /// Run Hearth as a service that the system starts and watches
    Service(service::ServiceArgs),
    /// Build and list the container images of agents
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Import the data of other programs
    #[command(subcommand)]
    Import(ImportCommand),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a directory
    Man {
        /// The directory; it is created if missing
        dir: PathBuf,
    },
    /// Check that the store is consistent
    Check,
    /// Back up the store; the daemon may keep running
    Backup(backup::BackupArgs),
    /// Restore a backup; the daemon must be stopped
    Restore(backup::RestoreArgs),
    /// Shrink the store's file to what it holds; the daemon must be stopped
    Compact,
    /// Export and import the store as JSON lines
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Show when a cron expression runs next; needs no data directory
    #[command(subcommand)]
    Cron(cron::CronCommand),
    /// Show which instant a local time means; needs no data directory
    #[command(subcommand)]
    Time(time::TimeCommand),
    /// The program on the agents' side
    #[command(hide = true)]
    Agent {
        /// One of its commands; without one it is the runner of an agent's process
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

#[derive(Debug, Subcommand)]
enum ImportCommand {
    /// Import all session files of claw in a directory; the files are not changed
    Claw(session::ClawArgs),
    /// Import an installation of NanoClaw: agents, chats, people, tasks, waiting messages; it is not changed
    Nanoclaw(import::NanoclawArgs),
}

/// A failed command: what to tell people.
#[derive(Debug)]
enum Failure {
    /// It did not work.
    Failed(String),
    /// It was thought out over a configuration that is another by now; nothing was done.
    Changed(String),
    /// The store cannot be used as it is; the first is a word for programs.
    Store(&'static str, String),
    /// It was told already.
    Told,
    /// It was told already, and the process ends with this code.
    Exit(u8),
}

impl Failure {
    /// Whoever read the answer has seen enough, as `head` has: nothing went wrong.
    const UNREAD: Self = Self::Exit(0);
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let kind = store_kind(&error);
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors name their cause in their own words.
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        kind.map_or_else(|| Self::Failed(text.clone()), |kind| Self::Store(kind, text.clone()))
    }
}

/// The word for an error of the store.
fn store_kind(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    use crate::{config::BadPlace, daemon, state};
    if let Some(daemon::Error::State(of_store)) = error.downcast_ref() {
        return Some(of_store.kind());
    }
    if matches!(error.downcast_ref(), Some(daemon::Error::Place(_))) || error.is::<BadPlace>() {
        return Some("store_failed");
    }
    error.downcast_ref().map(state::Error::kind)
}

type Done = Result<(), Failure>;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    if let Some(done) = without_data(&cli.command, cli.global.json) {
        return exit(done);
    }
    if let Command::Agent { arguments } = &cli.command {
        let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        return agent_runner::main_from_arguments(&words);
    }
    log::start(matches!(cli.command, Command::Run(_)), cli.global.log_format);
    exit(run(cli))
}

/// Wrong usage is told by clap. Commands that tell all their errors to programs on standard output tell this one there too.
fn misused(error: &clap::Error) -> ExitCode {
    let words: Vec<std::ffi::OsString> = std::env::args_os().skip(1).take_while(|word| word != "--").collect();
    let command = Cli::command();
    let known = words.iter().find(|word| command.find_subcommand(word).is_some());
    let to_programs = known.is_some_and(|word| ["session", "workspace", "import"].iter().any(|name| word == name));
    if !error.use_stderr() || !to_programs || !words.iter().any(|word| word == "--json") {
        error.exit();
    }
    exit(Err(session::misused(&error.to_string())))
}

/// What needs no data directory.
fn without_data(command: &Command, json: bool) -> Option<Done> {
    match command {
        Command::Completions { shell } => Some(shell::completions(*shell, Cli::command())),
        Command::Man { dir } => Some(shell::man(dir, Cli::command())),
        Command::Cron(command) => Some(cron::cron(command, json)),
        Command::Time(command) => Some(time::time(command, json)),
        Command::Workspace(args) => workspace::without_data(args, json),
        _ => None,
    }
}

fn exit(done: Done) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Told) => ExitCode::FAILURE,
        Err(Failure::Exit(code)) => ExitCode::from(code),
        Err(Failure::Failed(message) | Failure::Changed(message) | Failure::Store(_, message)) => {
            out::error(&message);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Done {
    let json = cli.global.json;
    let paths = match Paths::find(cli.global.data.as_deref()) {
        Err(error)
            if json && matches!(cli.command, Command::Session(_) | Command::Workspace(_) | Command::Import(_)) =>
        {
            return Err(session::unplaced(error.into()));
        }
        found => found?,
    };
    match cli.command {
        Command::Up(args) => chat::up(&paths, &args, json),
        Command::Run(args) => serve::run(&paths, &args),
        Command::Chat(args) => chat::chat(&paths, &args, json),
        Command::Apply(args) => apply::apply(&paths, &args, json),
        Command::Export => apply::export(&paths, json),
        Command::Inject(args) => inject::inject(&paths, &args),
        Command::Why(args) => why::why(&paths, &args, json),
        Command::Dropped(args) => dropped::dropped(&paths, &args, json),
        Command::Sweep(args) => sweep::sweep(&paths, &args, json),
        Command::Agents(command) => change::again(|| agents::agents(&paths, &command, json)),
        Command::Chats(command) => change::again(|| chats::chats(&paths, &command, json)),
        Command::Wirings(command) => change::again(|| wirings::wirings(&paths, &command, json)),
        Command::Users(command) => change::again(|| users::users(&paths, &command, json)),
        Command::Roles(command) => users::roles(&paths, &command, json),
        Command::Members(command) => users::members(&paths, &command, json),
        Command::Destinations(command) => destinations::destinations(&paths, &command, json),
        Command::Approvals(command) => approvals::approvals(&paths, &command, json),
        Command::Channels(command) => channels::channels(&paths, &command, json),
        Command::Questions(command) => questions::questions(&paths, &command, json),
        Command::Mutes(command) => listening::mutes(&paths, &command, json),
        Command::Skips(command) => skips::skips(&paths, &command, json),
        Command::Sticky(command) => listening::sticky(&paths, &command, json),
        Command::Sessions(command) => sessions::sessions(&paths, &command, json),
        Command::Tasks(command) => tasks::tasks(&paths, *command, json),
        Command::Session(args) => session::session(&paths, *args, json),
        Command::Workspace(args) => workspace::workspace(&paths, &args, json),
        Command::Import(ImportCommand::Claw(args)) => session::claw(&paths, &args, json),
        Command::Status(args) => status::run(&paths, &args, json),
        Command::Doctor(args) => doctor::doctor(&paths, &args, json),
        Command::Service(args) => service::service(&paths, &args, json),
        Command::Image(command) => image::image(&paths, &command, json),
        Command::Import(ImportCommand::Nanoclaw(args)) => import::nanoclaw(&paths, &args, json),
        Command::Check => check::check(&paths, json),
        Command::Backup(args) => backup::backup(&paths, &args, json),
        Command::Restore(args) => backup::restore(&paths, &args, json),
        Command::Compact => backup::compact(&paths, json),
        Command::Store(command) => store::run(&paths, &command, json),
        Command::Agent { .. }
        | Command::Completions { .. }
        | Command::Man { .. }
        | Command::Cron(_)
        | Command::Time(_) => Ok(()),
    }
}
