//! Uses, skips or queues occurrences whose time has come, and records each of them.

use crate::lifecycle::dispatch;
use crate::model::address::Address;
use crate::model::content::Content;
use crate::model::id::{AgentId, MessageId, TaskId};
use crate::model::message::{Body, MessageKind};
use crate::model::session::SessionStatus;
use crate::model::task::{Fire, FireOutcome, Missed, Occurrence, Overlap, SkipReason, Task, TaskHome, TaskState};
use crate::model::time::{Millis, Timestamp};
use crate::rows::messages::NewMessage;
use crate::rows::{agents, chats, messages, sessions};
use crate::rules::json;
use crate::rules::json::Field;
use crate::rules::occurrences::{Passed, Run, Series};
use crate::schedule::{FIRES_MAX, end, pending};
use crate::state::{OccurrenceId, Timed};
use crate::tx::Tx;
use crate::{Result, schedule};

/// Maximum number of tasks per sweep; the next one continues.
const FIRED_MAX: usize = 100;

/// Maximum delay of an occurrence for a task that skips missed runs. It is never exceeded while the machine is awake.
const LATE_MAX: Millis = Millis::minutes(5);

/// Handles the occurrences whose time has come. While the store is full they stay due.
pub(crate) fn due(tx: &mut Tx<'_, '_>) -> Result<()> {
    if !tx.cx.has_room {
        return Ok(());
    }
    let now = Timed { at: tx.now.wall, id: TaskId::new(u64::MAX) };
    for (Timed { id, .. }, ()) in tx.db.tasks_due.collect_range(tx, ..=now, FIRED_MAX)? {
        tx.isolated(|tx| fire(tx, id))?;
    }
    Ok(())
}

fn fire(tx: &mut Tx<'_, '_>, id: TaskId) -> Result<()> {
    let before = tx.db.tasks.require(tx, &id)?;
    let Some(slot) = before.due() else { return Ok(()) };
    let mut task = before.clone();
    let zone = agents::zone_of(tx, task.agent)?;
    if agents::is_removed(tx, task.agent)? {
        end::cancel(tx, id, &mut task, &zone)?;
        return schedule::put(tx, id, Some(&before), &task);
    }
    let series = pending::series(tx, id, &task, &zone)?;
    let passed = series.passed(slot, tx.now.wall, newest(&task));
    let last = passed.newest.last().copied().unwrap_or(slot);
    if task.running.is_none() && !has_place(tx, task.agent)? {
        return Ok(()); // the slot stays due, is examined again, and is not lost
    }
    let passed = unused(tx, id, &series, passed)?;
    let plan = decide(&task, passed, tx.now.wall);
    for (slot, reason) in plan.skipped {
        pending::skip(tx, id, slot, reason, &zone)?;
    }
    if let Some(slot) = plan.queue.filter(|slot| task.queued != Some(*slot)) {
        task.queued = Some(slot);
        schedule::record(tx, OccurrenceId { task: id, at: slot }, &zone, FireOutcome::Queued)?;
    }
    let next = next_unused(tx, id, &series, last.max(tx.now.wall))?;
    task = follow(task, next, tx.now.wall);
    for slot in plan.run {
        let message = start(tx, id, &task, slot)?;
        task.running = Some(message);
        schedule::record(tx, OccurrenceId { task: id, at: slot }, &zone, FireOutcome::Running(message))?;
    }
    schedule::put(tx, id, Some(&before), &task)
}

/// The task with its next occurrence, or completed if there is none.
pub(crate) fn follow(task: Task, next: Option<Timestamp>, now: Timestamp) -> Task {
    match next {
        Some(_) => Task { next, ..task },
        None => Task { next, state: TaskState::Done, changed: now, ..task },
    }
}

/// How many of the newest passed occurrences may still be used.
pub(crate) fn newest(task: &Task) -> usize {
    if let Missed::RunAll(most) = task.missed { usize::try_from(most).unwrap_or(usize::MAX) } else { 1 }
}

/// Whether the agent's backlog and the store have space for another message.
pub(crate) fn has_place(tx: &Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    Ok(tx.cx.has_room && messages::has_place(tx, agent)?)
}

/// The passed occurrences that were not used. An occurrence that was used once is neither used nor skipped again,
/// however the clock changed in between.
pub(crate) fn unused(tx: &Tx<'_, '_>, id: TaskId, series: &Series, passed: Passed) -> Result<Passed> {
    let mut newest = Vec::new();
    for slot in passed.newest {
        if !was_used(tx, OccurrenceId { task: id, at: slot })? {
            newest.push(slot);
        }
    }
    let mut before = Vec::new();
    for run in passed.before {
        let mut left = Some(run);
        while let Some(run) = left
            && was_used(tx, OccurrenceId { task: id, at: run.first })?
        {
            let next = series.after(run.first).filter(|next| *next <= run.last);
            left = next.map(|first| Run { first, count: run.count.map(|count| count.saturating_sub(1)), ..run });
        }
        if let Some(run) = left {
            before.push(without_used(tx, id, series, run)?);
        }
    }
    Ok(Passed { newest, before })
}

