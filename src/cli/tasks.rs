//! `hearth tasks`: scheduled tasks of agents. Reads the store beside the daemon, and changes it through the daemon.

use std::io::Read as _;

use clap::{Args, Subcommand};

use super::configuration::{ChatEntry, Configuration};
use super::listed;
use super::lookup::ChatRef;
use super::offline::{mismatch, submit as submit_command};
use super::{Done, Failure, agents, chats, configuration, daemon_status, entity, human_time, zone};
use crate::channel::terminal;
use crate::clock;
use crate::config::Paths;
use crate::model::address::Address;
use crate::model::configure::{ChatSpec, RoleSpec};
use crate::model::entity::AgentSettings;
use crate::model::id::{SessionId, TaskId};
use crate::model::task::{Missed, Overlap, TaskHome, TaskOrigin};
use crate::model::task_command::{NewTask, Patch, TaskChange, TaskCommand};
use crate::model::time::{Millis, Timestamp};
use crate::socket::command::{Answer, ClientCommand};
use crate::state::Reader;
use crate::time::cron::Cron;
use crate::time::every::Every;
use crate::time::local::{self, BadTime};
use crate::time::natural;
use crate::time::zone::Zone;

mod places;
mod shown;

/// The shortest interval for an agent with a model without `--force`.
const CHEAP: Millis = Millis::minutes(1);
/// Maximum age of a time that still counts as now.
const JUST_NOW: Millis = Millis::minutes(1);

pub(super) use shown::{ExplainedTask, TaskCounts, counts, explain, failing, past_runs};

#[derive(Debug, Subcommand)]
pub(super) enum TasksCommand {
    /// Add a task: once, at intervals, or by cron
    Add(AddArgs),
    /// List tasks, next run first
    List {
        /// Only of this agent
        agent: Option<String>,
        /// Also finished tasks
        #[arg(long)]
        all: bool,
    },
    /// Show one task
    Show {
        /// Its id, like ta3
        task: TaskId,
    },
    /// Change a task that is not finished
    Set(SetArgs),
    /// Pause a task; the current run continues, and a queued one (`--overlap queue`) still follows it
    Pause {
        /// Its id, like ta3
        task: TaskId,
    },
    /// Resume a task; a run that was missed meanwhile starts at once
    Resume {
        /// Its id, like ta3
        task: TaskId,
    },
    /// Cancel a task; the current run continues
    Cancel {
        /// Its id, like ta3
        task: TaskId,
    },
    /// Run a task now, in addition to its schedule
    Run {
        /// Its id, like ta3
        task: TaskId,
    },
    /// List the runs of a task with their outcomes, newest first
    History {
        /// Its id, like ta3
        task: TaskId,
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = listed::limit)]
        limit: usize,
    },
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("when").args(["at", "every", "cron"]).required(true).multiple(true))]
pub(super) struct AddArgs {
    /// The agent's folder
    agent: String,
    /// Prompt for the agent
    prompt: String,
    /// Time of the first run: +10m, 8am, tomorrow 8am, mon 9:00, or like 2026-01-15T21:00, in the agent's time zone, or with
    /// an offset or Z; a task that runs once needs a future time
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// At this interval: 90m, 2h, 1d
    #[arg(long, value_name = "INTERVAL", conflicts_with = "cron")]
    every: Option<String>,
    /// By a cron expression in the agent's time zone, like "0 9 * * 1-5"
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// Shell script that runs first and decides whether to wake the agent; `-` is standard input
    #[arg(long, value_name = "FILE")]
    script: Option<String>,
    /// Session to run it in, like se3
    #[arg(long, value_name = "SESSION", conflicts_with = "maintenance")]
    session: Option<SessionId>,
    /// Run it in the agent's maintenance session, which belongs to no conversation (the default)
    #[arg(long)]
    maintenance: bool,
    /// Where its answers go: mg7, or channel/platform-id [default: the owner's direct chat, else the agent's only chat]
    #[arg(long, value_name = "CHAT")]
    chat: Option<ChatRef>,
    /// Send its answers nowhere; the agent can still send messages with its tools
    #[arg(long, conflicts_with = "chat")]
    no_chat: bool,
    /// Tool calls that no one is asked about in its runs, like 'Bash(git push:*)'; repeat for more
    #[arg(long, value_name = "PATTERN")]
    allow: Vec<String>,
    /// Allow intervals below a minute for an agent with a model
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    rules: RunPolicyArgs,
}

