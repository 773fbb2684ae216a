//! Scheduled work: a slot of a series is claimed, its message made and the next slot found in one transaction. Nothing
//! forks: an active series has one future occurrence. Nothing dies: a run that fails or never ends holds up only itself.

use super::{Cx, Result, spec};
use crate::model::entity::Agent;
use crate::model::id::{AgentId, TaskId};
use crate::model::task::{Fire, FireOutcome, Task};
use crate::model::time::Timestamp;
use crate::state::Write;
use crate::time::zone::Zone;

mod change;
mod end;
mod fire;
mod kept;
mod over;
mod renew;
mod slots;
#[cfg(test)]
mod tests;

pub(super) use change::{command, forget_agent, keep_due, renew_zone};
pub(super) use fire::due;
pub(super) use over::{forget_fires, over};
pub(super) use renew::{RENEWAL, renew_all, renew_some};

/// Records of one task that are looked at; those of slots that are due at once, or of a time that comes again, are few.
const FIRES_MAX: usize = 1_000;

/// Stores a task with the rows that follow from its state.
fn put(cx: &Cx<'_>, txn: &mut Write<'_>, id: TaskId, (before, after): (Option<&Task>, &Task)) -> Result<()> {
    let (was_due, is_due) = (before.and_then(Task::due), after.due());
    if was_due != is_due {
        if let Some(at) = was_due {
            cx.db.tasks_due.delete(txn, &(at, id))?;
        }
        if let Some(at) = is_due {
            cx.db.tasks_due.put(txn, &(at, id), &())?;
        }
    }
    match (before.is_some_and(|task| task.state.is_open()), after.state.is_open()) {
        (false, true) => cx.db.tasks_by_agent.put(txn, &(after.agent, id), &())?,
        (true, false) => drop(cx.db.tasks_by_agent.delete(txn, &(after.agent, id))?),
        _ => {}
    }
    cx.db.tasks.put(txn, &id, after)
}

/// Records what became of a slot. One that has a record already came by the zone of that.
fn record(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    slot: (TaskId, Timestamp),
    zone: &Zone,
    outcome: FireOutcome,
) -> Result<()> {
    cx.fires.borrow_mut().push(outcome.as_str());
    let known = cx.db.fires.get(txn, &slot)?.filter(|fire| !matches!(fire.outcome, FireOutcome::Skipped { .. }));
    let zone = known.map_or_else(|| zone.name().to_owned(), |fire| fire.zone);
    let fire = Fire { at: cx.now.wall, zone, outcome };
    cx.db.fires.put(txn, &slot, &fire)
}

/// The zone of an agent's people: its own, the installation's, the machine's.
pub(in crate::engine) fn zone_of(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<Zone> {
    let Some(agent) = cx.db.agents.get(txn, &agent)? else { return Ok(cx.zone.clone()) };
    zone_for(cx, txn, &agent)
}

/// As [`zone_of`]. What is configured was checked; should it not be a zone any more, the machine's holds.
fn zone_for(cx: &Cx<'_>, txn: &Write<'_>, agent: &Agent) -> Result<Zone> {
    let configured = spec::timezone(cx.db, txn, agent)?;
    Ok(configured.and_then(|name| Zone::parse(&name).ok()).unwrap_or_else(|| cx.zone.clone()))
}
