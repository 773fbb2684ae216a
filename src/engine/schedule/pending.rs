//! Occurrences that are due and wait, for the backlog or until their task is resumed, while their task's schedule
//! changes. They stay unchanged. Each gets a record with the time zone it came by and the time until which the old
//! schedule applied.

use crate::model::id::TaskId;
use crate::model::task::{Fire, FireOutcome, Recurrence, SkipReason, Task};
use crate::model::time::{Millis, Timestamp};
use crate::rows::agents;
use crate::rules::occurrences::{Passed, Run, Series};
use crate::schedule::{FIRES_MAX, recompute, run};
use crate::state::OccurrenceId;
use crate::time::zone::Zone;
use crate::tx::Tx;
use crate::{Result, schedule};

/// The series of a task from its next occurrence on, in a time zone.
pub(crate) fn series(tx: &Tx<'_, '_>, id: TaskId, task: &Task, zone: &Zone) -> Result<Series> {
    let (then, now) = (Series::of(task, zone), tx.now.wall);
    let Some(next) = task.next.filter(|next| *next <= now) else { return Ok(then) };
    // The next occurrence is the first stored one, if any are stored.
    if !tx
        .db
        .task_runs
        .get(tx, &OccurrenceId { task: id, at: next })?
        .is_some_and(|fire| fire.outcome == FireOutcome::Queued)
    {
        return Ok(then);
    }
    let mut rows = tx.db.task_runs.collect_range(
        tx,
        OccurrenceId { task: id, at: next }..=OccurrenceId { task: id, at: now },
        FIRES_MAX,
    )?;
    rows.retain(|(_, fire)| fire.outcome == FireOutcome::Queued);
    let until = rows.iter().map(|(_, fire)| fire.at).max().unwrap_or(next);
    Ok(Series::Kept { slots: rows.into_iter().map(|(key, _)| key.at).collect(), until, then: Box::new(then) })
}

/// Keeps a task's due occurrences after the time zone changed from `before`. Later occurrences follow the new time
/// zone.
pub(crate) fn keep(tx: &mut Tx<'_, '_>, id: TaskId, before: &Zone) -> Result<()> {
    let task = tx.db.tasks.require(tx, &id)?;
    // Most tasks have no due occurrence, and cost only this check.
    let due = task.next.filter(|next| *next <= tx.now.wall && task.state.is_open());
    let (Some(due), Recurrence::Cron(_)) = (due, &task.recurrence) else { return Ok(()) };
    let zone = agents::zone_of(tx, task.agent)?;
    if zone == *before {
        return Ok(());
    }
    let series = series(tx, id, &task, before)?;
    let passed = series.passed(due, tx.now.wall, run::newest(&task));
    let Passed { newest, before: missed } = run::unused(tx, id, &series, passed)?;
    for run in missed {
        skip(tx, id, run, SkipReason::Missed, before)?;
    }
    let next = match newest.first() {
        Some(first) => Some(*first),
        // While the clock was ahead, the newest of them was used. Those before it are missed, and none waits.
        None => run::next_unused(tx, id, &Series::of(&task, &zone), tx.now.wall)?,
    };
    for slot in newest {
        schedule::record(tx, OccurrenceId { task: id, at: slot }, before, FireOutcome::Queued)?;
    }
    schedule::put(tx, id, Some(&task), &run::follow(task.clone(), next, tx.now.wall))
}

/// Makes a due occurrence the next one again, followed by the current next occurrence. Returns false if a different
/// occurrence would follow it.
pub(crate) fn put_before(
    tx: &mut Tx<'_, '_>,
    id: TaskId,
    task: &mut Task,
    slot: Timestamp,
    zone: &Zone,
) -> Result<bool> {
    let now = tx.now.wall;
    // Occurrences until then were used or skipped, or never belonged to the task.
    let until = task.next.map_or(now, |next| now.min(next.minus(Millis::new(1))));
    if run::next_unused(tx, id, &series(tx, id, task, zone)?, until)? != task.next {
        return Ok(false);
    }
    if let Some(fire) = tx.db.task_runs.get(tx, &OccurrenceId { task: id, at: slot })? {
        tx.db.task_runs.put(tx, &OccurrenceId { task: id, at: slot }, &Fire { at: until, ..fire })?;
    }
    task.next = Some(slot);
    Ok(true)
}

/// Handles a clock that was set back. Stored occurrences that have come by the new time stay, and are followed by the
/// occurrences after now, including those that were skipped before.
pub(crate) fn set_back(tx: &mut Tx<'_, '_>, id: TaskId, next: Timestamp) -> Result<()> {
    let now = tx.now.wall;
    let most = Timestamp::from_millis(i64::MAX);
    let from = OccurrenceId { task: id, at: next };
    for (key, fire) in tx.db.task_runs.collect_range(tx, from..=OccurrenceId { at: most, ..from }, FIRES_MAX)? {
        match fire.outcome {
            FireOutcome::Queued | FireOutcome::Skipped { .. } if key.at > now => {
                tx.db.task_runs.delete(tx, &key)?;
            }
            FireOutcome::Queued if fire.at > now => tx.db.task_runs.put(tx, &key, &Fire { at: now, ..fire })?,
            _ => {}
        }
    }
    recompute::cut(tx, id)
}

/// Records that occurrences are not used. Stored occurrences among them lose their own records.
pub(crate) fn skip(tx: &mut Tx<'_, '_>, id: TaskId, run: Run, reason: SkipReason, zone: &Zone) -> Result<()> {
    let Run { first, last: until, count } = run;
    if first < until {
        for (key, fire) in tx.db.task_runs.collect_range(
            tx,
            OccurrenceId { task: id, at: first }..=OccurrenceId { task: id, at: until },
            FIRES_MAX,
        )? {
            if fire.outcome == FireOutcome::Queued && key.at != first {
                tx.db.task_runs.delete(tx, &key)?;
            }
        }
    }
    schedule::record(tx, OccurrenceId { task: id, at: first }, zone, FireOutcome::Skipped { reason, until, count })
}
