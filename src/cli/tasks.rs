//! `hearth tasks`: what agents do by the clock. Shown from the store beside the daemon, changed through it.

use std::io::Read as _;

use clap::{Args, Subcommand};

use super::local::{Host, host, unfit};
use super::rows::ChatRef;
use super::{Done, Failure, agents, chats, configuration, entity, status, zone};
use crate::clock;
use crate::config::Paths;
use crate::model::id::{SessionId, TaskId};
use crate::model::input::Input;
use crate::model::report::Reply;
use crate::model::task::{Missed, Overlap};
use crate::model::time::{Millis, Timestamp};
use crate::socket::client::unexpected;
use crate::socket::protocol::{Request, Response};
use crate::socket::task::{ChatJson, NewTaskJson, TaskChangeJson, TaskRequest};
use crate::state::Reader;
use crate::time::cron::Cron;
use crate::time::every::Every;
use crate::time::local;
use crate::time::zone::Zone;

mod shown;

/// For so long a time that is over still counts as now.
const JUST_NOW: Millis = Millis::minutes(1);

pub(super) use shown::{TaskCounts, counts, print_counts};

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
    /// Pause a task; a run under way continues, and one that waits for its end (`--overlap queue`) still follows it
    Pause {
        /// Its id, like ta3
        task: TaskId,
    },
    /// Resume a task; a time missed meanwhile is due at once
    Resume {
        /// Its id, like ta3
        task: TaskId,
    },
    /// Cancel a task; a run under way continues
    Cancel {
        /// Its id, like ta3
        task: TaskId,
    },
    /// Run a task now, in addition to its schedule
    Run {
        /// Its id, like ta3
        task: TaskId,
    },
    /// List the runs of a task and how each ended, newest first
    History {
        /// Its id, like ta3
        task: TaskId,
        /// Show at most this many
        #[arg(long, value_name = "NUMBER", default_value_t = 50)]
        limit: usize,
    },
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("when").args(["at", "every", "cron"]).required(true).multiple(true))]
pub(super) struct AddArgs {
    /// The agent's folder
    agent: String,
    /// What the agent is told
    prompt: String,
    /// When, or when first: like 2026-01-15T21:00 in the agent's zone, or with an offset or Z; a task that runs once needs
    /// a time to come
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// At this interval: 90m, 2h, 1d
    #[arg(long, value_name = "INTERVAL", conflicts_with = "cron")]
    every: Option<String>,
    /// By a cron expression in the agent's zone, like "0 9 * * 1-5"
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
    /// Where its answers go: mg7, or channel/platform-id
    #[arg(long, value_name = "CHAT")]
    chat: Option<ChatRef>,
    #[command(flatten)]
    rules: Rules,
}

#[derive(Debug, Args)]
struct Rules {
    /// Times missed while nothing could run: once, skip or all:N [default: once]
    #[arg(long, value_name = "WHAT")]
    missed: Option<Missed>,
    /// Times that come during an earlier run: refuse or queue [default: refuse]
    #[arg(long, value_name = "WHAT")]
    overlap: Option<Overlap>,
}

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// Its id, like ta3
    task: TaskId,
    /// What the agent is told
    #[arg(long)]
    prompt: Option<String>,
    /// When it runs next
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// At this interval: 90m, 2h, 1d
    #[arg(long, value_name = "INTERVAL", conflicts_with_all = ["cron", "once"])]
    every: Option<String>,
    /// By a cron expression in the agent's zone
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
    #[command(flatten)]
    rules: Rules,
}

/// Shows and changes tasks.
pub(super) fn tasks(paths: &Paths, command: TasksCommand, json: bool) -> Done {
    let wanted = match command {
        TasksCommand::List { agent, all } => return shown::list(paths, (agent.as_deref(), all), json),
        TasksCommand::Show { task } => return shown::show(paths, task, json),
        TasksCommand::History { task, limit } => return shown::history(paths, (task, limit), json),
        TasksCommand::Add(args) => TaskRequest::Add(new(paths, args)?),
        TasksCommand::Set(args) => TaskRequest::Set { task: args.task.to_string(), change: change(args)? },
        TasksCommand::Pause { task } => TaskRequest::Pause { task: task.to_string() },
        TasksCommand::Resume { task } => TaskRequest::Resume { task: task.to_string() },
        TasksCommand::Cancel { task } => TaskRequest::Cancel { task: task.to_string() },
        TasksCommand::Run { task } => TaskRequest::Run { task: task.to_string() },
    };
    let task = submit(paths, wanted)?;
    shown::show(paths, task, json)
}

