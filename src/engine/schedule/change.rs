//! What people and agents do with tasks: make, change, pause, resume, end, run now.

use super::slots::Series;
use super::{end, fire, kept, put, record, renew, zone_of};
use crate::engine::{Cx, Result, remove, sessions};
use crate::model::effect::Effect;
use crate::model::id::{AgentId, TaskId};
use crate::model::task::{
    FireOutcome, NewTask, Recurrence, Task, TaskChange, TaskCommand, TaskHome, TaskOrigin, TaskState,
};
use crate::model::time::{Millis, Timestamp};
use crate::state::Write;
use crate::time::cron::Cron;
use crate::time::every::Every;
use crate::time::local;
use crate::time::zone::Zone;

/// Tasks of one agent that are not over.
const TASKS_MAX: usize = 1_000;
/// Bytes of a prompt or a script.
const TEXT_MAX: usize = 64 * 1024;

/// A task after it was made or changed.
pub(in crate::engine) type Changed = std::result::Result<(TaskId, Task), String>;

/// Does what somebody wants done; refused with the reason if it cannot be. `whose`: an agent may change its own only.
pub(in crate::engine) fn command(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (command, whose): (TaskCommand, Option<AgentId>),
    effects: &mut Vec<Effect>,
) -> Result<Changed> {
    let (id, act) = match command {
        TaskCommand::Add(new) => return add(cx, txn, (*new, TaskState::Active), effects),
        TaskCommand::AddPaused(new) => return add(cx, txn, (*new, TaskState::Paused), effects),
        TaskCommand::Set(id, change) => (id, Act::Set(*change)),
        TaskCommand::Pause(id) => (id, Act::Pause),
        TaskCommand::Resume(id) => (id, Act::Resume),
        TaskCommand::Cancel(id) => (id, Act::Cancel),
        TaskCommand::Run(id) => (id, Act::Run),
    };
    let found = cx.db.tasks.get(txn, &id)?.filter(|task| whose.is_none_or(|whose| task.agent == whose));
    let Some(before) = found else { return Ok(Err(format!("there is no task {id}"))) };
    if !before.state.is_open() {
        return Ok(Err(format!("the task {id} is over ({}); make a new one", before.state.as_str())));
    }
    // That nobody asked for its beginning is known by when it was changed, which is now.
    let mut task = Task { anchor: renew::grid(&before, cx.now.wall), ..before.clone() };
    let zone = zone_of(cx, txn, task.agent)?;
    let changed = match act {
        Act::Set(change) => set(&mut task, change, &zone, cx.now.wall),
        Act::Pause => state(&mut task, TaskState::Active, TaskState::Paused),
        Act::Resume => state(&mut task, TaskState::Paused, TaskState::Active),
        Act::Cancel => Ok(end::cancel(cx, txn, (id, &mut task), &zone)?),
        Act::Run => run_now(cx, txn, (id, &mut task), &zone, effects)?,
    };
    if let Err(why) = changed {
        return Ok(Err(why));
    }
    if task.state.is_open() && task.next != before.next {
        end::pass_over(cx, txn, (id, &before), &zone)?;
    }
    task.changed = cx.now.wall;
    put(cx, txn, id, (Some(&before), &task))?;
    if task.due().is_some_and(|next| next <= cx.now.wall) {
        fire::due(cx, txn, effects)?;
    }
    let task = cx.db.tasks.require(txn, &id)?;
    Ok(Ok((id, task)))
}

enum Act {
    Set(TaskChange),
    Pause,
    Resume,
    Cancel,
    Run,
}

fn add(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (new, state): (NewTask, TaskState),
    effects: &mut Vec<Effect>,
) -> Result<Changed> {
    if let Some(known) = imported(cx, txn, new.origin)? {
        return Ok(Ok(known));
    }
    if remove::is_removed(cx, txn, new.agent)? {
        return Ok(Err("the agent was removed".to_owned()));
    }
    if let TaskHome::Session(session) = new.home
        && sessions::load(cx, txn, session)?.is_none_or(|row| row.agent != new.agent)
    {
        return Ok(Err(format!("the agent has no session {session}")));
    }
    if cx.db.tasks_by_agent.collect_prefix(txn, &new.agent, TASKS_MAX)?.len() >= TASKS_MAX {
        return Ok(Err(format!("an agent has at most {TASKS_MAX} tasks; cancel some first")));
    }
    let zone = zone_of(cx, txn, new.agent)?;
    let task = match make(cx, new, &zone) {
        Ok(task) => Task { state, ..task },
        Err(why) => return Ok(Err(why)),
    };
    if let Some(known) = known(cx, txn, &task)? {
        return Ok(Ok(known));
    }
    let id: TaskId = cx.db.allocate(txn)?;
    put(cx, txn, id, (None, &task))?;
    if task.due().is_some_and(|next| next <= cx.now.wall) {
        fire::due(cx, txn, effects)?;
    }
    let task = cx.db.tasks.require(txn, &id)?;
    Ok(Ok((id, task)))
}

/// The task that was taken over from another host before, whatever became of it since.
fn imported(cx: &Cx<'_>, txn: &Write<'_>, origin: TaskOrigin) -> Result<Option<(TaskId, Task)>> {
    if !matches!(origin, TaskOrigin::Imported(_)) {
        return Ok(None);
    }
    let all = cx.db.tasks.collect_range(txn, .., usize::MAX)?;
    Ok(all.into_iter().find(|(_, task)| task.origin == origin))
}

