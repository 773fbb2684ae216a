//! Tasks and what became of their times, for people and programs.

use serde::Serialize;

use crate::cli::{Done, Failure, configuration, entity, out, rows, status, words};
use crate::config::{Machine, Paths};
use crate::model::id::TaskId;
use crate::model::task::{Fire, FireOutcome, SkipReason, Task, TaskHome, TaskOrigin};
use crate::model::time::Timestamp;
use crate::state::{self, Read, Reader, Tables};
use crate::time::every;
use crate::time::local;
use crate::time::zone::Zone;

/// Tasks that failed so often in a row are warned of.
const FAILURES_WARNED: u32 = 3;

/// One task of `hearth tasks list --json`.
#[derive(Debug, Serialize)]
struct TaskJson {
    task: String,
    agent: String,
    /// `active`, `paused`, `done` or `cancelled`.
    state: &'static str,
    /// Session in which it runs; null is the agent's maintenance session.
    session: Option<String>,
    /// Where what it says goes; null is the session's own chat.
    chat: Option<String>,
    prompt: String,
    script: Option<String>,
    /// A cron expression or an interval; null comes once.
    recurrence: Option<String>,
    /// The next time, in UTC; of a paused task the one that it keeps. Null when it is over.
    next: Option<String>,
    /// The same as people of the agent read it.
    next_local: Option<String>,
    /// Zone of the agent's people.
    zone: String,
    /// `once`, `skip` or `all:N`.
    missed: String,
    /// `refuse` or `queue`.
    overlap: String,
    /// The message of the run that goes on.
    running: Option<String>,
    /// A time that waits for the end of that run.
    queued: Option<String>,
    /// Runs in a row that failed.
    failures: u32,
    /// Session whose agent made it; null for a command.
    made_in: Option<String>,
    created: String,
    changed: String,
}

/// One time of a task.
#[derive(Debug, Serialize)]
struct SlotJson {
    slot: String,
    /// The same as people of the agent read it, in the zone of that time.
    local: String,
    zone: String,
    /// `running`, `done`, `failed`, `gated`, `script_failed`, `skipped` or `queued`.
    outcome: &'static str,
    /// Why it was skipped: `missed` or `still_running`.
    reason: Option<&'static str>,
    /// The last time of those that were skipped together.
    until: Option<String>,
    /// How many these are; null if they were not counted, or nothing was skipped.
    count: Option<u32>,
    message: Option<String>,
    /// What the script said, or what went wrong.
    words: Option<String>,
    /// When this was decided.
    at: String,
}

/// Tasks in `hearth status`.
#[derive(Debug, Default, Serialize)]
pub(in crate::cli) struct TaskCounts {
    /// Those that are not over.
    open: u64,
    paused: u64,
    /// Those of which a run goes on.
    running: u64,
    /// The time that comes next; null if none does.
    next: Option<String>,
}

/// Zones that hold where an agent has none.
struct Zones {
    common: Option<String>,
    daemon: Option<Zone>,
}

impl Zones {
    fn find(paths: &Paths, reader: &Reader) -> Result<Self, Failure> {
        let common = reader.read(|db, txn| db.settings.get(txn, &()))?.and_then(|settings| settings.timezone);
        // What a daemon sees of the machine may differ from what is seen here.
        let daemon = status::ask(paths).ok().flatten().and_then(|daemon| Zone::parse(&daemon.zone).ok());
        Ok(Self { common, daemon })
    }

    fn of(&self, agent: Option<&str>) -> Zone {
        let configured = agent.or(self.common.as_deref()).and_then(|name| Zone::parse(name).ok());
        configured.or_else(|| self.daemon.clone()).unwrap_or_else(|| Machine::look().zone(None, None).zone)
    }
}

