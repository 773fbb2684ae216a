//! The remaining occurrences of a series that ends or gets another schedule. Every occurrence whose time has come gets
//! a record.

use crate::model::id::TaskId;
use crate::model::task::{FireOutcome, SkipReason, Task, TaskState};
use crate::rules::occurrences::Run;
use crate::schedule::{pending, run};
use crate::state::OccurrenceId;
use crate::time::zone::Zone;
use crate::tx::Tx;
use crate::{Result, schedule};

/// Cancels a task and all its remaining occurrences.
pub(crate) fn cancel(tx: &mut Tx<'_, '_>, id: TaskId, task: &mut Task, zone: &Zone) -> Result<()> {
    pass_over(tx, id, task, zone)?;
    skip_waiting(tx, id, task, zone)?;
    (task.state, task.next) = (TaskState::Cancelled, None);
    Ok(())
}

/// Skips occurrences that are due but will not be examined any more, because the backlog was full or the task is
/// paused.
pub(crate) fn pass_over(tx: &mut Tx<'_, '_>, id: TaskId, task: &Task, zone: &Zone) -> Result<()> {
    let now = tx.now.wall;
    let Some(first) = task.next.filter(|next| *next <= now) else { return Ok(()) };
    let series = pending::series(tx, id, task, zone)?;
    let passed = run::unused(tx, id, &series, series.passed(first, now, 1))?;
    for run in passed.before.into_iter().chain(passed.newest.into_iter().map(Run::one)) {
        pending::skip(tx, id, run, SkipReason::Missed, zone)?;
    }
    Ok(())
}

/// Skips the occurrence that waits for the running occurrence to end, if there is one.
pub(crate) fn skip_waiting(tx: &mut Tx<'_, '_>, id: TaskId, task: &mut Task, zone: &Zone) -> Result<()> {
    let Some(at) = task.queued.take() else { return Ok(()) };
    let outcome = FireOutcome::Skipped { reason: SkipReason::StillRunning, until: at, count: Some(1) };
    schedule::record(tx, OccurrenceId { task: id, at }, zone, outcome)
}