/// The same task, if the agent has it already: a turn that is begun again asks again.
fn known(cx: &Cx<'_>, txn: &Write<'_>, task: &Task) -> Result<Option<(TaskId, Task)>> {
    if !matches!(task.origin, TaskOrigin::Agent(_)) {
        return Ok(None);
    }
    for ((_, id), ()) in cx.db.tasks_by_agent.collect_prefix(txn, &task.agent, TASKS_MAX)? {
        let found = cx.db.tasks.require(txn, &id)?;
        let what = |task: &Task| (task.prompt.clone(), task.script.clone(), task.recurrence.clone(), task.anchor);
        if found.origin == task.origin && found.home == task.home && what(&found) == what(task) {
            return Ok(Some((id, found)));
        }
    }
    Ok(None)
}

/// A task as it begins. Its first slot is what was asked for, else the first of its recurrence.
fn make(cx: &Cx<'_>, new: NewTask, zone: &Zone) -> std::result::Result<Task, String> {
    let NewTask { agent, home, prompt, script, reply, first, recurrence, missed, overlap, origin } = new;
    let now = cx.now.wall;
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

/// A new recurrence begins after now, unless a time is named with it; without one the next slot stays the last.
fn set(task: &mut Task, change: TaskChange, zone: &Zone, now: Timestamp) -> std::result::Result<(), String> {
    let TaskChange { prompt, script, next, recurrence, missed, overlap } = change;
    if let Some(prompt) = prompt {
        check_text("the prompt", &prompt)?;
        task.prompt = prompt;
    }
    if let Some(script) = script {
        script.as_deref().map_or(Ok(()), |script| check_text("the script", script))?;
        task.script = script;
    }
    let next = next.as_deref().map(|text| read_time(text, zone)).transpose()?;
    if let Some(wanted) = recurrence {
        let wanted = wanted.as_deref().map_or(Ok(Recurrence::Once), read_recurrence)?;
        if wanted != task.recurrence {
            (task.recurrence, task.anchor) = (wanted, next.unwrap_or(now));
            if task.recurrence != Recurrence::Once && next.is_none() {
                task.next = Some(first_slot(&task.recurrence, task.anchor, now, zone)?);
            }
        }
    }
    if let Some(next) = next {
        (task.next, task.anchor) = (Some(next), next);
    }
    task.missed = missed.unwrap_or(task.missed);
    task.overlap = overlap.unwrap_or(task.overlap);
    Ok(())
}

/// Twice the same changes nothing the second time.
fn state(task: &mut Task, from: TaskState, to: TaskState) -> std::result::Result<(), String> {
    if task.state == from {
        task.state = to;
    }
    Ok(())
}

/// Uses a slot of its own, the present moment; the series stays as it is.
fn run_now(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, task): (TaskId, &mut Task),
    zone: &Zone,
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<(), String>> {
    if let Some(message) = task.running {
        return Ok(Err(format!("an occurrence of {id} runs already ({message})")));
    }
    let at = cx.now.wall;
    if cx.db.fires.contains(txn, &(id, at))? {
        return Ok(Err(format!("{id} has just been run")));
    }
    let message = fire::start(cx, txn, (id, task), at, effects)?;
    task.running = Some(message);
    record(cx, txn, (id, at), zone, FireOutcome::Running(message))?;
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

/// An interval or a cron expression: an interval is one word that begins with a digit.
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
    // A grid that begins now has its first slot one interval later.
    series.after(now.max(anchor.minus(Millis::new(1)))).ok_or_else(|| match recurrence {
        Recurrence::Once => "a task that comes once needs a time".to_owned(),
        Recurrence::Cron(_) | Recurrence::Every(_) => "the recurrence has no time that ever comes".to_owned(),
    })
}

/// Ends tasks of a removed agent; an occurrence that waits is dropped with the agent's messages. Whether none is left.
pub(in crate::engine) fn forget_agent(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId) -> Result<bool> {
    let most = (cx.policy.rows_per_input / 8).max(1); // a task is up to three rows, and so are its last records
    let some = cx.db.tasks_by_agent.collect_prefix(txn, &agent, most)?;
    let all = some.len() < most;
    let zone = zone_of(cx, txn, agent)?;
    for ((_, id), ()) in some {
        let before = cx.db.tasks.require(txn, &id)?;
        let mut task = Task { changed: cx.now.wall, ..before.clone() };
        end::cancel(cx, txn, (id, &mut task), &zone)?;
        put(cx, txn, id, (Some(&before), &task))?;
    }
    Ok(all)
}

/// Finds the next slots of an agent's tasks anew, because its people do not live in the zone `before` any more.
pub(in crate::engine) fn renew_zone(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, before: &Zone) -> Result<()> {
    keep_due(cx, txn, agent, before)?;
    for ((_, id), ()) in cx.db.tasks_by_agent.collect_prefix(txn, &agent, cx.policy.rows_per_input)? {
        cx.apart(txn, &mut Vec::new(), |txn, _| renew::one(cx, txn, id))?;
    }
    Ok(())
}

/// Lets what is due of an agent's tasks stay what it is, although its people do not live in the zone `before` any more.
pub(in crate::engine) fn keep_due(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, before: &Zone) -> Result<()> {
    for ((_, id), ()) in cx.db.tasks_by_agent.collect_prefix(txn, &agent, cx.policy.rows_per_input)? {
        cx.apart(txn, &mut Vec::new(), |txn, _| kept::keep(cx, txn, id, before))?;
    }
    Ok(())
}