/// Lists tasks.
pub(super) fn list(paths: &Paths, (agent, all): (Option<&str>, bool), json: bool) -> Done {
    if let Some(agent) = agent {
        entity::known_agent(&configuration::read(paths)?, agent)?;
    }
    let reader = Reader::open(paths.data())?;
    let zones = Zones::find(paths, &reader)?;
    let mut found = reader.read(|db, txn| collect(db, txn, (agent, all), &zones))?;
    // What runs next comes first, what is over last.
    found.sort_by_key(|(next, id, _)| (next.is_none(), *next, *id));
    let tasks: Vec<TaskJson> = found.into_iter().map(|(_, _, task)| task).collect();
    if json {
        return out::json(&serde_json::json!({ "tasks": tasks }));
    }
    if tasks.is_empty() {
        return out::line("no tasks");
    }
    let row = |task: &TaskJson| {
        let local = task.next_local.clone().unwrap_or_default();
        let next = task.next.clone().unwrap_or_default();
        let again = task.recurrence.clone().unwrap_or_else(|| "once".to_owned());
        vec![
            task.task.clone(),
            task.agent.clone(),
            standing(task),
            local,
            task.zone.clone(),
            next,
            again,
            words::excerpt(&task.prompt),
        ]
    };
    let headings = ["ID", "AGENT", "STATE", "NEXT", "ZONE", "UTC", "AGAIN", "PROMPT"];
    out::table(&headings, tasks.iter().map(row).collect())
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

type Found = (Option<Timestamp>, TaskId, TaskJson);

fn collect(
    db: &Tables,
    txn: &Read<'_>,
    (folder, all): (Option<&str>, bool),
    zones: &Zones,
) -> Result<Vec<Found>, state::Error> {
    let mut found = Vec::new();
    for row in db.tasks.iter(txn)? {
        let (id, task) = row?;
        if !all && !task.state.is_open() && task.running.is_none() {
            continue;
        }
        let shaped = shape(db, txn, (id, &task), zones)?;
        if folder.is_none_or(|folder| shaped.agent == folder) {
            found.push((task.next, id, shaped));
        }
    }
    Ok(found)
}

fn shape(db: &Tables, txn: &Read<'_>, (id, task): (TaskId, &Task), zones: &Zones) -> Result<TaskJson, state::Error> {
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
        agent: rows::folder(db, txn, task.agent)?,
        state: task.state.as_str(),
        session,
        chat: task.reply.as_ref().map(rows::place),
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

/// Shows one task.
pub(super) fn show(paths: &Paths, id: TaskId, json: bool) -> Done {
    let reader = Reader::open(paths.data())?;
    let zones = Zones::find(paths, &reader)?;
    let found = reader.read(|db, txn| {
        let task = db.tasks.get(txn, &id)?;
        task.map(|task| shape(db, txn, (id, &task), &zones)).transpose()
    })?;
    let task = found.ok_or_else(|| entity::missing("task", &id.to_string()))?;
    if json { out::json(&task) } else { print(&task) }
}

fn print(task: &TaskJson) -> Done {
    let next = match (&task.next_local, &task.next) {
        (Some(local), Some(utc)) => Some(format!("{local} {} ({utc})", task.zone)),
        _ => None,
    };
    let failures = (task.failures > 0).then(|| format!("{} in a row", task.failures));
    let made =
        task.made_in.as_ref().map_or_else(|| "by command".to_owned(), |session| format!("by the agent in {session}"));
    for (name, value) in [
        ("task", Some(task.task.clone())),
        ("agent", Some(task.agent.clone())),
        ("state", Some(task.state.to_owned())),
        ("next", next),
        ("again", Some(task.recurrence.clone().unwrap_or_else(|| "no, it comes once".to_owned()))),
        ("runs in", Some(task.session.clone().unwrap_or_else(|| "the maintenance session".to_owned()))),
        ("answers go to", task.chat.clone()),
        ("missed times", Some(task.missed.clone())),
        ("overlapping times", Some(task.overlap.clone())),
        ("running", task.running.clone()),
        ("waits for that", task.queued.clone()),
        ("failed", failures),
        ("made", Some(format!("{made}, {}", task.created))),
        ("changed", Some(task.changed.clone())),
    ] {
        if let Some(value) = value {
            out::line(&format!("{name:20} {value}"))?;
        }
    }
    for (name, text) in [("prompt", Some(&task.prompt)), ("script", task.script.as_ref())] {
        for (at, line) in text.into_iter().flat_map(|text| text.lines()).enumerate() {
            out::line(&format!("{:20} {line}", if at == 0 { name } else { "" }))?;
        }
    }
    Ok(())
}

/// Lists what became of a task's times.
pub(super) fn history(paths: &Paths, (id, limit): (TaskId, usize), json: bool) -> Done {
    let found = Reader::open(paths.data())?.read(|db, txn| {
        let known = db.tasks.contains(txn, &id)?;
        let fires = db.fires.collect_last(txn, &id, limit)?;
        Ok::<_, state::Error>(known.then_some(fires))
    })?;
    let mut fires = found.ok_or_else(|| entity::missing("task", &id.to_string()))?;
    fires.sort_by_key(|((_, slot), _)| std::cmp::Reverse(*slot));
    let slots: Vec<SlotJson> = fires.into_iter().map(|((_, slot), fire)| slot_json(slot, &fire)).collect();
    if json {
        return out::json(&serde_json::json!({ "task": id.to_string(), "slots": slots }));
    }
    if slots.is_empty() {
        return out::line("none of its times has come yet");
    }
    let row = |slot: &SlotJson| {
        let message = slot.message.clone().unwrap_or_default();
        vec![slot.local.clone(), slot.zone.clone(), slot.slot.clone(), slot.outcome.to_owned(), message, detail(slot)]
    };
    out::table(&["TIME", "ZONE", "UTC", "OUTCOME", "MESSAGE", "DETAIL"], slots.iter().map(row).collect())
}

fn detail(slot: &SlotJson) -> String {
    let Some(reason) = slot.reason else { return slot.words.as_deref().map(words::excerpt).unwrap_or_default() };
    let why = if reason == SkipReason::Missed.as_str() { "nothing could run" } else { "an earlier run went on" };
    match (slot.count, &slot.until) {
        (Some(1), _) | (None, None) => why.to_owned(),
        (Some(count), until) => format!("{count} times up to {}: {why}", until.as_deref().unwrap_or("now")),
        (None, Some(until)) => format!("all up to {until}: {why}"),
    }
}

fn slot_json(slot: Timestamp, fire: &Fire) -> SlotJson {
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
        words: None,
        at: fire.at.to_string(),
    };
    match &fire.outcome {
        FireOutcome::Running(message) => (json.outcome, json.message) = ("running", Some(message.to_string())),
        FireOutcome::Done(message) => (json.outcome, json.message) = ("done", Some(message.to_string())),
        FireOutcome::Gated(message, why) => {
            (json.outcome, json.message, json.words) = ("gated", Some(message.to_string()), Some(why.clone()));
        }
        FireOutcome::ScriptFailed(message, why) => {
            (json.outcome, json.message, json.words) = ("script_failed", Some(message.to_string()), Some(why.clone()));
        }
        FireOutcome::Failed(message, why) => {
            (json.outcome, json.message, json.words) = ("failed", Some(message.to_string()), Some(why.clone()));
        }
        FireOutcome::Skipped { reason, until, count } => {
            (json.outcome, json.reason) = ("skipped", Some(reason.as_str()));
            (json.until, json.count) = (Some(until.to_string()), *count);
        }
        FireOutcome::Queued => {}
    }
    json
}

/// How many tasks there are, and what is wrong with some of them.
pub(in crate::cli) fn counts(
    db: &Tables,
    txn: &Read<'_>,
    warnings: &mut Vec<String>,
) -> Result<TaskCounts, state::Error> {
    let mut counts = TaskCounts::default();
    let next = db.tasks_due.first(txn, ..)?;
    counts.next = next.map(|((at, _), ())| at.to_string());
    for row in db.tasks_by_agent.iter(txn)? {
        let ((_, id), ()) = row?;
        let task = db.tasks.require(txn, &id)?;
        counts.open += 1;
        counts.paused += u64::from(task.due().is_none());
        counts.running += u64::from(task.running.is_some());
        if task.failures >= FAILURES_WARNED {
            let (folder, times) = (rows::folder(db, txn, task.agent)?, task.failures);
            warnings
                .push(format!("task {id} of {folder} failed {times} times in a row: see `hearth tasks history {id}`"));
        }
    }
    Ok(counts)
}

/// A line of `hearth status`; without tasks there is none.
pub(in crate::cli) fn print_counts(counts: &TaskCounts) -> Done {
    let TaskCounts { open, paused, running, next } = counts;
    if *open == 0 {
        return Ok(());
    }
    let next = next.as_ref().map_or_else(String::new, |next| format!(", the next is due at {next}"));
    out::line(&format!("tasks     {open} open, {paused} paused, {running} running{next}"))
}
