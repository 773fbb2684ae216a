//! Recomputes next occurrences after the clock was set back or a time zone changed. An occurrence computed from a wrong
//! clock would silence its series until that time comes. Occurrences with a requested instant keep it, and used
//! occurrences stay used.

use crate::model::id::TaskId;
use crate::model::task::{Fire, FireOutcome, Recurrence, Task};
use crate::model::time::{Millis, Timestamp};
use crate::rows::agents;
use crate::rows::settings::RENEWAL;
use crate::rules::occurrences::Series;
use crate::schedule::{FIRES_MAX, pending};
use crate::state::{Number, OccurrenceId, Text};
use crate::tx::Tx;
use crate::{Result, schedule};
use std::collections::BTreeSet;

/// Requests new next occurrences for all tasks. [`renew_some`] computes them, also in every following sweep.
pub(crate) fn renew_all(tx: &mut Tx<'_, '_>) -> Result<()> {
    if tx.db.tasks_by_agent.is_empty(tx)? {
        return Ok(());
    }
    tx.db.retention_cursors.put(tx, &Text::new(RENEWAL)?, &Number(0))
}

/// Does a part of what [`renew_all`] requested, if it did.
pub(crate) fn renew_some(tx: &mut Tx<'_, '_>) -> Result<()> {
    let key = Text::new(RENEWAL)?;
    let Some(Number(passed)) = tx.db.retention_cursors.get(tx, &key)? else { return Ok(()) };
    let limit = tx.policy.rows_per_input / 2;
    let mut at = Some(TaskId::new(passed));
    for _ in 0..limit {
        at = match at {
            Some(after) => tx.db.tasks.next_key(tx, &after)?,
            None => break,
        };
        if let Some(id) = at {
            tx.isolated(|tx| one(tx, id))?;
        }
    }
    match at {
        Some(id) => tx.db.retention_cursors.put(tx, &key, &Number(id.number())),
        None => tx.db.retention_cursors.delete(tx, &key).map(drop),
    }
}

/// Recomputes the next occurrence of one task. Occurrences in the future are no longer skipped or queued. Due
/// occurrences stay due.
pub(crate) fn one(tx: &mut Tx<'_, '_>, id: TaskId) -> Result<()> {
    let before = tx.db.tasks.require(tx, &id)?;
    let now = tx.now.wall;
    if let Some(due) = before.next.filter(|next| *next <= now) {
        pending::set_back(tx, id, due)?;
        // Stores the start of the grid now, while it is still known that it was not requested.
        return schedule::put(tx, id, Some(&before), &Task { anchor: grid(&before, now), ..before.clone() });
    }
    let Some(Anew { anchor, first, after }) = decide(&before, now) else { return Ok(()) };
    let series = Series::new(&before.recurrence, anchor, &agents::zone_of(tx, before.agent)?);
    let used = take_back(tx, id, now)?;
    let mut task = Task { queued: before.queued.filter(|slot| *slot <= now), ..before.clone() };
    let mut next = first.or_else(|| series.after(after));
    while let Some(slot) = next.filter(|slot| used.contains(slot)) {
        next = series.after(slot);
    }
    if next.is_some() {
        (task.anchor, task.next) = (anchor, next);
    }
    if task == before {
        return Ok(());
    }
    schedule::put(tx, id, Some(&before), &task)
}

/// Removes the records of future occurrences that were skipped or queued, so that they come again. Returns the future
/// occurrences with another record.
fn take_back(tx: &mut Tx<'_, '_>, id: TaskId, now: Timestamp) -> Result<BTreeSet<Timestamp>> {
    let most = Timestamp::from_millis(i64::MAX);
    let mut used = BTreeSet::new();
    let later = OccurrenceId { task: id, at: now.plus(Millis::new(1)) }..=OccurrenceId { task: id, at: most };
    for (key, fire) in tx.db.task_runs.collect_range(tx, later, FIRES_MAX)? {
        match fire.outcome {
            FireOutcome::Skipped { .. } | FireOutcome::Queued => drop(tx.db.task_runs.delete(tx, &key)?),
            _ => drop(used.insert(key.at)),
        }
    }
    cut(tx, id)?;
    Ok(used)
}

/// Cuts runs of skipped occurrences at now, so that the future occurrences in them are no longer skipped.
pub(crate) fn cut(tx: &mut Tx<'_, '_>, id: TaskId) -> Result<()> {
    let now = tx.now.wall;
    // The run that extends beyond now is not necessarily the last record before it: occurrences within it may have been
    // used.
    for (key, fire) in tx.db.task_runs.collect_last(tx, &id, FIRES_MAX)? {
        let FireOutcome::Skipped { reason, until, .. } = fire.outcome else { continue };
        if key.at > now || until <= now {
            continue;
        }
        // The task may have had another schedule or time zone when these were skipped, so the last occurrence before
        // now is unknown. All occurrences until now stay skipped.
        let outcome = FireOutcome::Skipped { reason, until: now, count: None };
        tx.db.task_runs.put(tx, &key, &Fire { outcome, ..fire })?;
    }
    Ok(())
}

