//! Changes to tasks by people and agents: add, change, pause, resume, cancel, run now.

use crate::model::approval::Decider;
use crate::model::id::{AgentId, TaskId};
use crate::model::task::{FireOutcome, Recurrence, Task, TaskHome, TaskOrigin, TaskState};
use crate::model::task_command::{NewTask, Patch, TaskChange, TaskCommand};
use crate::model::time::{Millis, Timestamp};
use crate::model::tool::{GrantScope, ToolGrant};
use crate::rows::{agents, sessions, tool_grants};
use crate::rules::occurrences::Series;
use crate::schedule::{end, pending, recompute, run};
use crate::state::{OccurrenceId, Owned};
use crate::time::cron::Cron;
use crate::time::every::Every;
use crate::time::local;
use crate::time::zone::Zone;
use crate::tx::Tx;
use crate::{Result, schedule};

/// Maximum number of open tasks per agent.
const TASKS_MAX: usize = 1_000;

/// Maximum bytes of a prompt or a script.
const TEXT_MAX: usize = 64 * 1024;

/// A task after it was added or changed, or why it was refused.
pub(crate) type Changed = std::result::Result<(TaskId, Task), String>;

/// Carries out a task command, or returns why it is refused. With `whose` set, only tasks of that agent can be changed.
pub(crate) fn command(tx: &mut Tx<'_, '_>, command: TaskCommand, whose: Option<AgentId>) -> Result<Changed> {
    let (id, act) = match command {
        TaskCommand::Add(new) => return add(tx, *new, TaskState::Active),
        TaskCommand::AddPaused(new) => return add(tx, *new, TaskState::Paused),
        TaskCommand::Set(id, change) => (id, Act::Set(*change)),
        TaskCommand::Pause(id) => (id, Act::Pause),
        TaskCommand::Resume(id) => (id, Act::Resume),
        TaskCommand::Cancel(id) => (id, Act::Cancel),
        TaskCommand::Run(id) => (id, Act::Run),
    };
    let found = tx.db.tasks.get(tx, &id)?.filter(|task| whose.is_none_or(|whose| task.agent == whose));
    let Some(before) = found else { return Ok(Err(format!("task {id} not found"))) };
    if !before.state.is_open() {
        return Ok(Err(format!("the task {id} is over ({}); make a new one", before.state.as_str())));
    }
    // Whether the anchor was requested is derived from `changed`. The grid is computed first, because `changed` is set
    // to now below.
    let mut task = Task { anchor: recompute::grid(&before, tx.now.wall), ..before.clone() };
    let zone = agents::zone_of(tx, task.agent)?;
    let changed = match act {
        Act::Set(change) => set(&mut task, change, &zone, tx.now.wall),
        Act::Pause => state(&mut task, TaskState::Active, TaskState::Paused),
        Act::Resume => state(&mut task, TaskState::Paused, TaskState::Active),
        Act::Cancel => Ok(end::cancel(tx, id, &mut task, &zone)?),
        Act::Run => run_now(tx, id, &mut task, &zone)?,
    };
    if let Err(why) = changed {
        return Ok(Err(why));
    }
    if task.state.is_open() && task.next != before.next {
        end::pass_over(tx, id, &before, &zone)?;
    }
    task.changed = tx.now.wall;
    schedule::put(tx, id, Some(&before), &task)?;
    if task.due().is_some_and(|next| next <= tx.now.wall) {
        run::due(tx)?;
    }
    let task = tx.db.tasks.require(tx, &id)?;
    Ok(Ok((id, task)))
}

enum Act {
    Set(TaskChange),
    Pause,
    Resume,
    Cancel,
    Run,
}

fn add(tx: &mut Tx<'_, '_>, new: NewTask, state: TaskState) -> Result<Changed> {
    if let Some(known) = imported(tx, new.origin)? {
        return Ok(Ok(known));
    }
    if agents::is_removed(tx, new.agent)? {
        return Ok(Err("the agent was removed".to_owned()));
    }
    if let TaskHome::Session(session) = new.home
        && sessions::load(tx, session)?.is_none_or(|row| row.agent != new.agent)
    {
        return Ok(Err(format!("the agent has no session {session}")));
    }
    if tx.db.tasks_by_agent.collect_prefix(tx, &new.agent, TASKS_MAX)?.len() >= TASKS_MAX {
        return Ok(Err(format!("an agent has at most {TASKS_MAX} tasks; cancel some first")));
    }
    if let Some(why) = tool_grants::problem(tx, new.agent, &new.allow)? {
        return Ok(Err(why));
    }
    let zone = agents::zone_of(tx, new.agent)?;
    let allow = new.allow.clone();
    let task = match make(tx, new, &zone) {
        Ok(task) => Task { state, ..task },
        Err(why) => return Ok(Err(why)),
    };
    if let Some(known) = known(tx, &task)? {
        return Ok(Ok(known));
    }
    let id: TaskId = tx.db.allocate(tx)?;
    schedule::put(tx, id, None, &task)?;
    for pattern in allow {
        let (scope, by, at) = (GrantScope::Task(id), Decider::Operator, tx.now.wall);
        tool_grants::add(tx, &ToolGrant { agent: task.agent, scope, pattern, by, at })?;
    }
    if task.due().is_some_and(|next| next <= tx.now.wall) {
        run::due(tx)?;
    }
    let task = tx.db.tasks.require(tx, &id)?;
    Ok(Ok((id, task)))
}

