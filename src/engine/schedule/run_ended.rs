//! The end of an occurrence: records its outcome and starts the occurrence that waited for it, if the backlog has
//! space.

use crate::delivery::notice;
use crate::model::id::{MessageId, TaskId};
use crate::model::message::{Completion, MessageState};
use crate::model::task::{FireOutcome, Gated, Occurrence, SkipReason, Task, TaskState};
use crate::model::time::Timestamp;
use crate::rows::agents;
use crate::rules::occurrences::Run;
use crate::schedule::{end, pending, run};
use crate::state::OccurrenceId;
use crate::time::zone::Zone;
use crate::tx::Tx;
use crate::{Result, schedule};

/// The number of failures in a row after which the owner is told. The owner may not see the task's chat. For a task
/// with a script, the reply address is told too, because single script failures are not reported there.
const TOLD_AFTER: u32 = 3;

/// Records that an occurrence's message ended. The series continued when the occurrence was used, so it does not change
/// now, whether it is active or paused. A failed run was already reported to its reply address.
pub(crate) fn over(tx: &mut Tx<'_, '_>, slot: Occurrence, message: MessageId, state: &MessageState) -> Result<()> {
    let Some(outcome) = decide(message, state) else { return Ok(()) };
    let Some(before) = tx.db.tasks.get(tx, &slot.task)? else { return Ok(()) };
    let mut task = before.clone();
    let zone = agents::zone_of(tx, task.agent)?;
    task.failures = match &outcome {
        FireOutcome::Failed(_, why) | FireOutcome::ScriptFailed(_, why) => {
            let failures = task.failures.saturating_add(1);
            if failures == TOLD_AFTER {
                notice::task_failing(tx, slot.task, &task, why)?;
            }
            failures
        }
        _ => 0,
    };
    schedule::record(tx, OccurrenceId { task: slot.task, at: slot.at }, &zone, outcome)?;
    if task.running == Some(message) {
        task.running = None;
        let ends = task.state == TaskState::Cancelled || agents::is_removed(tx, task.agent)?;
        if ends {
            end::skip_waiting(tx, slot.task, &mut task, &zone)?;
        } else if let Some(at) = task.queued.take() {
            if run::has_place(tx, task.agent)? {
                let message = run::start(tx, slot.task, &task, at)?;
                task.running = Some(message);
                schedule::record(tx, OccurrenceId { task: slot.task, at }, &zone, FireOutcome::Running(message))?;
            } else {
                due_again(tx, slot.task, &mut task, at, &zone)?;
            }
        }
    }
    schedule::put(tx, slot.task, Some(&before), &task)
}

/// Makes a waiting occurrence the next one again because the backlog is full. It is used when there is space. If the
/// occurrence after it would not be the current next one, it is skipped.
fn due_again(tx: &mut Tx<'_, '_>, id: TaskId, task: &mut Task, at: Timestamp, zone: &Zone) -> Result<()> {
    if !pending::put_before(tx, id, task, at, zone)? {
        return pending::skip(tx, id, Run::one(at), SkipReason::Missed, zone);
    }
    if task.state == TaskState::Done {
        task.state = TaskState::Active;
    }
    Ok(())
}

/// Removes records of a task's occurrences before `end`, except running and queued ones, up to a limit. Returns whether
/// none are left.
pub(crate) fn forget_fires(
    tx: &mut Tx<'_, '_>,
    task: TaskId,
    end: Timestamp,
    most: usize,
    done: &mut usize,
) -> Result<bool> {
    let from = OccurrenceId { task, at: Timestamp::from_millis(i64::MIN) };
    for (slot, fire) in tx.db.task_runs.collect_range(tx, from..OccurrenceId { task, at: end }, most)? {
        if *done >= most {
            return Ok(false);
        }
        if fire.at < end && !matches!(fire.outcome, FireOutcome::Running(_) | FireOutcome::Queued) {
            tx.db.task_runs.delete(tx, &slot)?;
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
        MessageState::Dropped { reason, .. } => Some(FireOutcome::Failed(message, reason.explanation().to_owned())),
    }
}