/// How to recompute the next occurrence of a task.
#[derive(Debug, PartialEq, Eq)]
struct Anew {
    /// Start of the grid.
    anchor: Timestamp,
    /// The next occurrence, if it was not used. It is not necessarily an occurrence of the recurrence.
    first: Option<Timestamp>,
    /// Otherwise the next occurrence is the first one after this time.
    after: Timestamp,
}

/// None if the next occurrence stays as it is.
fn decide(task: &Task, now: Timestamp) -> Option<Anew> {
    let next = task.next.filter(|next| *next > now && task.state.is_open())?;
    let anchor = grid(task, now);
    match task.recurrence {
        Recurrence::Once => None,
        Recurrence::Cron(_) | Recurrence::Every(_) if next == anchor => None,
        Recurrence::Cron(_) | Recurrence::Every(_) if anchor > now => {
            Some(Anew { anchor, first: Some(anchor), after: anchor })
        }
        Recurrence::Cron(_) | Recurrence::Every(_) => Some(Anew { anchor, first: None, after: now }),
    }
}

/// The start of a task's grid from `now` on.
///
/// A start in the future is either a requested instant, or comes from a task that was created or changed while the
/// clock was ahead. In the second case the grid equals the one from its first occurrence since 1970 on, which is
/// returned. It is never mistaken for a requested instant, however far the clock is set back next and whatever is done
/// with the task.
pub(crate) fn grid(task: &Task, now: Timestamp) -> Timestamp {
    let asked = task.anchor != task.created && task.anchor != task.changed;
    let length = match task.recurrence {
        Recurrence::Every(length) if task.anchor > now && !asked => length,
        Recurrence::Cron(_) if task.anchor > now && !asked => return Timestamp::from_millis(0),
        Recurrence::Once | Recurrence::Cron(_) | Recurrence::Every(_) => return task.anchor,
    };
    let length = i64::try_from(length.get()).unwrap_or(i64::MAX).max(1);
    Timestamp::from_millis(task.anchor.millis().rem_euclid(length))
}

#[cfg(test)]
mod tests {
    use crate::model::task::{Missed, Overlap, TaskState};
    use crate::schedule::recompute::*;
    use crate::schedule::run::tests::{at, task};

    /// In minutes: a grid of ten, its start, when the task was created and changed, its next occurrence, and now.
    #[test]
    fn only_what_is_still_to_come_is_found_anew() {
        let every = || Recurrence::Every(Millis::minutes(10));
        let cron = || Recurrence::Cron("* * * * *".to_owned());
        let from = |anchor, first: Option<i64>, after| {
            Some(Anew { anchor: at(anchor), first: first.map(at), after: at(after) })
        };
        for (number, recurrence, (anchor, created, changed), next, now, expected) in [
            (1, every(), (0, 0, 0), Some(20), 19, from(0, None, 19)),
            (2, every(), (0, 0, 0), Some(20), 20, None),
            (3, every(), (0, 0, 0), Some(20), 21, None),
            (4, every(), (0, 0, 0), None, 5, None),
            (5, Recurrence::Once, (20, 0, 0), Some(20), 5, None),
            // A series with a requested start begins there again, unless that is the next occurrence.
            (6, every(), (33, 0, 5), Some(33), 10, None),
            (7, every(), (33, 0, 5), Some(43), 10, from(33, Some(33), 33)),
            (8, cron(), (33, 0, 5), Some(43), 10, from(33, Some(33), 33)),
            (9, every(), (33, 0, 5), Some(43), 33, from(33, None, 33)),
            // These starts were not requested.
            (10, every(), (33, 33, 40), Some(43), 10, from(3, None, 10)),
            (11, every(), (33, 0, 33), Some(43), 10, from(3, None, 10)),
            (12, every(), (33, 33, 33), Some(43), 33, from(33, None, 33)),
            (13, cron(), (33, 33, 33), Some(43), 10, from(0, None, 10)),
            (14, cron(), (33, 33, 33), Some(43), 33, from(33, None, 33)),
        ] {
            let (anchor, created, changed) = (at(anchor), at(created), at(changed));
            let base = task(Missed::RunOnce, Overlap::Refuse, false, None);
            let task = Task { recurrence, anchor, created, changed, next: next.map(at), ..base };
            assert_eq!(decide(&task, at(now)), expected, "case {number}");
            let over = Task { state: TaskState::Cancelled, ..task };
            assert_eq!(decide(&over, at(now)), None, "case {number}, cancelled");
        }
    }
}
