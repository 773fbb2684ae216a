//! Next slots are found anew when the clock was set back or a zone changed: a slot that was found by a wrong clock would
//! silence its series until that time comes. What has an instant of its own keeps it, and what was used stays used.

use std::collections::BTreeSet;

use super::slots::Series;
use super::{FIRES_MAX, kept, put, zone_of};
use crate::engine::{Cx, Result};
use crate::model::effect::Effect;
use crate::model::id::TaskId;
use crate::model::task::{Fire, FireOutcome, Recurrence, Task};
use crate::model::time::{Millis, Timestamp};
use crate::state::{Number, Text, Write};

/// Key under which is noted, among how far walks came, how far this one is while it goes on.
pub(in crate::engine) const RENEWAL: &str = "tasks_renewed";

/// Lets the next slots of all tasks be found anew, by [`renew_some`] and every sweep after that.
pub(in crate::engine) fn renew_all(cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<()> {
    if cx.db.tasks_by_agent.is_empty(txn)? {
        return Ok(());
    }
    cx.db.swept.put(txn, &Text::new(RENEWAL)?, &Number(0))
}

/// Does a part of what [`renew_all`] asked for, if it did.
pub(in crate::engine) fn renew_some(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let key = Text::new(RENEWAL)?;
    let Some(Number(passed)) = cx.db.swept.get(txn, &key)? else { return Ok(()) };
    let limit = cx.policy.rows_per_input / 2;
    let mut at = Some(TaskId::new(passed));
    for _ in 0..limit {
        at = match at {
            Some(after) => cx.db.tasks.next_key(txn, &after)?,
            None => break,
        };
        if let Some(id) = at {
            cx.apart(txn, effects, |txn, _| one(cx, txn, id))?;
        }
    }
    match at {
        Some(id) => cx.db.swept.put(txn, &key, &Number(id.number())),
        None => cx.db.swept.delete(txn, &key).map(drop),
    }
}

/// Finds the next slot of one task anew. Slots that are still to come, seen from now, are neither skipped nor waiting any
/// more. What is due stays so.
pub(super) fn one(cx: &Cx<'_>, txn: &mut Write<'_>, id: TaskId) -> Result<()> {
    let before = cx.db.tasks.require(txn, &id)?;
    let now = cx.now.wall;
    if let Some(due) = before.next.filter(|next| *next <= now) {
        kept::set_back(cx, txn, (id, due))?;
        // Where its grid begins is kept now, as long as it is known that nobody asked for that.
        return put(cx, txn, id, (Some(&before), &Task { anchor: grid(&before, now), ..before.clone() }));
    }
    let Some(Anew { anchor, first, after }) = decide(&before, now) else { return Ok(()) };
    let series = Series::new(&before.recurrence, anchor, &zone_of(cx, txn, before.agent)?);
    let used = take_back(cx, txn, id, now)?;
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
    put(cx, txn, id, (Some(&before), &task))
}

/// Slots that were skipped or queued and are still to come, seen from now, are to come again. Those after now that have a
/// record besides.
fn take_back(cx: &Cx<'_>, txn: &mut Write<'_>, id: TaskId, now: Timestamp) -> Result<BTreeSet<Timestamp>> {
    let most = Timestamp::from_millis(i64::MAX);
    let mut used = BTreeSet::new();
    let later = (id, now.plus(Millis::new(1)))..=(id, most);
    for (key, fire) in cx.db.fires.collect_range(txn, later, FIRES_MAX)? {
        match fire.outcome {
            FireOutcome::Skipped { .. } | FireOutcome::Queued => drop(cx.db.fires.delete(txn, &key)?),
            _ => drop(used.insert(key.1)),
        }
    }
    cut(cx, txn, id)?;
    Ok(used)
}

/// Ends runs of skipped slots now that reach beyond it: what is still to come, seen from now, is not skipped any more.
pub(super) fn cut(cx: &Cx<'_>, txn: &mut Write<'_>, id: TaskId) -> Result<()> {
    let now = cx.now.wall;
    // The run that reaches beyond now need not be the last record before it: slots within it may have been used.
    for (key, fire) in cx.db.fires.collect_last(txn, &id, FIRES_MAX)? {
        let FireOutcome::Skipped { reason, until, .. } = fire.outcome else { continue };
        if key.1 > now || until <= now {
            continue;
        }
        // The task may have had other times, or its people another zone, when these were skipped: which of them were the
        // last ones before now is not known any more. All that passed until now stay skipped.
        let outcome = FireOutcome::Skipped { reason, until: now, count: None };
        cx.db.fires.put(txn, &key, &Fire { outcome, ..fire })?;
    }
    Ok(())
}

/// How the next slot of a task is found anew.
#[derive(Debug, PartialEq, Eq)]
struct Anew {
    /// Where its grid begins.
    anchor: Timestamp,
    /// The slot that comes first if it was not used; it need not be one of the recurrence.
    first: Option<Timestamp>,
    /// Else it is the first one after this.
    after: Timestamp,
}

/// None if the next slot is not to be found anew.
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

/// Where the grid of a task begins, as it is to be from `now` on. A beginning that is still to come is an instant that
/// somebody asked for, or that of a task that was made or changed by a clock that was ahead: the latter's grid is the same
/// from its first slot since 1970 on. However far back the clock is set next, and whatever is done with the task, nobody
/// takes it for an instant that was asked for.
pub(super) fn grid(task: &Task, now: Timestamp) -> Timestamp {
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
    use super::*;
    use crate::engine::schedule::fire::tests::{at, task};
    use crate::model::task::{Missed, Overlap, TaskState};

    /// In minutes: a grid of ten, where it begins, when the task was made and changed, its next slot, and now.
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
            // What begins at an instant that somebody asked for begins there again, unless that is what comes next.
            (6, every(), (33, 0, 5), Some(33), 10, None),
            (7, every(), (33, 0, 5), Some(43), 10, from(33, Some(33), 33)),
            (8, cron(), (33, 0, 5), Some(43), 10, from(33, Some(33), 33)),
            (9, every(), (33, 0, 5), Some(43), 33, from(33, None, 33)),
            // Nobody asked for the beginning of these.
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
