//! Output of tasks and their run history, for people and programs.

use serde::Serialize;

use super::places::{goes_to, sent_to};
use crate::cli::listed::{self, Column, Field, Listed};
use crate::cli::{Done, Failure, configuration, daemon_status, entity, human_time, labels, lookup, print};
use crate::config::{Machine, Paths};
use crate::console::Rank;
use crate::model::id::TaskId;
use crate::model::task::{Fire, FireOutcome, SkipReason, Task, TaskHome, TaskOrigin};
use crate::model::time::Timestamp;
use crate::state::{self, Owned, Read, Reader, Tables};
use crate::time::every;
use crate::time::local;
use crate::time::zone::Zone;

/// Number of consecutive failures from which on a task is reported.
const FAILURES_WARNED: u32 = 3;

/// Runs that `hearth why` shows.
const SLOTS_EXPLAINED: usize = 10;

/// One task of `hearth tasks list --json`.
#[derive(Debug, Serialize)]
struct TaskJson {
    task: String,
    agent: String,
    /// `active`, `paused`, `done` or `cancelled`.
    state: &'static str,
    /// Session in which it runs; null is the agent's maintenance session.
    session: Option<String>,
    /// Chat for its output; null is the session's own chat.
    chat: Option<String>,
    /// The chat's name for people; of the session's own chat, too.
    #[serde(skip)]
    chat_words: Option<String>,
    prompt: String,
    script: Option<String>,
    /// A cron expression or an interval; null runs once.
    recurrence: Option<String>,
    /// The next run, in UTC. A paused task keeps its next run. Null if the task has ended.
    next: Option<String>,
    /// The next run in the agent's time zone.
    next_local: Option<String>,
    /// The agent's time zone.
    zone: String,
    /// `once`, `skip` or `all:N`.
    missed: String,
    /// `refuse` or `queue`.
    overlap: String,
    /// The message of the current run.
    running: Option<String>,
    /// A run that waits for the end of the current one.
    queued: Option<String>,
    /// Number of consecutive failures.
    failures: u32,
    /// Session whose agent created it; null for a command.
    made_in: Option<String>,
    created: String,
    changed: String,
}

/// One scheduled run of a task.
#[derive(Debug, Serialize)]
struct SlotJson {
    slot: String,
    /// The scheduled time in the time zone that the agent had then.
    local: String,
    zone: String,
    /// `running`, `done`, `failed`, `gated`, `script_failed`, `skipped` or `queued`.
    outcome: &'static str,
    /// Why it was skipped: `missed` or `still_running`.
    reason: Option<&'static str>,
    /// The last of several runs that were skipped together.
    until: Option<String>,
    /// Number of skipped runs; null if they were not counted, or none was skipped.
    count: Option<u32>,
    message: Option<String>,
    /// Where its answers went, or go, by name. Empty if there are none, or if retention removed them.
    sent_to: Vec<String>,
    /// Output of the script, or the error.
    words: Option<String>,
    /// When this was decided.
    at: String,
}

/// A task, why it is in its state, and its newest runs.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct ExplainedTask {
    #[serde(flatten)]
    task: TaskJson,
    words: String,
    /// Newest first.
    slots: Vec<SlotJson>,
}

/// Tasks in `hearth status`.
#[derive(Debug, Default, Serialize)]
pub(in crate::cli) struct TaskCounts {
    /// Tasks that have not ended.
    open: u64,
    paused: u64,
    /// Tasks with a current run.
    running: u64,
    /// The next run of any task; null if there is none.
    next: Option<String>,
}

/// Time zones that apply to agents without their own.
struct Zones {
    common: Option<String>,
    daemon: Option<Zone>,
}

impl Zones {
    fn find(paths: &Paths, reader: &Reader) -> Result<Self, Failure> {
        let common = reader.read(|db, txn| db.settings.get(txn, &()))?.and_then(|settings| settings.timezone);
        // The daemon may see another machine time zone than this command.
        let daemon = daemon_status::ask(paths).ok().flatten().and_then(|daemon| Zone::parse(&daemon.zone).ok());
        Ok(Self { common, daemon })
    }