#[derive(Debug, Args)]
struct RunPolicyArgs {
    /// Runs missed while Hearth was not running: once, skip or all:N [default: once]
    #[arg(long, value_name = "WHAT")]
    missed: Option<Missed>,
    /// Runs that are due during an earlier run: refuse (skip) or queue [default: refuse]
    #[arg(long, value_name = "WHAT")]
    overlap: Option<Overlap>,
}

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// Its id, like ta3
    task: TaskId,
    /// Prompt for the agent
    #[arg(long)]
    prompt: Option<String>,
    /// When it runs next, as for `add`
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// At this interval: 90m, 2h, 1d
    #[arg(long, value_name = "INTERVAL", conflicts_with_all = ["cron", "once"])]
    every: Option<String>,
    /// By a cron expression in the agent's time zone
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "once")]
    cron: Option<String>,
    /// Do not repeat after the next run
    #[arg(long)]
    once: bool,
    /// Shell script that runs first; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "no_script")]
    script: Option<String>,
    /// Remove its script
    #[arg(long)]
    no_script: bool,
    /// Where its answers go from the next run on: mg7, or channel/platform-id
    #[arg(long, value_name = "CHAT")]
    chat: Option<ChatRef>,
    /// Send its answers to no other chat than that of its session; maintenance sessions have none
    #[arg(long, conflicts_with = "chat")]
    no_chat: bool,
    /// Allow intervals below a minute for an agent with a model
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    rules: RunPolicyArgs,
}

/// Shows and changes tasks.
pub(super) fn tasks(paths: &Paths, command: TasksCommand, json: bool) -> Done {
    let wanted = match command {
        TasksCommand::List { agent, all } => return shown::list(paths, agent.as_deref(), all, json),
        TasksCommand::Show { task } => return shown::show(paths, task, json),
        TasksCommand::History { task, limit } => return shown::history(paths, task, limit, json),
        TasksCommand::Add(args) => TaskCommand::Add(Box::new(new(paths, args)?)),
        TasksCommand::Set(args) => TaskCommand::Set(args.task, Box::new(change(paths, args)?)),
        TasksCommand::Pause { task } => TaskCommand::Pause(task),
        TasksCommand::Resume { task } => TaskCommand::Resume(task),
        TasksCommand::Cancel { task } => TaskCommand::Cancel(task),
        TasksCommand::Run { task } => TaskCommand::Run(task),
    };
    let task = submit(paths, wanted)?;
    shown::show(paths, task, json)
}

/// Submits a command about tasks.
pub(super) fn submit(paths: &Paths, command: TaskCommand) -> Result<TaskId, Failure> {
    // A task needs an agent, so a missing store is not created.
    Reader::open(paths.data()).map(drop)?;
    command.check().map_err(Failure::Failed)?;
    match submit_command(paths, ClientCommand::Task(command))? {
        Answer::Task(id) => Ok(id),
        other => Err(mismatch(&other)),
    }
}

fn new(paths: &Paths, args: AddArgs) -> Result<NewTask, Failure> {
    let known = configuration::read(paths)?;
    let found = known.agents.iter().find(|agent| agent.folder.as_str() == args.agent);
    let agent = found.ok_or_else(|| entity::no_agent(&args.agent))?;
    let reply = match args.chat {
        Some(chat) => Some(chats::address(&known, &chat)?),
        // A conversation has a chat of its own.
        None if args.no_chat || args.session.is_some() => None,
        None => Some(default_chat(&known, &args.agent)?),
    };
    if !args.force {
        check_cost(agent.folder.as_str(), &agent.settings, args.every.as_deref())?;
    }
    let recurrence = recurrence(args.every, args.cron)?;
    let at = match args.at {
        Some(at) => {
            let (zone, now) = (zone_of(paths, &known, &agent.settings), clock::wall());
            let at = read_time(&at, &zone, now)?;
            if recurrence.is_none() {
                check_ahead(&at, &zone, now)?;
            }
            Some(at)
        }
        None => None,
    };
    Ok(NewTask {
        agent: agent.id,
        home: args.session.map_or(TaskHome::Maintenance, TaskHome::Session),
        prompt: args.prompt,
        script: args.script.map(script).transpose()?,
        reply,
        first: at,
        recurrence,
        missed: args.rules.missed.unwrap_or_default(),
        overlap: args.rules.overlap.unwrap_or_default(),
        origin: TaskOrigin::Operator,
        allow: args.allow,
    })
}

/// The chat for the answers of a task: the direct chat of an owner with the agent, else the agent's only chat.
fn default_chat(known: &Configuration, folder: &str) -> Result<Address, Failure> {
    let has_agent = |chat: &&ChatEntry| chat.spec.wirings.iter().any(|wiring| wiring.agent.as_str() == folder);
    let all: Vec<&ChatEntry> = known.chats.iter().filter(has_agent).collect();
    let owners = || known.users.iter().filter(|user| user.spec.roles.contains(&RoleSpec::Owner));
    let is_owners = |chat: &&ChatEntry| {
        let ChatSpec { channel, platform_id, group, .. } = &chat.spec;
        !group && owners().any(|user| user.spec.id.to_string() == format!("{channel}:{platform_id}"))
    };
    // People read a terminal only while they sit there.
    let is_terminal = |chat: &&ChatEntry| chat.spec.channel.as_str() == terminal::NAME;
    let mut direct: Vec<&ChatEntry> = all.iter().copied().filter(is_owners).collect();
    if direct.is_empty() {
        direct = all.iter().copied().filter(is_terminal).collect();
    }
    match (direct.as_slice(), all.as_slice()) {
        ([chat], _) | ([], [chat]) => {
            let ChatSpec { channel, platform_id, .. } = &chat.spec;
            Ok(Address { channel: channel.clone(), platform_id: platform_id.clone(), thread: None })
        }
        (_, []) => Err(Failure::Failed(format!(
            "{folder} listens in no chat, so its answers could go nowhere: name a chat with --chat, wire one with `hearth wirings \
             add`, or add --no-chat"
        ))),
        (_, several) => {
            let names: Vec<String> = several.iter().map(|chat| chats::label(chat)).collect();
            let names = names.join(", ");
            Err(Failure::Failed(format!(
                "{folder} listens in several chats: choose one of {names} with --chat, or add --no-chat"
            )))
        }
    }
}

