//! Scheduled work. One transaction claims an occurrence of a series, creates its message and computes the next
//! occurrence. A series never forks: an active one has exactly one future occurrence. A series never dies: a run that
//! fails or never ends only holds up itself.

use crate::Result;
use crate::model::id::TaskId;
use crate::model::task::{Fire, FireOutcome, Task};
use crate::state::OccurrenceId;
use crate::time::zone::Zone;
use crate::tx::Tx;

pub(crate) mod change;
pub(crate) mod end;
pub(crate) mod pending;
pub(crate) mod recompute;
pub(crate) mod run;
pub(crate) mod run_ended;
#[cfg(test)]
mod tests;

/// Maximum number of records of one task that are examined. Occurrences that are due at once, or that come again after
/// the clock was set back, are few.
pub(crate) const FIRES_MAX: usize = 1_000;

/// Stores a task.
pub(crate) fn put(tx: &mut Tx<'_, '_>, id: TaskId, before: Option<&Task>, after: &Task) -> Result<()> {
    match before {
        Some(before) => tx.db.tasks.replace(tx, &id, before, after),
        None => tx.db.tasks.append(tx, &id, after),
    }
}

/// Records the outcome of an occurrence. An occurrence that already has a record keeps the time zone of that record.
pub(crate) fn record(tx: &mut Tx<'_, '_>, slot: OccurrenceId, zone: &Zone, outcome: FireOutcome) -> Result<()> {
    tx.fires.push(outcome.as_str());
    let known = tx.db.task_runs.get(tx, &slot)?.filter(|fire| !matches!(fire.outcome, FireOutcome::Skipped { .. }));
    let zone = known.map_or_else(|| zone.name().to_owned(), |fire| fire.zone);
    let fire = Fire { at: tx.now.wall, zone, outcome };
    tx.db.task_runs.put(tx, &slot, &fire)
}