    fn of(&self, agent: Option<&str>) -> Zone {
        let configured = agent.or(self.common.as_deref()).and_then(|name| Zone::parse(name).ok());
        configured.or_else(|| self.daemon.clone()).unwrap_or_else(|| Machine::look().zone(None, None).zone)
    }
}

pub(super) fn list(paths: &Paths, agent: Option<&str>, all: bool, json: bool) -> Done {
    if let Some(agent) = agent {
        entity::known_agent(&configuration::read(paths)?, agent)?;
    }
    let reader = Reader::open(paths.data())?;
    let zones = Zones::find(paths, &reader)?;
    let mut found = reader.read(|db, txn| collect(db, txn, agent, all, &zones))?;
    // The next run comes first, ended tasks last.
    found.sort_by_key(|(next, id, _)| (next.is_none(), *next, *id));
    let tasks: Vec<TaskJson> = found.into_iter().map(|(_, _, task)| task).collect();
    listed::list(&tasks, json, "no tasks")
}

impl Listed for TaskJson {
    const PLURAL: &'static str = "tasks";
    const COLUMNS: &'static [Column<Self>] = &[
        ("ID", |task| task.task.clone()),
        ("AGENT", |task| task.agent.clone()),
        ("STATE", standing),
        ("NEXT", |task| local_text(task.next.as_deref(), &task.zone)),
        ("ZONE", |task| task.zone.clone()),
        ("DUE", |task| task.next.as_deref().map(human_time::age).unwrap_or_default()),
        ("REPEATS", |task| task.recurrence.clone().unwrap_or_else(|| "no".to_owned())),
        ("PROMPT", |task| labels::excerpt(&task.prompt)),
    ];

    fn fields(&self) -> Vec<Field> {
        let next = self.next.as_deref();
        let created_by = self.made_in.as_ref().map_or_else(
            || "created from the command line".to_owned(),
            |session| format!("created by the agent in {session}"),
        );
        let missed = match self.missed.as_str() {
            "once" => "run once".to_owned(),
            "skip" => "skip".to_owned(),
            all => all.replace("all:", "run up to "),
        };
        vec![
            ("task", Some(self.task.clone())),
            ("agent", Some(self.agent.clone())),
            ("state", Some(self.state.to_owned())),
            (
                "next run",
                next.map(|at| format!("{} {} ({})", local_text(Some(at), &self.zone), self.zone, human_time::age(at))),
            ),
            ("repeats", Some(self.recurrence.clone().unwrap_or_else(|| "no".to_owned()))),
            ("runs in", Some(self.session.clone().unwrap_or_else(|| "the maintenance session".to_owned()))),
            (
                "answers go to",
                self.chat_words
                    .clone()
                    .or_else(|| self.session.is_none().then(|| "no chat; its tools can send messages".to_owned())),
            ),
            ("missed runs", Some(missed)),
            ("overlap", Some(if self.overlap == "refuse" { "skip".to_owned() } else { self.overlap.clone() })),
            ("running", self.running.clone()),
            ("queued run", self.queued.as_deref().map(|at| local_text(Some(at), &self.zone))),
            ("failed", (self.failures > 0).then(|| format!("{} in a row", self.failures))),
            ("origin", Some(format!("{created_by}, {}", human_time::local_with_age(&self.created)))),
            ("changed", Some(human_time::local_with_age(&self.changed))),
            ("prompt", Some(self.prompt.clone())),
            ("script", self.script.clone()),
        ]
    }
}

/// A time in a task's time zone.
fn local_text(at: Option<&str>, zone: &str) -> String {
    let Some(at) = at.and_then(Timestamp::parse) else { return String::new() };
    human_time::at_zone(at, &Zone::parse(zone).unwrap_or_else(|_| Zone::utc()))
}

