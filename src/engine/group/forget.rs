//! The session state of a removed agent goes; the file stays in its folder.

use super::pending;
use crate::engine::{Cx, Result};
use crate::model::group::StatePart;
use crate::model::id::AgentId;
use crate::state::Write;

/// Forgets the session state of a removed agent, a part of it; whether nothing is left.
pub(in crate::engine) fn forget_agent(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId) -> Result<bool> {
    let most = (cx.policy.rows_per_input / 4).max(1); // each is up to two rows
    let mut left = most;
    for ((_, part, name), _) in cx.db.state_fields.collect_prefix(txn, &agent, left)? {
        if part == StatePart::Muted {
            cx.db.state_mutes.delete(txn, &(agent, name.clone()))?;
        }
        cx.db.state_fields.delete(txn, &(agent, part, name))?;
        left -= 1;
    }
    for ((_, position), id) in cx.db.seen_ids_by_position.collect_prefix(txn, &agent, left)? {
        cx.db.seen_ids.delete(txn, &(agent, id))?;
        cx.db.seen_ids_by_position.delete(txn, &(agent, position))?;
        left -= 1;
    }
    for (_, row) in cx.db.pending_responses.collect_prefix(txn, &agent, left)? {
        pending::delete(cx, txn, agent, &row)?;
        left -= 1;
    }
    if left == 0 {
        return Ok(false);
    }
    cx.db.state_files_dirty.delete(txn, &agent)?;
    cx.db.state_files.delete(txn, &agent)?;
    Ok(true)
}

/// Whether something of the session state of an agent is stored. What is known of the file goes last.
pub(in crate::engine) fn is_left(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<bool> {
    cx.db.state_files.contains(txn, &agent)
}
