//! What is left of a series when it ends or gets other times: no slot whose time had come is without a record.

use super::slots::Run;
use super::{fire, kept, record};
use crate::engine::{Cx, Result};
use crate::model::id::TaskId;
use crate::model::task::{FireOutcome, SkipReason, Task, TaskState};
use crate::state::Write;
use crate::time::zone::Zone;

/// Ends a task, with nothing of it to come.
pub(super) fn cancel(cx: &Cx<'_>, txn: &mut Write<'_>, (id, task): (TaskId, &mut Task), zone: &Zone) -> Result<()> {
    pass_over(cx, txn, (id, task), zone)?;
    skip_waiting(cx, txn, (id, task), zone)?;
    (task.state, task.next) = (TaskState::Cancelled, None);
    Ok(())
}

/// Skips slots that are due and will not be looked at any more: there was no place for them, or the task rests.
pub(super) fn pass_over(cx: &Cx<'_>, txn: &mut Write<'_>, (id, task): (TaskId, &Task), zone: &Zone) -> Result<()> {
    let now = cx.now.wall;
    let Some(first) = task.next.filter(|next| *next <= now) else { return Ok(()) };
    let series = kept::series(cx, txn, (id, task), zone)?;
    let passed = fire::unused(cx, txn, id, (&series, series.passed(first, now, 1)))?;
    for run in passed.before.into_iter().chain(passed.newest.into_iter().map(Run::one)) {
        kept::skip(cx, txn, id, (run, SkipReason::Missed), zone)?;
    }
    Ok(())
}

/// Skips the slot that waits for the occurrence that runs, if there is one.
pub(super) fn skip_waiting(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, task): (TaskId, &mut Task),
    zone: &Zone,
) -> Result<()> {
    let Some(at) = task.queued.take() else { return Ok(()) };
    let outcome = FireOutcome::Skipped { reason: SkipReason::StillRunning, until: at, count: Some(1) };
    record(cx, txn, (id, at), zone, outcome)
}