/// Has a task made or changed.
pub(super) fn submit(paths: &Paths, wanted: TaskRequest) -> Result<TaskId, Failure> {
    // A task needs an agent: there is nothing to do without a store, so none is made.
    Reader::open(paths.data()).map(drop)?;
    let command = wanted.clone().command().map_err(Failure::Failed)?;
    match host(paths, false)? {
        Host::Daemon(mut client) => match client.ask(&Request::Task { wanted })? {
            Response::Task { task } => {
                task.parse().map_err(|_| Failure::Failed(format!("the daemon speaks of `{task}`, which is not a task")))
            }
            other => Err(unexpected(other).into()),
        },
        Host::Store(local) => match local.submit(Input::Task(command), false)? {
            Reply::Task(id, _) => Ok(id),
            other => Err(unfit(other)),
        },
    }
}

fn new(paths: &Paths, args: AddArgs) -> Result<NewTaskJson, Failure> {
    let known = configuration::read(paths)?;
    let found = known.agents.iter().find(|agent| agent.folder.as_str() == args.agent);
    let agent = found.ok_or_else(|| entity::missing("agent", &args.agent))?;
    let reply = args.chat.map(|chat| chats::place(&known, &chat)).transpose()?;
    let recurrence = recurrence(args.every, args.cron)?;
    if let (Some(at), None) = (&args.at, &recurrence) {
        let (own, common) = (agent.settings.timezone.as_deref(), agents::common_zone(&known));
        let (zone, _) = zone::that_holds(status::ask(paths).unwrap_or_default().as_ref(), own, common);
        check_ahead(at, &zone, clock::wall())?;
    }
    Ok(NewTaskJson {
        agent: agent.id.to_string(),
        session: args.session.map(|session| session.to_string()),
        prompt: args.prompt,
        script: args.script.map(script).transpose()?,
        reply: reply.map(|place| ChatJson { channel: place.channel, platform_id: place.platform_id }),
        at: args.at,
        recurrence,
        missed: args.rules.missed.map(|missed| missed.to_string()),
        overlap: args.rules.overlap.map(|overlap| overlap.to_string()),
        imported: None,
        paused: false,
    })
}

/// A time that is over is a mistake: the task would run at once. What is just over was meant as now.
fn check_ahead(at: &str, zone: &Zone, now: Timestamp) -> Done {
    match local::instant(at, zone) {
        Ok(when) if when.plus(JUST_NOW) < now => Err(Failure::Failed(format!(
            "{at} is over: it was {} in {zone}, and now it is {}; name a time to come",
            local::show(when, zone),
            local::show(now, zone)
        ))),
        // Whoever makes the task says what is wrong with another one.
        _ => Ok(()),
    }
}

fn change(args: SetArgs) -> Result<TaskChangeJson, Failure> {
    let none = |wanted: bool| wanted.then(String::new);
    Ok(TaskChangeJson {
        prompt: args.prompt,
        script: args.script.map(script).transpose()?.or(none(args.no_script)),
        at: args.at,
        recurrence: recurrence(args.every, args.cron)?.or(none(args.once)),
        missed: args.rules.missed.map(|missed| missed.to_string()),
        overlap: args.rules.overlap.map(|overlap| overlap.to_string()),
    })
}

/// What was said of when it comes again: each way of saying it has a flag of its own.
fn recurrence(every: Option<String>, cron: Option<String>) -> Result<Option<String>, Failure> {
    if let Some(every) = &every {
        Every::parse(every).map_err(|error| Failure::Failed(error.to_string()))?;
    }
    if let Some(cron) = &cron {
        Cron::parse(cron).map_err(|error| Failure::Failed(error.to_string()))?;
    }
    Ok(every.or(cron))
}

/// The text of a script; an empty one is no script, and a mistake.
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
