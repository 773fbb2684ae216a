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

/// A host daemon for personal AI agents.
#[derive(Debug, Parser)]
#[command(name = "hearth", version, about, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Flags of every command, before or after its name.
#[derive(Debug, Args)]
struct Global {
    /// Data directory [default: $HEARTH_DATA, else hearth under the XDG data directory]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long, global = true)]
    json: bool,
    /// Form of what is logged on standard error
    #[arg(long, global = true, value_enum, default_value_t, env = "HEARTH_LOG_FORMAT", hide_env_values = true)]
    log_format: log::LogFormat,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set up what is missing, start, and talk here
    Up(chat::UpArgs),
    /// Run the daemon in the foreground
    Run(serve::RunArgs),
    /// Talk to an agent; with TEXT ask one question, print its answers, leave
    Chat(chat::ChatArgs),
    /// Make agents, users and chats be as a file says
    Apply(apply::ApplyArgs),
    /// Write the whole configuration as a file
    Export,
    /// Take inbound events, one JSON object per line on standard input
    Inject(inject::InjectArgs),
    /// Explain what became of a message, and why
    Why(why::WhyArgs),
    /// List what was refused, newest first
    Dropped(dropped::DroppedArgs),
    /// Look at what is due, once
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
    /// List, give and take roles
    #[command(subcommand)]
    Roles(users::RolesCommand),
    /// List, add and remove who may talk to an agent
    #[command(subcommand)]
    Members(users::MembersCommand),
    /// List, add and remove where agents may write
    #[command(subcommand)]
    Destinations(destinations::DestinationsCommand),
    /// List, show and decide what somebody has to decide
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    /// List the networks that are configured
    #[command(subcommand)]
    Channels(channels::ChannelsCommand),
    /// List, show and answer what agents ask people
    #[command(subcommand)]
    Questions(questions::QuestionsCommand),
    /// List, add and remove threads that do not wake an agent
    #[command(subcommand)]
    Mutes(listening::MutesCommand),
    /// List, show and answer what skills left undone, and look for summaries that leaked
    #[command(subcommand)]
    Skips(skips::SkipsCommand),
    /// List and end where agents go on listening after they were addressed
    #[command(subcommand)]
    Sticky(listening::StickyCommand),
    /// List, show, reset and change sessions
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
    /// List, show, make and change what agents do by the clock
    #[command(subcommand)]
    Tasks(Box<tasks::TasksCommand>),
    /// Begin, continue, fork, list and remove sessions of the current directory
    Session(Box<session::SessionArgs>),
    /// Show, list and adopt workspaces: the directories whose sessions are kept apart
    Workspace(workspace::WorkspaceArgs),
    /// Show what runs, what waits and what is wrong
    Status(status::StatusArgs),
    /// Look for what could keep Hearth from working, and say how to mend it
    Doctor(doctor::DoctorArgs),
    /// Have the system start, watch and stop the daemon
    Service(service::ServiceArgs),
    /// Build and list what agents run in
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Take over what other programs kept
    #[command(subcommand)]
    Import(ImportCommand),
    /// Write completions for a shell to standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a directory
    Man {
        /// The directory; it is made if it is not there
        dir: PathBuf,
    },
    /// Prove that the store agrees with itself
    Check,
    /// Copy the store, also beside a running daemon
    Backup(backup::BackupArgs),
    /// Put a backup in place; the daemon must not run
    Restore(backup::RestoreArgs),
    /// Make the store's file as small as what it holds; the daemon must not run
    Compact,
    /// Write the store as JSON lines, and make one of them
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Show when a cron expression runs; needs no data directory
    #[command(subcommand)]
    Cron(cron::CronCommand),
    /// Show what a time means; needs no data directory
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
    /// Take all sessions of a directory in from session files of claw; the files stay as they are
    Claw(session::ClawArgs),
    /// Take over an installation of NanoClaw: agents, chats, people, tasks and what waits; it stays as it is
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
