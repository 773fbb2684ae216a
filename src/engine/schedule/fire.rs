//! Slots whose time has come: used, skipped or queued, each with a record.

use super::slots::{Passed, Run, Series};
use super::{FIRES_MAX, end, kept, put, record, zone_of};
use crate::engine::json::{self, Field};
use crate::engine::messages::{self, NewMessage};
use crate::engine::{Cx, Result, remove, sessions, wake};
use crate::model::address::Address;
use crate::model::content::Content;
use crate::model::effect::Effect;
use crate::model::id::{AgentId, MessageId, TaskId};
use crate::model::message::{Body, MessageKind};
use crate::model::session::SessionStatus;
use crate::model::task::{Fire, FireOutcome, Missed, Overlap, SkipReason, Slot, Task, TaskHome, TaskState};
use crate::model::time::{Millis, Timestamp};
use crate::state::{ForeignKey, Write};

/// Tasks that one sweep fires; the next one goes on.
const FIRED_MAX: usize = 100;
/// How late a slot may be used by a task that skips what it missed. While the machine is awake it is never so late.
const LATE_MAX: Millis = Millis::minutes(5);

/// Uses the slots whose time has come. Where there is no room they stay due.
pub(in crate::engine) fn due(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    if !cx.has_room {
        return Ok(());
    }
    let now = (cx.now.wall, TaskId::new(u64::MAX));
    for ((_, id), ()) in cx.db.tasks_due.collect_range(txn, ..=now, FIRED_MAX)? {
        cx.apart(txn, effects, |txn, effects| fire(cx, txn, id, effects))?;
    }
    Ok(())
}

fn fire(cx: &Cx<'_>, txn: &mut Write<'_>, id: TaskId, effects: &mut Vec<Effect>) -> Result<()> {
    let before = cx.db.tasks.require(txn, &id)?;
    let Some(slot) = before.due() else { return Ok(()) };
    let mut task = before.clone();
    let zone = zone_of(cx, txn, task.agent)?;
    if remove::is_removed(cx, txn, task.agent)? {
        end::cancel(cx, txn, (id, &mut task), &zone)?;
        return put(cx, txn, id, (Some(&before), &task));
    }
    let series = kept::series(cx, txn, (id, &task), &zone)?;
    let passed = series.passed(slot, cx.now.wall, newest(&task));
    let last = passed.newest.last().copied().unwrap_or(slot);
    if task.running.is_none() && !has_place(cx, txn, task.agent)? {
        return Ok(()); // its time stays: it is looked at again, and nothing of the series is lost
    }
    let passed = unused(cx, txn, id, (&series, passed))?;
    let plan = decide(&task, passed, cx.now.wall);
    for skipped in plan.skipped {
        kept::skip(cx, txn, id, skipped, &zone)?;
    }
    if let Some(slot) = plan.queue.filter(|slot| task.queued != Some(*slot)) {
        task.queued = Some(slot);
        record(cx, txn, (id, slot), &zone, FireOutcome::Queued)?;
    }
    let next = next_unused(cx, txn, id, (&series, last.max(cx.now.wall)))?;
    task = follow(task, next, cx.now.wall);
    for slot in plan.run {
        let message = start(cx, txn, (id, &task), slot, effects)?;
        task.running = Some(message);
        record(cx, txn, (id, slot), &zone, FireOutcome::Running(message))?;
    }
    put(cx, txn, id, (Some(&before), &task))
}

/// A task that goes on with its next slot, or is over without one.
pub(super) fn follow(task: Task, next: Option<Timestamp>, now: Timestamp) -> Task {
    match next {
        Some(_) => Task { next, ..task },
        None => Task { next, state: TaskState::Done, changed: now, ..task },
    }
}

/// How many of the slots that passed may be used: the newest ones.
pub(super) fn newest(task: &Task) -> usize {
    if let Missed::RunAll(most) = task.missed { usize::try_from(most).unwrap_or(usize::MAX) } else { 1 }
}

