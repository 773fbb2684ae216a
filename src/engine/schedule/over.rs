//! The end of an occurrence: what became of the slot is recorded, and one that waited for it begins if there is a place for it.

use super::slots::Run;
use super::{end, fire, kept, put, record, zone_of};
use crate::engine::{Cx, Result, notice, remove};
use crate::model::effect::Effect;
use crate::model::id::{MessageId, TaskId};
use crate::model::message::{Completion, MessageState};
use crate::model::task::{FireOutcome, Gated, SkipReason, Slot, Task, TaskState};
use crate::model::time::Timestamp;
use crate::state::Write;
use crate::time::zone::Zone;

/// So many failures in a row are told to the owner, who may not see the chat of the task; and those of a script, which
/// nobody else is told of, to whoever waits for its answers.
const TOLD_AFTER: u32 = 3;

/// Takes in that the message of a slot is over. The series went on when the slot was used: nothing about it changes,
/// whether it is active or paused. That a run failed was told to whoever waits for its answer.
pub(in crate::engine) fn over(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (slot, message, state): (Slot, MessageId, &MessageState),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(outcome) = decide(message, state) else { return Ok(()) };
    let Some(before) = cx.db.tasks.get(txn, &slot.task)? else { return Ok(()) };
    let mut task = before.clone();
    let zone = zone_of(cx, txn, task.agent)?;
    task.failures = match &outcome {
        FireOutcome::Failed(_, why) | FireOutcome::ScriptFailed(_, why) => {
            let failures = task.failures.saturating_add(1);
            if failures == TOLD_AFTER {
                notice::task_failing(cx, txn, (slot.task, &task), why, effects)?;
            }
            failures
        }
        _ => 0,
    };
    record(cx, txn, (slot.task, slot.at), &zone, outcome)?;
    if task.running == Some(message) {
        task.running = None;
        let ends = task.state == TaskState::Cancelled || remove::is_removed(cx, txn, task.agent)?;
        if ends {
            end::skip_waiting(cx, txn, (slot.task, &mut task), &zone)?;
        } else if let Some(at) = task.queued.take() {
            if fire::has_place(cx, txn, task.agent)? {
                let message = fire::start(cx, txn, (slot.task, &task), at, effects)?;
                task.running = Some(message);
                record(cx, txn, (slot.task, at), &zone, FireOutcome::Running(message))?;
            } else {
                due_again(cx, txn, (slot.task, &mut task), (at, &zone))?;
            }
        }
    }
    put(cx, txn, slot.task, (Some(&before), &task))
}

/// Makes a slot that waited the next one, because there is no place for its message: it is used when there is. If something
/// else would come after it than what comes next, it is skipped.
fn due_again(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, task): (TaskId, &mut Task),
    (at, zone): (Timestamp, &Zone),
) -> Result<()> {
    if !kept::put_before(cx, txn, (id, task), (at, zone))? {
        return kept::skip(cx, txn, id, (Run::one(at), SkipReason::Missed), zone);
    }
    if task.state == TaskState::Done {
        task.state = TaskState::Active;
    }
    Ok(())
}

/// Removes what became of a task's times before `end`, unless it is still to be seen; at most so many. Whether no more of
/// them is left.
pub(in crate::engine) fn forget_fires(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (task, end): (TaskId, Timestamp),
    (most, done): (usize, &mut usize),
) -> Result<bool> {
    let from = (task, Timestamp::from_millis(i64::MIN));
    for (slot, fire) in cx.db.fires.collect_range(txn, from..(task, end), most)? {
        if *done >= most {
            return Ok(false);
        }
        if fire.at < end && !matches!(fire.outcome, FireOutcome::Running(_) | FireOutcome::Queued) {
            cx.db.fires.delete(txn, &slot)?;
            *done += 1;
        }
    }
    Ok(*done < most)
}

fn decide(message: MessageId, state: &MessageState) -> Option<FireOutcome> {
    match state {
        MessageState::Pending(_) | MessageState::Claimed { .. } => None,
        MessageState::Completed { how: Completion::Gated(why), .. } => Some(match why {
            Gated { why, failed: false } => FireOutcome::Gated(message, why.clone()),
            Gated { why, failed: true } => FireOutcome::ScriptFailed(message, why.clone()),
        }),
        MessageState::Completed { .. } => Some(FireOutcome::Done(message)),
        MessageState::Failed { error, .. } => Some(FireOutcome::Failed(message, error.clone())),
        MessageState::Dropped { reason, .. } => Some(FireOutcome::Failed(message, reason.as_str().to_owned())),
    }
}
