//! Operator commands that stop and freeze agents.

use crate::Result;
use crate::entities::change::{self, ChangeResult};
use crate::lifecycle::capacity;
use crate::lifecycle::halt::{self, Halt, Whose};
use crate::model::address::UserId;
use crate::model::entity::Folder;
use crate::model::report::Action;
use crate::rows::agents;
use crate::tx::Tx;

/// A stop by a person, or by the operator of this machine, who may stop everything.
const fn halt_by(by: Option<&UserId>) -> Halt<'_> {
    Halt { by, reply: None, whose: Whose::Turn }
}

/// Stops the running turns of an agent. One report per session.
pub(crate) fn stop(tx: &mut Tx<'_, '_>, folder: &Folder, by: Option<&UserId>) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    let stopped = halt::all(tx, agent, halt_by(by))?;
    let report = |session| change::report(format!("session {session} of agent {folder}"), Action::Stopped);
    Ok(Ok(stopped.into_iter().map(report).collect()))
}

/// Freezes an agent.
pub(crate) fn freeze(tx: &mut Tx<'_, '_>, folder: &Folder, by: Option<&UserId>) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    let action = if halt::freeze(tx, agent, halt_by(by))? { Action::Frozen } else { Action::Unchanged };
    Ok(Ok(vec![change::report(format!("agent {folder}"), action)]))
}

/// Lets a frozen agent work again. What waited starts at once.
pub(crate) fn unfreeze(tx: &mut Tx<'_, '_>, folder: &Folder) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    let thawed = tx.db.frozen_agents.delete(tx, &agent)?;
    if thawed {
        capacity::assign_free_slots(tx)?;
    }
    let action = if thawed { Action::Unfrozen } else { Action::Unchanged };
    Ok(Ok(vec![change::report(format!("agent {folder}"), action)]))
}