/// The task that was already imported from this origin, whatever its state.
fn imported(tx: &Tx<'_, '_>, origin: TaskOrigin) -> Result<Option<(TaskId, Task)>> {
    if !matches!(origin, TaskOrigin::Imported(_)) {
        return Ok(None);
    }
    let all = tx.db.tasks.collect_range(tx, .., usize::MAX)?;
    Ok(all.into_iter().find(|(_, task)| task.origin == origin))
}

/// The same task, if the agent already has it. A repeated turn requests it again.
fn known(tx: &Tx<'_, '_>, task: &Task) -> Result<Option<(TaskId, Task)>> {
    if !matches!(task.origin, TaskOrigin::Agent(_)) {
        return Ok(None);
    }
    for (Owned { id, .. }, ()) in tx.db.tasks_by_agent.collect_prefix(tx, &task.agent, TASKS_MAX)? {
        let found = tx.db.tasks.require(tx, &id)?;
        let what = |task: &Task| (task.prompt.clone(), task.script.clone(), task.recurrence.clone(), task.anchor);
        if found.origin == task.origin && found.home == task.home && what(&found) == what(task) {
            return Ok(Some((id, found)));
        }
    }
    Ok(None)
}

/// Builds a new task. Its first occurrence is the requested time, otherwise the first one of its recurrence.
fn make(tx: &Tx<'_, '_>, new: NewTask, zone: &Zone) -> std::result::Result<Task, String> {
    let NewTask { agent, home, prompt, script, reply, first, recurrence, missed, overlap, origin, .. } = new;
    let now = tx.now.wall;
    check_text("the prompt", &prompt)?;
    script.as_deref().map_or(Ok(()), |script| check_text("the script", script))?;
    let recurrence = recurrence.as_deref().map_or(Ok(Recurrence::Once), read_recurrence)?;
    let first = first.as_deref().map(|text| read_time(text, zone)).transpose()?;
    let anchor = first.unwrap_or(now);
    let next = match first {
        Some(first) => first,
        None => first_slot(&recurrence, anchor, now, zone)?,
    };
    Ok(Task {
        agent,
        home,
        prompt,
        script,
        reply,
        recurrence,
        anchor,
        missed,
        overlap,
        state: TaskState::Active,
        next: Some(next),
        running: None,
        queued: None,
        failures: 0,
        origin,
        created: now,
        changed: now,
    })
}

/// Applies a change. A new recurrence begins after now, unless a time is given with it. Without a recurrence, the next
/// occurrence stays and becomes the last one.
fn set(task: &mut Task, change: TaskChange, zone: &Zone, now: Timestamp) -> std::result::Result<(), String> {
    let TaskChange { prompt, script, reply, next, recurrence, missed, overlap } = change;
    if let Some(prompt) = prompt {
        check_text("the prompt", &prompt)?;
        task.prompt = prompt;
    }
    match script {
        Patch::Keep => {}
        Patch::Clear => task.script = None,
        Patch::Set(script) => {
            check_text("the script", &script)?;
            task.script = Some(script);
        }
    }
    match reply {
        Patch::Keep => {}
        Patch::Clear => task.reply = None,
        Patch::Set(reply) => task.reply = Some(reply),
    }
    let next = next.as_deref().map(|text| read_time(text, zone)).transpose()?;
    let wanted = match recurrence {
        Patch::Keep => None,
        Patch::Clear => Some(Recurrence::Once),
        Patch::Set(text) => Some(read_recurrence(&text)?),
    };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != task.recurrence) {
        (task.recurrence, task.anchor) = (wanted, next.unwrap_or(now));
        if task.recurrence != Recurrence::Once && next.is_none() {
            task.next = Some(first_slot(&task.recurrence, task.anchor, now, zone)?);
        }
    }
    if let Some(next) = next {
        (task.next, task.anchor) = (Some(next), next);
    }
    task.missed = missed.unwrap_or(task.missed);
    task.overlap = overlap.unwrap_or(task.overlap);
    Ok(())
}