/// Excludes used occurrences from a run's count, because they have records of their own.
fn without_used(tx: &Tx<'_, '_>, id: TaskId, series: &Series, run: Run) -> Result<Run> {
    let Some(mut count) = run.count else { return Ok(run) };
    for (OccurrenceId { at, .. }, fire) in tx.db.task_runs.collect_range(
        tx,
        OccurrenceId { task: id, at: run.first }..=OccurrenceId { task: id, at: run.last },
        FIRES_MAX,
    )? {
        // Manual runs are not occurrences.
        if is_use(&fire) && series.after(at.minus(Millis::new(1))) == Some(at) {
            count = count.saturating_sub(1);
        }
    }
    Ok(Run { count: Some(count), ..run })
}

/// The first unused occurrence after a time.
pub(crate) fn next_unused(tx: &Tx<'_, '_>, id: TaskId, series: &Series, after: Timestamp) -> Result<Option<Timestamp>> {
    let mut next = series.after(after);
    while let Some(slot) = next
        && was_used(tx, OccurrenceId { task: id, at: slot })?
    {
        next = series.after(slot);
    }
    Ok(next)
}

fn was_used(tx: &Tx<'_, '_>, slot: OccurrenceId) -> Result<bool> {
    let fire = tx.db.task_runs.get(tx, &slot)?;
    Ok(fire.as_ref().is_some_and(is_use))
}

fn is_use(fire: &Fire) -> bool {
    !matches!(fire.outcome, FireOutcome::Skipped { .. } | FireOutcome::Queued)
}

/// Creates the message of an occurrence and dispatches it to its agent.
pub(crate) fn start(tx: &mut Tx<'_, '_>, id: TaskId, task: &Task, at: Timestamp) -> Result<MessageId> {
    let body = messages::insert_body(tx, &body(id, task, at))?;
    let (session, row) = match home(tx, task)? {
        TaskHome::Session(session) => sessions::arrive_in(tx, task.agent, Some(session))?,
        TaskHome::Maintenance => sessions::arrive_for_maintenance(tx, task.agent)?,
    };
    let reply = reply(tx, task)?.or(row.reply);
    let (seq, slot) = (row.last_number, Some(Occurrence { task: id, at }));
    let new = NewMessage { session, agent: task.agent, seq, body, trigger: true, reply, from: None, slot, chat: None };
    let message = messages::insert(tx, new)?;
    dispatch::dispatch_message(tx, session, message)?;
    Ok(message)
}

/// The session in which a task runs. If its own session ended, this is the maintenance session.
fn home(tx: &Tx<'_, '_>, task: &Task) -> Result<TaskHome> {
    let TaskHome::Session(session) = task.home else { return Ok(task.home) };
    let row = sessions::load(tx, session)?;
    let goes_on = row.is_some_and(|row| row.status == SessionStatus::Active);
    Ok(if goes_on { task.home } else { TaskHome::Maintenance })
}

/// The reply address of a task, as long as its chat exists.
fn reply(tx: &Tx<'_, '_>, task: &Task) -> Result<Option<Address>> {
    let Some(to) = &task.reply else { return Ok(None) };
    let chat = chats::id_of(tx, &to.channel, &to.platform_id)?;
    Ok(chat.map(|_| to.clone()))
}

/// The message of an occurrence. Its time is the occurrence's.
fn body(id: TaskId, task: &Task, at: Timestamp) -> Body {
    let (id, slot) = (id.to_string(), at.to_string());
    let mut fields =
        vec![("prompt", Field::Text(&task.prompt)), ("taskId", Field::Text(&id)), ("slot", Field::Text(&slot))];
    if let Some(script) = &task.script {
        fields.push(("script", Field::Text(script)));
    }
    let raw = json::object(&fields);
    Body {
        content: Content { text: task.prompt.clone(), sender: None, sender_name: None, raw },
        kind: MessageKind::Task,
        said: at,
        source: None,
        platform_message: None,
        sender: None,
        attachments: Vec::new(),
    }
}

/// What to do with passed occurrences.
#[derive(Debug, PartialEq, Eq)]
struct CatchUp {
    /// Occurrences to use, in order.
    run: Vec<Timestamp>,
    /// The occurrence that waits for the running occurrence.
    queue: Option<Timestamp>,
    /// Occurrences to skip, with reasons.
    skipped: Vec<(Run, SkipReason)>,
}