fn standing(task: &TaskJson) -> String {
    let mut text = task.state.to_owned();
    if task.running.is_some() {
        text.push_str(", runs");
    }
    if task.failures > 0 {
        text.push_str(&format!(", failed {}x", task.failures));
    }
    text
}

type TaskRow = (Option<Timestamp>, TaskId, TaskJson);

fn collect(
    db: &Tables,
    txn: &Read<'_>,
    folder: Option<&str>,
    all: bool,
    zones: &Zones,
) -> Result<Vec<TaskRow>, state::Error> {
    let mut found = Vec::new();
    for row in db.tasks.iter(txn)? {
        let (id, task) = row?;
        if !all && !task.state.is_open() && task.running.is_none() {
            continue;
        }
        let shaped = shape(db, txn, id, &task, zones)?;
        if folder.is_none_or(|folder| shaped.agent == folder) {
            found.push((task.next, id, shaped));
        }
    }
    Ok(found)
}

fn shape(db: &Tables, txn: &Read<'_>, id: TaskId, task: &Task, zones: &Zones) -> Result<TaskJson, state::Error> {
    let agent = db.agents.get(txn, &task.agent)?;
    let zone = zones.of(agent.as_ref().and_then(|agent| agent.settings.timezone.as_deref()));
    let session = match task.home {
        TaskHome::Session(session) => Some(session.to_string()),
        TaskHome::Maintenance => None,
    };
    let made_in = match task.origin {
        TaskOrigin::Agent(session) => Some(session.to_string()),
        TaskOrigin::Operator | TaskOrigin::Imported(_) => None,
    };
    Ok(TaskJson {
        task: id.to_string(),
        agent: lookup::folder(db, txn, task.agent)?,
        state: task.state.as_str(),
        session,
        chat: task.reply.as_ref().map(lookup::place),
        chat_words: goes_to(db, txn, task)?,
        prompt: task.prompt.clone(),
        script: task.script.clone(),
        recurrence: every::shown(&task.recurrence),
        next: task.next.map(|next| next.to_string()),
        next_local: task.next.map(|next| local::show(next, &zone)),
        zone: zone.name().to_owned(),
        missed: task.missed.to_string(),
        overlap: task.overlap.to_string(),
        running: task.running.map(|message| message.to_string()),
        queued: task.queued.map(|at| at.to_string()),
        failures: task.failures,
        made_in,
        created: task.created.to_string(),
        changed: task.changed.to_string(),
    })
}

pub(super) fn show(paths: &Paths, id: TaskId, json: bool) -> Done {
    let reader = Reader::open(paths.data())?;
    let zones = Zones::find(paths, &reader)?;
    let found = reader.read(|db, txn| {
        let task = db.tasks.get(txn, &id)?;
        task.map(|task| shape(db, txn, id, &task, &zones)).transpose()
    })?;
    let task = found.ok_or_else(|| entity::missing("task", &id.to_string()))?;
    listed::show(&task, json)
}

pub(in crate::cli) fn explain(paths: &Paths, reader: &Reader, id: TaskId) -> Result<Option<ExplainedTask>, Failure> {
    let zones = Zones::find(paths, reader)?;
    Ok(reader.read(|db, txn| {
        let Some(task) = db.tasks.get(txn, &id)? else { return Ok(None) };
        let slots = newest_slots(db, txn, id, SLOTS_EXPLAINED)?;
        let task = shape(db, txn, id, &task, &zones)?;
        Ok::<_, state::Error>(Some(ExplainedTask { words: words(&task, slots.first()), task, slots }))
    })?)
}

