//! The command line: one file per group of commands. Output is tables for people, and `--json` for programs. Exit
//! codes: 0 success, 1 failure, 2 usage error.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::env::env_lookup;
use crate::config::{Paths, seams};
use crate::crash;

mod agent_network;
mod agent_rules;
mod agent_state;
mod agents;
mod apply;
mod approvals;
mod backup;
mod bridge;
mod budgets;
mod change;
mod channels;
mod chat;
mod chats;
mod check;
mod configuration;
mod consent;
mod console;
mod cron;
mod daemon_status;
mod decide;
mod destinations;
mod doctor;
mod dropped;
mod entity;
mod hint;
mod hoard;
mod human_size;
mod human_time;
mod image;
mod import;
mod inject;
mod labels;
mod last_backup;
mod last_check;
mod listed;
mod listening;
mod local_owner;
mod log;
mod lookup;
mod memory;
mod mount_args;
mod net;
mod offline;
mod prerequisites;
mod print;
mod problems;
mod progress;
mod purge;
mod questions;
mod read_line;
mod report;
mod search;
mod self_test;
mod serve;
mod service;
mod session;
mod sessions;
mod setup;
mod shell;
mod skips;
mod speeches;
mod spend;
mod status;
mod store;
mod sweep;
mod tasks;
mod time;
mod time_args;
mod transcripts;
mod tty;
mod users;
mod warnings;
mod watch;
mod why;
mod wirings;
mod workspace;
mod zone;

/// A host daemon for personal AI agents: receives chat messages, runs an agent for each conversation, and delivers the answers
#[derive(Debug, Parser)]
#[command(name = "hearth", version, max_term_width = 100, after_help = FIRST_STEPS)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Help for new users.
const FIRST_STEPS: &str = "\
First steps:
  hearth up        try it: talk to an agent that only repeats what you write
  hearth setup     set up an agent with a model, a chat network and the service
  hearth doctor    find problems and how to fix them
  hearth status    see running agents and queued messages
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
    /// Format of the log on standard error: `text`, or `json` with one object per line
    #[arg(long, global = true, value_enum, default_value_t, env = "HEARTH_LOG_FORMAT", value_name = "FORMAT")]
    #[arg(hide_env_values = true, hide_possible_values = true)]
    log_format: log::LogFormat,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set up an agent with a model, a chat network and the service, by answering questions
    Setup(Box<setup::SetupArgs>),
    /// Set up what is missing, start the daemon, and talk to an agent in this terminal
    Up(chat::UpArgs),
    /// Run the daemon in the foreground
    Run(serve::RunArgs),
    /// Talk to an agent; with TEXT, ask one question and print the answers
    Chat(chat::ChatArgs),
    /// Apply a configuration file, and show what changes
    Apply(apply::ApplyArgs),
    /// Print the whole configuration as a file for `apply`
    Export,
    /// Read inbound events from standard input, one JSON object per line
    Inject(inject::InjectArgs),
    /// Explain what happened to a message, and why
    Why(why::WhyArgs),
    /// Find what people and agents said
    Search(search::SearchArgs),
    /// Show, correct and remove what agents remember
    #[command(subcommand)]
    Memory(memory::MemoryCommand),
    /// List dropped messages with the reasons, newest first
    Dropped(dropped::DroppedArgs),
    /// Show what agents use of models, and what it costs
    Spend(spend::SpendArgs),
    /// Show what agents reached over the network or were refused, and decide about hosts
    Net(net::NetArgs),
    /// Run one sweep: process everything that is due
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
    /// List the configured channels and their state
    #[command(subcommand)]
    Channels(channels::ChannelsCommand),
    /// Test a bridge, a program that connects Hearth with a network
    #[command(subcommand)]
    Bridge(bridge::BridgeCommand),
    /// List and answer the questions that agents ask people
    #[command(subcommand)]
    Questions(questions::QuestionsCommand),
    /// List, add and remove muted threads, which do not wake an agent
    #[command(subcommand)]
    Mutes(listening::MutesCommand),
    /// List and answer work that skills skipped; find reports without a reader
    #[command(subcommand)]
    Skips(skips::SkipsCommand),
    /// List and end threads that an agent follows after a mention
    #[command(subcommand)]
    Sticky(listening::StickyCommand),
    /// List, show, reset and restart the conversations of agents
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
    /// List, add and change scheduled tasks
    #[command(subcommand)]
    Tasks(Box<tasks::TasksCommand>),
    /// Old name of `workspace sessions`
    #[command(hide = true)]
    Session(Box<session::SessionArgs>),
    /// Show, list and adopt workspaces, and work with their sessions
    Workspace(workspace::WorkspaceArgs),
    /// Print a link that opens the console in a browser; list and end its sessions
    Console(console::ConsoleArgs),
    /// Show running agents, queued messages and problems
    Status(status::StatusArgs),
    /// Check for problems, and say how to fix them
    Doctor(doctor::DoctorArgs),
    /// Run Hearth as a service of the system
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
    Check(check::CheckArgs),
    /// Back up the store; the daemon may keep running
    Backup(backup::BackupArgs),
    /// Restore a backup; the daemon must be stopped
    Restore(backup::RestoreArgs),
    /// Shrink the store's file; the daemon must be stopped
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
    /// Show the log of the service
    Logs(service::LogsArgs),
    /// Start the service
    Start,
    /// Stop the service until the next login or `start`
    Stop,
    /// Stop and start the service
    Restart,
    /// Print the version
    Version,
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
    /// Import an installation of NanoClaw: agents, chats, people, tasks, waiting messages; the source is not changed
    Nanoclaw(import::NanoclawArgs),
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// A failure with a message.
    Failed(String),
    /// The configuration has changed since the command read it. Nothing was done.
    Changed(String),
    /// The store cannot be used. The first field is a code for programs.
    Store(&'static str, String),
    /// The failure has already been reported.
    Told,
    /// The failure has already been reported. The process exits with this code.
    Exit(u8),
}