/// Rejects a very short interval for an agent with a model, because each run costs a turn of the model.
fn check_cost(folder: &str, settings: &AgentSettings, every: Option<&str>) -> Done {
    let interval = every.and_then(|every| Every::parse(every).ok()).map(Every::length);
    match interval {
        Some(interval) if settings.provider.has_model() && interval < CHEAP => {
            let runs = Millis::days(1).get() / interval.get().max(1);
            Err(Failure::Failed(format!(
                "every {} would ask the model of {folder} {runs} times a day; add --force if you want to pay for that",
                every.unwrap_or_default()
            )))
        }
        _ => Ok(()),
    }
}

/// The time zone of an agent.
fn zone_of(paths: &Paths, known: &Configuration, settings: &AgentSettings) -> Zone {
    let daemon = daemon_status::ask(paths).unwrap_or_default();
    zone::that_holds(daemon.as_ref(), settings.timezone.as_deref(), agents::common_zone(known)).0
}

/// Reads a time as people say it, or as programs write it.
fn read_time(text: &str, zone: &Zone, now: Timestamp) -> Result<String, Failure> {
    let at = natural::expand(text, zone, now).unwrap_or_else(|| text.to_owned());
    match local::instant(&at, zone) {
        Ok(_) => Ok(at),
        Err(BadTime::Form { .. }) => {
            let (text, examples) = (text.escape_debug(), natural::EXAMPLES);
            Err(Failure::Failed(format!("`{text}` is not a time; write one like {examples}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Rejects a time in the past, at which the task would run at once. A time within the last minute means now.
fn check_ahead(at: &str, zone: &Zone, now: Timestamp) -> Done {
    match local::instant(at, zone) {
        Ok(when) if when.plus(JUST_NOW) < now => Err(Failure::Failed(format!(
            "{at} is in the past: it was {} in {zone}, and now it is {}; give a future time",
            human_time::at_zone(when, zone),
            human_time::at_zone(now, zone)
        ))),
        _ => Ok(()),
    }
}

fn change(paths: &Paths, args: SetArgs) -> Result<TaskChange, Failure> {
    let mut at = args.at;
    if args.every.is_some() || at.is_some() {
        let of = Reader::open(paths.data())?.read(|db, txn| db.tasks.get(txn, &args.task))?.map(|task| task.agent);
        let known = configuration::read(paths)?;
        // An unknown task is refused when the change is made.
        if let Some(agent) = known.agents.iter().find(|agent| Some(agent.id) == of) {
            if !args.force {
                check_cost(agent.folder.as_str(), &agent.settings, args.every.as_deref())?;
            }
            let zone = zone_of(paths, &known, &agent.settings);
            at = at.map(|at| read_time(&at, &zone, clock::wall())).transpose()?;
        }
    }
    let reply = match &args.chat {
        Some(chat) => Some(chats::address(&configuration::read(paths)?, chat)?),
        None => None,
    };
    Ok(TaskChange {
        prompt: args.prompt,
        script: patch(args.script.map(script).transpose()?, args.no_script),
        reply: patch(reply, args.no_chat),
        next: at,
        recurrence: patch(recurrence(args.every, args.cron)?, args.once),
        missed: args.rules.missed,
        overlap: args.rules.overlap,
    })
}

fn patch<T>(value: Option<T>, removed: bool) -> Patch<T> {
    match value {
        Some(value) => Patch::Set(value),
        None if removed => Patch::Clear,
        None => Patch::Keep,
    }
}

/// The recurrence. Each form has its own flag.
fn recurrence(every: Option<String>, cron: Option<String>) -> Result<Option<String>, Failure> {
    if let Some(every) = &every {
        if !every.is_empty() && every.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Failure::Failed(format!(
                "--every {every} has no unit: write {every}s, {every}m, {every}h or {every}d"
            )));
        }
        Every::parse(every).map_err(|error| Failure::Failed(error.to_string()))?;
    }
    if let Some(cron) = &cron {
        Cron::parse(cron).map_err(|error| Failure::Failed(error.to_string()))?;
    }
    Ok(every.or(cron))
}

/// Reads a script. An empty one is an error.
fn script(file: String) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == "-" {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::File::open(&file).and_then(|mut file| file.read_to_string(&mut text)).map(drop)
    };
    read.map_err(|error| Failure::Failed(format!("cannot read the script {file}: {error}")))?;
    if text.trim().is_empty() {
        return Err(Failure::Failed(format!("the script {file} is empty")));
    }
    Ok(text)
}