/// Why a task is in its state.
fn words(task: &TaskJson, last: Option<&SlotJson>) -> String {
    let TaskJson { task: id, running, queued, next, failures, .. } = task;
    let at = |at: &String| format!("{} ({})", local_text(Some(at), &task.zone), human_time::age(at));
    let mut words = match (task.state, running, next) {
        (_, Some(message), _) => format!("running as {message}"),
        ("paused", _, _) => format!("paused; `hearth tasks resume {id}` resumes it"),
        ("active", _, Some(next)) => format!("waiting for its next run, {}", at(next)),
        (state, ..) => format!("{state}: it does not run any more"),
    };
    if let Some(queued) = queued {
        words.push_str(&format!("; the run of {} follows", at(queued)));
    }
    if *failures > 0 {
        let why = last.and_then(|slot| slot.words.as_deref()).map_or_else(String::new, labels::cause);
        words.push_str(&format!("; failed {}: {why}", labels::count(*failures, "time", "times in a row")));
    }
    words
}

impl ExplainedTask {
    /// Prints it with its runs.
    pub(in crate::cli) fn print(&self) -> Done {
        self.task.print()?;
        listed::print(&[("why", Some(self.words.clone()))])?;
        print::line("")?;
        if self.slots.is_empty() { print::line("no runs yet") } else { listed::table(&self.slots) }
    }
}

fn newest_slots(db: &Tables, txn: &Read<'_>, id: TaskId, limit: usize) -> Result<Vec<SlotJson>, state::Error> {
    let mut fires = db.task_runs.collect_last(txn, &id, limit)?;
    fires.sort_by_key(|(slot, _)| std::cmp::Reverse(slot.at));
    fires.into_iter().map(|(slot, fire)| slot_json(db, txn, slot.at, &fire)).collect()
}

/// A run of a task, for the console.
pub(in crate::cli) struct PastRun {
    pub(in crate::cli) task: String,
    pub(in crate::cli) agent: String,
    /// When it was scheduled.
    pub(in crate::cli) at: String,
    pub(in crate::cli) outcome: String,
    pub(in crate::cli) message: Option<String>,
    pub(in crate::cli) detail: String,
}

/// Tasks whose runs are read, the newest tasks first.
const TASKS_READ: usize = 500;
/// Runs of one task that are read.
const RUNS_READ: usize = 10;

/// The newest runs of the newest tasks, also of tasks that have ended.
pub(in crate::cli) fn past_runs(
    db: &Tables,
    txn: &Read<'_>,
    sees: &dyn Fn(&str) -> bool,
) -> Result<Vec<PastRun>, state::Error> {
    let mut found = Vec::new();
    let mut next = db.tasks.last(txn, ..)?;
    for _ in 0..TASKS_READ {
        let Some((id, task)) = next else { break };
        next = db.tasks.last(txn, ..id)?;
        let agent = lookup::folder(db, txn, task.agent)?;
        if !sees(&agent) {
            continue;
        }
        let runs = newest_slots(db, txn, id, RUNS_READ)?.into_iter().map(|slot| PastRun {
            task: id.to_string(),
            agent: agent.clone(),
            outcome: slot.outcome.replace('_', " "),
            detail: detail(&slot),
            at: slot.slot,
            message: slot.message,
        });
        found.extend(runs);
    }
    found.sort_by(|one, other| other.at.cmp(&one.at));
    Ok(found)
}

/// Lists the outcomes of a task's scheduled runs.
pub(super) fn history(paths: &Paths, id: TaskId, limit: usize, json: bool) -> Done {
    let found = Reader::open(paths.data())?.read(|db, txn| {
        let known = db.tasks.contains(txn, &id)?;
        let slots = newest_slots(db, txn, id, limit)?;
        Ok::<_, state::Error>(known.then_some(slots))
    })?;
    let slots = found.ok_or_else(|| entity::missing("task", &id.to_string()))?;
    if json {
        return print::json(&serde_json::json!({ "task": id.to_string(), "slots": slots }));
    }
    if slots.is_empty() { print::line("no runs yet") } else { listed::table(&slots) }
}