fn decide(task: &Task, Passed { newest, before }: Passed, now: Timestamp) -> CatchUp {
    let mut skipped: Vec<(Run, SkipReason)> = before.into_iter().map(|run| (run, SkipReason::Missed)).collect();
    let late = newest.last().is_some_and(|last| *last < now.minus(LATE_MAX));
    if task.missed == Missed::Skip && late {
        skipped.extend(newest.into_iter().map(|slot| (Run::one(slot), SkipReason::Missed)));
        return CatchUp { run: Vec::new(), queue: None, skipped };
    }
    if task.running.is_none() {
        return CatchUp { run: newest, queue: None, skipped };
    }
    let (mut waiting, queue) = match task.overlap {
        Overlap::Refuse => (newest, None),
        Overlap::Queue => {
            let mut waiting: Vec<Timestamp> = task.queued.into_iter().chain(newest).collect();
            let last = waiting.pop();
            (waiting, last)
        }
    };
    skipped.extend(waiting.drain(..).map(|slot| (Run::one(slot), SkipReason::StillRunning)));
    CatchUp { run: Vec::new(), queue, skipped }
}

#[cfg(test)]
pub(super) mod tests {
    use crate::model::task::{Recurrence, TaskOrigin};
    use crate::schedule::run::*;

    pub(in super::super) fn at(minute: i64) -> Timestamp {
        Timestamp::from_millis(minute * 60_000)
    }

    pub(in super::super) fn task(missed: Missed, overlap: Overlap, running: bool, queued: Option<i64>) -> Task {
        Task {
            agent: AgentId::new(1),
            home: TaskHome::Maintenance,
            prompt: "p".to_owned(),
            script: None,
            reply: None,
            recurrence: Recurrence::Every(Millis::minutes(10)),
            anchor: at(0),
            missed,
            overlap,
            state: TaskState::Active,
            next: Some(at(10)),
            running: running.then(|| MessageId::new(1)),
            queued: queued.map(at),
            failures: 0,
            origin: TaskOrigin::Operator,
            created: at(0),
            changed: at(0),
        }
    }

    #[test]
    fn slots_are_used_by_the_tasks_own_rules() {
        use Missed::{RunAll, RunOnce, Skip};
        use Overlap::{Queue, Refuse};
        use SkipReason::{Missed as WasMissed, StillRunning};
        // policy, overlap, running, queued, newest, before, now => run, queue, skipped
        type Row = (Missed, Overlap, bool, Option<i64>, Vec<i64>, Option<(i64, i64)>, i64);
        type Expected = (Vec<i64>, Option<i64>, Vec<(i64, i64, SkipReason)>);
        let rows: Vec<(Row, Expected)> = vec![
            ((RunOnce, Refuse, false, None, vec![10], None, 10), (vec![10], None, vec![])),
            ((RunOnce, Refuse, false, None, vec![30], Some((10, 20)), 39), (vec![30], None, vec![(10, 20, WasMissed)])),
            ((Skip, Refuse, false, None, vec![10], None, 14), (vec![10], None, vec![])),
            ((Skip, Refuse, false, None, vec![10], None, 15), (vec![10], None, vec![])),
            ((Skip, Refuse, false, None, vec![10], None, 16), (vec![], None, vec![(10, 10, WasMissed)])),
            (
                (Skip, Refuse, false, None, vec![30], Some((10, 20)), 39),
                (vec![], None, vec![(10, 20, WasMissed), (30, 30, WasMissed)]),
            ),
            ((Skip, Refuse, false, None, vec![30], Some((10, 20)), 31), (vec![30], None, vec![(10, 20, WasMissed)])),
            (
                (RunAll(2), Refuse, false, None, vec![20, 30], Some((10, 10)), 39),
                (vec![20, 30], None, vec![(10, 10, WasMissed)]),
            ),
            ((RunOnce, Refuse, true, None, vec![10], None, 10), (vec![], None, vec![(10, 10, StillRunning)])),
            ((RunOnce, Queue, true, None, vec![10], None, 10), (vec![], Some(10), vec![])),
            ((RunOnce, Queue, true, Some(10), vec![20], None, 20), (vec![], Some(20), vec![(10, 10, StillRunning)])),
        ];
        for ((missed, overlap, running, queued, newest, before, now), (run, queue, skipped)) in rows {
            let count = |(a, b): (i64, i64)| Run { first: at(a), last: at(b), count: Some(1) };
            let passed = Passed {
                newest: newest.iter().copied().map(at).collect(),
                before: before.map(count).into_iter().collect(),
            };
            let plan = decide(&task(missed, overlap, running, queued), passed, at(now));
            let skipped: Vec<_> = skipped.into_iter().map(|(a, b, why)| (at(a), at(b), why)).collect();
            let found: Vec<_> = plan.skipped.iter().map(|(run, why)| (run.first, run.last, *why)).collect();
            let run: Vec<Timestamp> = run.into_iter().map(at).collect();
            assert_eq!((plan.run, plan.queue, found), (run, queue.map(at), skipped), "{missed:?} {overlap:?} {now}");
        }
    }
}
