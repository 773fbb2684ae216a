//! Slots that are due and wait for a place, or until their task is resumed, while its times become others: they stay what
//! they are, each with a record that says by which zone it came and until when the slots of then held.

use super::slots::{Passed, Run, Series};
use super::{FIRES_MAX, fire, put, record, renew, zone_of};
use crate::engine::{Cx, Result};
use crate::model::id::TaskId;
use crate::model::task::{Fire, FireOutcome, Recurrence, SkipReason, Task};
use crate::model::time::{Millis, Timestamp};
use crate::state::Write;
use crate::time::zone::Zone;

/// The times of a task from its next slot on, if its people live in `zone`.
pub(super) fn series(cx: &Cx<'_>, txn: &Write<'_>, (id, task): (TaskId, &Task), zone: &Zone) -> Result<Series> {
    let (then, now) = (Series::of(task, zone), cx.now.wall);
    let Some(next) = task.next.filter(|next| *next <= now) else { return Ok(then) };
    // The next slot is the first one that is kept, if any is.
    if !cx.db.fires.get(txn, &(id, next))?.is_some_and(|fire| fire.outcome == FireOutcome::Queued) {
        return Ok(then);
    }
    let mut rows = cx.db.fires.collect_range(txn, (id, next)..=(id, now), FIRES_MAX)?;
    rows.retain(|(_, fire)| fire.outcome == FireOutcome::Queued);
    let until = rows.iter().map(|(_, fire)| fire.at).max().unwrap_or(next);
    Ok(Series::Kept { slots: rows.into_iter().map(|((_, slot), _)| slot).collect(), until, then: Box::new(then) })
}

/// Lets what is due of a task stay what it is: its people lived in `before` until now, and what follows comes by the zone
/// they live in from now on.
pub(super) fn keep(cx: &Cx<'_>, txn: &mut Write<'_>, id: TaskId, before: &Zone) -> Result<()> {
    let task = cx.db.tasks.require(txn, &id)?;
    // Most are not due, which takes no more than this look.
    let due = task.next.filter(|next| *next <= cx.now.wall && task.state.is_open());
    let (Some(due), Recurrence::Cron(_)) = (due, &task.recurrence) else { return Ok(()) };
    let zone = zone_of(cx, txn, task.agent)?;
    if zone == *before {
        return Ok(());
    }
    let series = series(cx, txn, (id, &task), before)?;
    let passed = series.passed(due, cx.now.wall, fire::newest(&task));
    let Passed { newest, before: missed } = fire::unused(cx, txn, id, (&series, passed))?;
    for run in missed {
        skip(cx, txn, id, (run, SkipReason::Missed), before)?;
    }
    let next = match newest.first() {
        Some(first) => Some(*first),
        // A clock that was ahead used the newest of them: those before it are missed, and none waits.
        None => fire::next_unused(cx, txn, id, (&Series::of(&task, &zone), cx.now.wall))?,
    };
    for slot in newest {
        record(cx, txn, (id, slot), before, FireOutcome::Queued)?;
    }
    put(cx, txn, id, (Some(&task), &fire::follow(task.clone(), next, cx.now.wall)))
}

/// Makes a slot that is due the next one again; what comes after it is what comes next. False if something else would.
pub(super) fn put_before(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, task): (TaskId, &mut Task),
    (slot, zone): (Timestamp, &Zone),
) -> Result<bool> {
    let now = cx.now.wall;
    // Those until then were used or skipped, or never were slots of the task.
    let until = task.next.map_or(now, |next| now.min(next.minus(Millis::new(1))));
    if fire::next_unused(cx, txn, id, (&series(cx, txn, (id, task), zone)?, until))? != task.next {
        return Ok(false);
    }
    if let Some(fire) = cx.db.fires.get(txn, &(id, slot))? {
        cx.db.fires.put(txn, &(id, slot), &Fire { at: until, ..fire })?;
    }
    task.next = Some(slot);
    Ok(true)
}

/// The clock was set back: what is kept and has come all the same is followed by what comes after now, also if that was
/// skipped before.
pub(super) fn set_back(cx: &Cx<'_>, txn: &mut Write<'_>, (id, next): (TaskId, Timestamp)) -> Result<()> {
    let now = cx.now.wall;
    let most = Timestamp::from_millis(i64::MAX);
    for (key, fire) in cx.db.fires.collect_range(txn, (id, next)..=(id, most), FIRES_MAX)? {
        match fire.outcome {
            FireOutcome::Queued | FireOutcome::Skipped { .. } if key.1 > now => drop(cx.db.fires.delete(txn, &key)?),
            FireOutcome::Queued if fire.at > now => cx.db.fires.put(txn, &key, &Fire { at: now, ..fire })?,
            _ => {}
        }
    }
    renew::cut(cx, txn, id)
}

/// Records that slots are not used. Those of them that were kept have no record of their own any more.
pub(super) fn skip(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: TaskId,
    (run, reason): (Run, SkipReason),
    zone: &Zone,
) -> Result<()> {
    let Run { first, last: until, count } = run;
    if first < until {
        for (key, fire) in cx.db.fires.collect_range(txn, (id, first)..=(id, until), FIRES_MAX)? {
            if fire.outcome == FireOutcome::Queued && key.1 != first {
                cx.db.fires.delete(txn, &key)?;
            }
        }
    }
    record(cx, txn, (id, first), zone, FireOutcome::Skipped { reason, until, count })
}