impl Listed for SlotJson {
    const PLURAL: &'static str = "slots";
    const COLUMNS: &'static [Column<Self>] = &[
        ("TIME", |slot| local_text(Some(&slot.slot), &slot.zone)),
        ("ZONE", |slot| slot.zone.clone()),
        ("OUTCOME", |slot| slot.outcome.replace('_', " ")),
        ("MESSAGE", |slot| slot.message.clone().unwrap_or_default()),
        ("SENT TO", |slot| slot.sent_to.join(", ")),
        ("DETAIL", detail),
    ];
}

fn detail(slot: &SlotJson) -> String {
    let Some(reason) = slot.reason else { return slot.words.as_deref().map(labels::excerpt).unwrap_or_default() };
    let why =
        if reason == SkipReason::Missed.as_str() { "Hearth was not running" } else { "the previous run was active" };
    let until = slot.until.as_deref().map(|until| local_text(Some(until), &slot.zone));
    match (slot.count, &until) {
        (Some(1), _) | (None, None) => why.to_owned(),
        (Some(count), until) => format!("{count} runs skipped up to {}: {why}", until.as_deref().unwrap_or("now")),
        (None, Some(until)) => format!("all runs up to {until} skipped: {why}"),
    }
}

fn slot_json(db: &Tables, txn: &Read<'_>, slot: Timestamp, fire: &Fire) -> Result<SlotJson, state::Error> {
    let zone = Zone::parse(&fire.zone).unwrap_or_else(|_| Zone::utc());
    let mut json = SlotJson {
        slot: slot.to_string(),
        local: local::show(slot, &zone),
        zone: fire.zone.clone(),
        outcome: "queued",
        reason: None,
        until: None,
        count: None,
        message: None,
        sent_to: Vec::new(),
        words: None,
        at: fire.at.to_string(),
    };
    let (outcome, message, words) = match &fire.outcome {
        FireOutcome::Running(message) => ("running", Some(message), None),
        FireOutcome::Done(message) => ("done", Some(message), None),
        FireOutcome::Gated(message, why) => ("gated", Some(message), Some(why)),
        FireOutcome::ScriptFailed(message, why) => ("script_failed", Some(message), Some(why)),
        FireOutcome::Failed(message, why) => ("failed", Some(message), Some(why)),
        FireOutcome::Skipped { reason, until, count } => {
            json.reason = Some(reason.as_str());
            (json.until, json.count) = (Some(until.to_string()), *count);
            ("skipped", None, None)
        }
        FireOutcome::Queued => ("queued", None, None),
    };
    (json.outcome, json.words) = (outcome, words.cloned());
    if let Some(message) = message {
        json.message = Some(message.to_string());
        json.sent_to = sent_to(db, txn, *message)?;
    }
    Ok(json)
}

/// Counts tasks, and reports problems of some of them.
pub(in crate::cli) fn counts(db: &Tables, txn: &Read<'_>) -> Result<TaskCounts, state::Error> {
    let mut counts = TaskCounts::default();
    let next = db.tasks_due.first(txn, ..)?;
    counts.next = next.map(|(key, ())| key.at.to_string());
    for row in db.tasks_by_agent.iter(txn)? {
        let (Owned { id, .. }, ()) = row?;
        let task = db.tasks.require(txn, &id)?;
        counts.open += 1;
        counts.paused += u64::from(task.due().is_none());
        counts.running += u64::from(task.running.is_some());
    }
    Ok(counts)
}

/// Warnings about tasks that keep failing.
pub(in crate::cli) fn failing(db: &Tables, txn: &Read<'_>, rank: &Rank) -> Result<Vec<String>, state::Error> {
    let mut found = Vec::new();
    for row in db.tasks_by_agent.iter(txn)? {
        let (Owned { id, .. }, ()) = row?;
        let task = db.tasks.require(txn, &id)?;
        if task.failures >= FAILURES_WARNED {
            let (folder, times) = (lookup::folder(db, txn, task.agent)?, task.failures);
            if rank.sees(&folder) {
                let more = format!("see `hearth tasks history {id}`");
                found.push(format!("task {id} of {folder} failed {times} times in a row: {more}"));
            }
        }
    }
    Ok(found)
}