impl Failure {
    /// The reader closed standard output, as `head` does. This is a success.
    const UNREAD: Self = Self::Exit(0);

    /// The failure's message, for use inside of another message.
    fn words(&self) -> &str {
        match self {
            Self::Failed(words) | Self::Changed(words) | Self::Store(_, words) => words,
            Self::Told | Self::Exit(_) => "see above",
        }
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let kind = store_kind(&error);
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors already include the text of their cause.
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        kind.map_or_else(|| Self::Failed(text.clone()), |kind| Self::Store(kind, text.clone()))
    }
}

/// The code for an error of the store.
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
    if shell::complete(Cli::command) {
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    crash::ask(seams::crash_at(), seams::points().as_deref());
    if let Some(done) = without_data(&cli.command, cli.global.json) {
        return exit(done);
    }
    if let Command::Agent { arguments } = &cli.command {
        let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        if means_agents(&words) {
            let meant = ["hearth agents".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ");
            let said = format!("`hearth agent` is for programs of agents; did you mean `{meant}`?");
            return exit(Err(Failure::Failed(said)));
        }
        return agent_runner::main_from_arguments(&words);
    }
    if let Command::Bridge(command) = &cli.command
        && let Some(done) = bridge::entered(command)
    {
        return exit(done);
    }
    log::start(matches!(cli.command, Command::Run(_)), cli.global.log_format);
    exit(run(cli))
}

/// Reports a usage error through clap. Commands that report errors as JSON on standard output report it there too.
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

/// Whether a person who typed `hearth agent` meant `hearth agents`, also if what follows is misspelt.
fn means_agents(words: &[String]) -> bool {
    match words.first() {
        Some(word) => !agent_runner::has_command(word),
        // Hearth starts the runner without arguments and with this variable.
        None => env_lookup(agent_runner::INCARNATION_VARIABLE).is_none(),
    }
}

fn version(json: bool) -> Done {
    let version = env!("CARGO_PKG_VERSION");
    if json {
        print::json(&serde_json::json!({ "version": version }))
    } else {
        print::line(&format!("hearth {version}"))
    }
}

/// Runs commands that need no data directory.
fn without_data(command: &Command, json: bool) -> Option<Done> {
    match command {
        Command::Completions { shell } => Some(shell::completions(*shell)),
        Command::Man { dir } => Some(shell::man(dir, Cli::command())),
        Command::Cron(command) => Some(cron::cron(command, json)),
        Command::Time(command) => Some(time::time(command, json)),
        Command::Version => Some(version(json)),
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
            print::error(&message);
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
    perform(&paths, cli.command, json).map_err(|failure| entity::with_nearest(&paths, failure))
}

fn perform(paths: &Paths, command: Command, json: bool) -> Done {
    match command {
        Command::Setup(args) => setup::setup(paths, &args, json),
        Command::Up(args) => chat::up(paths, &args, json),
        Command::Run(args) => serve::run(paths, &args),
        Command::Chat(args) => chat::chat(paths, &args, json),
        Command::Apply(args) => apply::apply(paths, &args, json),
        Command::Export => apply::export(paths, json),
        Command::Inject(args) => inject::inject(paths, &args, json),
        Command::Why(args) => why::why(paths, &args, json),
        Command::Dropped(args) => dropped::dropped(paths, &args, json),
        Command::Search(args) => search::search(paths, &args, json),
        Command::Memory(command) => memory::memory(paths, &command, json),
        Command::Net(args) => net::net(paths, &args, json),
        Command::Spend(args) => spend::spend(paths, &args, json),
        Command::Sweep(args) => sweep::sweep(paths, &args, json),
        Command::Agents(command) => change::again(|| agents::agents(paths, &command, json)),
        Command::Chats(command) => change::again(|| chats::chats(paths, &command, json)),
        Command::Wirings(command) => change::again(|| wirings::wirings(paths, &command, json)),
        Command::Users(command) => change::again(|| users::users(paths, &command, json)),
        Command::Roles(command) => users::roles(paths, &command, json),
        Command::Members(command) => users::members(paths, &command, json),
        Command::Destinations(command) => destinations::destinations(paths, &command, json),
        Command::Approvals(command) => approvals::approvals(paths, &command, json),
        Command::Channels(command) => channels::channels(paths, &command, json),
        Command::Bridge(command) => bridge::bridge(paths, &command, json),
        Command::Questions(command) => questions::questions(paths, &command, json),
        Command::Mutes(command) => listening::mutes(paths, &command, json),
        Command::Skips(command) => skips::skips(paths, &command, json),
        Command::Sticky(command) => listening::sticky(paths, &command, json),
        Command::Sessions(command) => sessions::sessions(paths, &command, json),
        Command::Tasks(command) => tasks::tasks(paths, *command, json),
        Command::Session(args) => session::session(paths, *args, json),
        Command::Workspace(args) => workspace::workspace(paths, args, json),
        Command::Import(ImportCommand::Claw(args)) => session::claw(paths, &args, json),
        Command::Console(args) => console::console(paths, &args, json),
        Command::Status(args) if args.watch => watch::watch(paths, json),
        Command::Status(_) => status::status(paths, json),
        Command::Doctor(args) => doctor::doctor(paths, &args, json),
        Command::Service(args) => service::service(paths, &args, json),
        Command::Logs(wanted) => service::of_this_system(paths, &service::ServiceCommand::Logs(wanted), json),
        Command::Start => service::of_this_system(paths, &service::ServiceCommand::Start, json),
        Command::Stop => service::of_this_system(paths, &service::ServiceCommand::Stop, json),
        Command::Restart => service::of_this_system(paths, &service::ServiceCommand::Restart, json),
        Command::Image(command) => image::image(paths, &command, json),
        Command::Import(ImportCommand::Nanoclaw(args)) => import::nanoclaw(paths, &args, json),
        Command::Check(args) => check::check(paths, &args, json),
        Command::Backup(args) => backup::backup(paths, &args, json),
        Command::Restore(args) => backup::restore(paths, &args, json),
        Command::Compact => backup::compact(paths, json),
        Command::Store(command) => store::run(paths, &command, json),
        Command::Version
        | Command::Agent { .. }
        | Command::Completions { .. }
        | Command::Man { .. }
        | Command::Cron(_)
        | Command::Time(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
