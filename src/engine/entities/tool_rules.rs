//! Commands for tool calls that are allowed in advance.

use crate::Result;
use crate::entities::change::{self, ChangeResult, ChangedAgents};
use crate::model::approval::Decider;
use crate::model::entity::Folder;
use crate::model::id::{TaskId, ToolGrantId};
use crate::model::report::Action;
use crate::model::tool::{GrantScope, ToolGrant};
use crate::rows::{agents, tool_grants};
use crate::tx::Tx;

/// Allows calls that match a pattern, in all sessions or in the runs of a task.
pub(crate) fn allow(
    tx: &mut Tx<'_, '_>,
    folder: &Folder,
    pattern: &str,
    task: Option<TaskId>,
    after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    if let Some(why) = tool_grants::problem(tx, agent, &[pattern.to_owned()])? {
        return Ok(Err(why));
    }
    let scope = match task {
        None => GrantScope::Agent,
        Some(id) => {
            let owner = tx.db.tasks.get(tx, &id)?.map(|task| task.agent);
            if owner != Some(agent) {
                return Ok(Err(format!("{folder} has no task {id}; see `hearth tasks list`")));
            }
            GrantScope::Task(id)
        }
    };
    let known = tool_grants::of(tx.db, tx, agent)?.len();
    let grant = ToolGrant { agent, scope, pattern: pattern.to_owned(), by: Decider::Operator, at: tx.now.wall };
    let Some(id) = tool_grants::add(tx, &grant)? else {
        return Ok(Err(format!(
            "{folder} has {known} such answers, which is the limit; remove some with `hearth agents rules remove`"
        )));
    };
    let is_new = tool_grants::of(tx.db, tx, agent)?.len() > known;
    after.changed.insert(agent);
    let action = if is_new { Action::Created } else { Action::Unchanged };
    Ok(Ok(vec![change::report(format!("rule {id} of {folder}"), action)]))
}

/// Forgets an answer, so that a person is asked again.
pub(crate) fn forget(
    tx: &mut Tx<'_, '_>,
    folder: &Folder,
    id: ToolGrantId,
    after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    if tx.db.tool_grants.get(tx, &id)?.is_none_or(|grant| grant.agent != agent) {
        return Ok(Err(format!("{folder} has no rule {id}; see `hearth agents rules list {folder}`")));
    }
    tx.db.tool_grants.delete(tx, &id)?;
    after.changed.insert(agent);
    Ok(Ok(vec![change::report(format!("rule {id} of {folder}"), Action::Removed)]))
}