/// Whether there may be one more message for an agent.
pub(super) fn has_place(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<bool> {
    Ok(cx.has_room && messages::backlog(cx, txn, agent)? < cx.policy.backlog_max)
}

/// What passed, without what was used: a slot that was used once is neither used nor skipped again, whatever the clock did
/// meanwhile.
pub(super) fn unused(cx: &Cx<'_>, txn: &Write<'_>, id: TaskId, (series, passed): (&Series, Passed)) -> Result<Passed> {
    let mut newest = Vec::new();
    for slot in passed.newest {
        if !was_used(cx, txn, (id, slot))? {
            newest.push(slot);
        }
    }
    let mut before = Vec::new();
    for run in passed.before {
        let mut left = Some(run);
        while let Some(run) = left
            && was_used(cx, txn, (id, run.first))?
        {
            let next = series.after(run.first).filter(|next| *next <= run.last);
            left = next.map(|first| Run { first, count: run.count.map(|count| count.saturating_sub(1)), ..run });
        }
        if let Some(run) = left {
            before.push(without_used(cx, txn, id, (series, run))?);
        }
    }
    Ok(Passed { newest, before })
}

/// A run that counts none of the slots within it that were used: those have records of their own.
fn without_used(cx: &Cx<'_>, txn: &Write<'_>, id: TaskId, (series, run): (&Series, Run)) -> Result<Run> {
    let Some(mut count) = run.count else { return Ok(run) };
    for ((_, at), fire) in cx.db.fires.collect_range(txn, (id, run.first)..=(id, run.last), FIRES_MAX)? {
        // Runs by hand are no slots.
        if is_use(&fire) && series.after(at.minus(Millis::new(1))) == Some(at) {
            count = count.saturating_sub(1);
        }
    }
    Ok(Run { count: Some(count), ..run })
}

/// The first slot after a time that was not used.
pub(super) fn next_unused(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    id: TaskId,
    (series, after): (&Series, Timestamp),
) -> Result<Option<Timestamp>> {
    let mut next = series.after(after);
    while let Some(slot) = next
        && was_used(cx, txn, (id, slot))?
    {
        next = series.after(slot);
    }
    Ok(next)
}

fn was_used(cx: &Cx<'_>, txn: &Write<'_>, slot: (TaskId, Timestamp)) -> Result<bool> {
    let fire = cx.db.fires.get(txn, &slot)?;
    Ok(fire.as_ref().is_some_and(is_use))
}

fn is_use(fire: &Fire) -> bool {
    !matches!(fire.outcome, FireOutcome::Skipped { .. } | FireOutcome::Queued)
}

/// Makes the message of a slot and brings it to its agent.
pub(super) fn start(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, task): (TaskId, &Task),
    at: Timestamp,
    effects: &mut Vec<Effect>,
) -> Result<MessageId> {
    let body = messages::insert_body(cx, txn, &body(id, task, at))?;
    let (session, row) = match home(cx, txn, task)? {
        TaskHome::Session(session) => sessions::arrive_in(cx, txn, task.agent, Some(session))?,
        TaskHome::Maintenance => sessions::arrive_for_maintenance(cx, txn, task.agent)?,
    };
    let reply = reply(cx, txn, task)?.or(row.reply);
    let (seq, slot) = (row.last_number, Some(Slot { task: id, at }));
    let new = NewMessage { session, agent: task.agent, seq, body, trigger: true, reply, from: None, slot };
    let message = messages::insert(cx, txn, new)?;
    wake::wake_about(cx, txn, (session, message), effects)?;
    Ok(message)
}

/// Where a task runs now: the session it was made for may be over.
fn home(cx: &Cx<'_>, txn: &Write<'_>, task: &Task) -> Result<TaskHome> {
    let TaskHome::Session(session) = task.home else { return Ok(task.home) };
    let row = sessions::load(cx, txn, session)?;
    let goes_on = row.is_some_and(|row| row.status == SessionStatus::Active);
    Ok(if goes_on { task.home } else { TaskHome::Maintenance })
}

/// Where its answers go, as long as that chat is there.
fn reply(cx: &Cx<'_>, txn: &Write<'_>, task: &Task) -> Result<Option<Address>> {
    let Some(to) = &task.reply else { return Ok(None) };
    let Some(chat) = cx.db.chats_by_address.get(txn, &ForeignKey::chat(&to.channel, &to.platform_id))? else {
        return Ok(None);
    };
    let there = cx.db.chats.get(txn, &chat)?.is_some_and(|chat| chat.archived.is_none());
    Ok(there.then(|| to.clone()))
}

/// What the agent is told. The time at which it was said is that of the slot.
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

/// What is done with slots that passed.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Used, in order.
    run: Vec<Timestamp>,
    /// Waits for the occurrence that runs.
    queue: Option<Timestamp>,
    /// Not used, and why.
    skipped: Vec<(Run, SkipReason)>,
}

fn decide(task: &Task, Passed { newest, before }: Passed, now: Timestamp) -> Plan {
    let mut skipped: Vec<(Run, SkipReason)> = before.into_iter().map(|run| (run, SkipReason::Missed)).collect();
    let late = newest.last().is_some_and(|last| *last < now.minus(LATE_MAX));
    if task.missed == Missed::Skip && late {
        skipped.extend(newest.into_iter().map(|slot| (Run::one(slot), SkipReason::Missed)));
        return Plan { run: Vec::new(), queue: None, skipped };
    }
    if task.running.is_none() {
        return Plan { run: newest, queue: None, skipped };
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
    Plan { run: Vec::new(), queue, skipped }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::task::{Recurrence, TaskOrigin};

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
