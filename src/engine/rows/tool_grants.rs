//! Tool calls that people allowed in advance.

use crate::Result;
use crate::model::id::{AgentId, SessionId, TaskId, ToolGrantId};
use crate::model::tool::{GrantScope, ToolGrant, ToolPattern};
use crate::state::{Owned, Read, Tables};
use crate::tx::Tx;

/// Maximum number of grants of one agent.
pub(crate) const GRANTS_MAX: usize = 500;

/// Stores a grant, unless the same one exists. Returns its id, or none if the agent has too many.
pub(crate) fn add(tx: &mut Tx<'_, '_>, grant: &ToolGrant) -> Result<Option<ToolGrantId>> {
    let known = of(tx.db, tx, grant.agent)?;
    let same = |(_, row): &&(ToolGrantId, ToolGrant)| (row.scope, &row.pattern) == (grant.scope, &grant.pattern);
    if let Some((id, _)) = known.iter().find(same) {
        return Ok(Some(*id));
    }
    if known.len() >= GRANTS_MAX {
        return Ok(None);
    }
    let id: ToolGrantId = tx.db.allocate(tx)?;
    tx.db.tool_grants.append(tx, &id, grant)?;
    Ok(Some(id))
}

/// Why an agent cannot get grants of these patterns, if it cannot.
pub(crate) fn problem(tx: &Tx<'_, '_>, agent: AgentId, patterns: &[String]) -> Result<Option<String>> {
    let refused = patterns.iter().find_map(|pattern| ToolPattern::parse(pattern).err().map(|why| (pattern, why)));
    if let Some((pattern, why)) = refused {
        return Ok(Some(format!("`{pattern}` is not a pattern of tool calls: {why}")));
    }
    let known = of(tx.db, tx, agent)?.len();
    let is_too_much = !patterns.is_empty() && known.saturating_add(patterns.len()) > GRANTS_MAX;
    Ok(is_too_much.then(|| {
        format!(
            "the agent has {known} tool calls that were allowed in advance, and may have {GRANTS_MAX}; remove some with \
             `hearth agents rules remove`"
        )
    }))
}

/// The grants of an agent, oldest first.
pub(crate) fn of(db: &Tables, txn: &Read<'_>, agent: AgentId) -> Result<Vec<(ToolGrantId, ToolGrant)>> {
    let mut found = Vec::new();
    for (Owned { id, .. }, ()) in db.tool_grants_by_agent.collect_prefix(txn, &agent, GRANTS_MAX)? {
        found.push((id, db.tool_grants.require(txn, &id)?));
    }
    Ok(found)
}

/// Patterns that hold in every turn of a session.
pub(crate) fn of_session(db: &Tables, txn: &Read<'_>, agent: AgentId, session: SessionId) -> Result<Vec<String>> {
    let holds = |grant: &ToolGrant| match grant.scope {
        GrantScope::Agent => true,
        GrantScope::Session(of) => of == session,
        GrantScope::Task(_) => false,
    };
    Ok(of(db, txn, agent)?.into_iter().map(|(_, grant)| grant).filter(holds).map(|grant| grant.pattern).collect())
}

/// Patterns that hold in the runs of a task.
pub(crate) fn of_task(tx: &Tx<'_, '_>, agent: AgentId, task: TaskId) -> Result<Vec<String>> {
    let rows = of(tx.db, tx, agent)?.into_iter().map(|(_, grant)| grant);
    Ok(rows.filter(|grant| grant.scope == GrantScope::Task(task)).map(|grant| grant.pattern).collect())
}

/// Removes the grants of an agent that a function selects. Returns how many there were.
pub(crate) fn forget(tx: &mut Tx<'_, '_>, agent: AgentId, is_it: impl Fn(&ToolGrant) -> bool) -> Result<usize> {
    let mut removed = 0;
    for (id, grant) in of(tx.db, tx, agent)? {
        if is_it(&grant) {
            tx.db.tool_grants.delete(tx, &id)?;
            removed += 1;
        }
    }
    Ok(removed)
}