/// Changes the state. Repeating it changes nothing.
fn state(task: &mut Task, from: TaskState, to: TaskState) -> std::result::Result<(), String> {
    if task.state == from {
        task.state = to;
    }
    Ok(())
}

/// Runs a task now, in an occurrence of its own at the present time. The series stays as it is.
fn run_now(tx: &mut Tx<'_, '_>, id: TaskId, task: &mut Task, zone: &Zone) -> Result<std::result::Result<(), String>> {
    if let Some(message) = task.running {
        return Ok(Err(format!("{id} is already running ({message})")));
    }
    let at = tx.now.wall;
    if tx.db.task_runs.contains(tx, &OccurrenceId { task: id, at })? {
        return Ok(Err(format!("{id} has just been run")));
    }
    let message = run::start(tx, id, task, at)?;
    task.running = Some(message);
    schedule::record(tx, OccurrenceId { task: id, at }, zone, FireOutcome::Running(message))?;
    Ok(Ok(()))
}

fn check_text(what: &str, text: &str) -> std::result::Result<(), String> {
    if text.trim().is_empty() {
        return Err(format!("{what} is empty"));
    }
    if text.len() > TEXT_MAX || text.contains('\0') {
        return Err(format!("{what} is a text of at most {TEXT_MAX} bytes without NUL characters"));
    }
    Ok(())
}

fn read_time(text: &str, zone: &Zone) -> std::result::Result<Timestamp, String> {
    local::instant(text, zone).map_err(|error| error.to_string())
}

/// Parses an interval or a cron expression. An interval is one word that begins with a digit.
fn read_recurrence(text: &str) -> std::result::Result<Recurrence, String> {
    let bare = text.trim();
    let is_interval = bare.starts_with(|c: char| c.is_ascii_digit()) && !bare.contains(char::is_whitespace);
    if is_interval {
        return Every::parse(bare).map(|every| Recurrence::Every(every.length())).map_err(|error| error.to_string());
    }
    Cron::parse(bare).map(|cron| Recurrence::Cron(cron.to_string())).map_err(|error| error.to_string())
}

fn first_slot(
    recurrence: &Recurrence,
    anchor: Timestamp,
    now: Timestamp,
    zone: &Zone,
) -> std::result::Result<Timestamp, String> {
    let series = Series::new(recurrence, anchor, zone);
    // A grid that begins now has its first occurrence one interval later.
    series.after(now.max(anchor.minus(Millis::new(1)))).ok_or_else(|| match recurrence {
        Recurrence::Once => "a task that comes once needs a time".to_owned(),
        Recurrence::Cron(_) | Recurrence::Every(_) => "the recurrence has no time that ever comes".to_owned(),
    })
}

/// Cancels tasks of a removed agent. A waiting occurrence is dropped with the agent's messages. Returns whether none is
/// left.
pub(crate) fn forget_agent(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    let most = (tx.policy.rows_per_input / 8).max(1); // a task is up to three rows, and so are its last records
    let some = tx.db.tasks_by_agent.collect_prefix(tx, &agent, most)?;
    let all = some.len() < most;
    let zone = agents::zone_of(tx, agent)?;
    for (Owned { id, .. }, ()) in some {
        let before = tx.db.tasks.require(tx, &id)?;
        let mut task = Task { changed: tx.now.wall, ..before.clone() };
        end::cancel(tx, id, &mut task, &zone)?;
        schedule::put(tx, id, Some(&before), &task)?;
    }
    Ok(all)
}

/// Recomputes the next occurrences of an agent's tasks after its time zone changed from `before`.
pub(crate) fn renew_zone(tx: &mut Tx<'_, '_>, agent: AgentId, before: &Zone) -> Result<()> {
    keep_due(tx, agent, before)?;
    for (Owned { id, .. }, ()) in tx.db.tasks_by_agent.collect_prefix(tx, &agent, tx.policy.rows_per_input)? {
        tx.isolated(|tx| recompute::one(tx, id))?;
    }
    Ok(())
}

/// Keeps the occurrences of an agent's tasks that are already due, after its time zone changed from `before`.
pub(crate) fn keep_due(tx: &mut Tx<'_, '_>, agent: AgentId, before: &Zone) -> Result<()> {
    for (Owned { id, .. }, ()) in tx.db.tasks_by_agent.collect_prefix(tx, &agent, tx.policy.rows_per_input)? {
        tx.isolated(|tx| pending::keep(tx, id, before))?;
    }
    Ok(())
}
