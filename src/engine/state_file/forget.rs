//! Removes the session state of a removed agent. The file stays in its folder.

use crate::Result;
use crate::model::id::AgentId;
use crate::state::SeenIdKey;
use crate::state_file::pending;
use crate::tx::Tx;

/// Removes a part of the session state of a removed agent. Returns whether nothing is left.
pub(crate) fn forget_agent(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    let most = (tx.policy.rows_per_input / 4).max(1); // each is up to two rows
    let mut left = most;
    for (key, _) in tx.db.state_fields.collect_prefix(tx, &agent, left)? {
        tx.db.state_fields.delete(tx, &key)?;
        left -= 1;
    }
    for (_, id) in tx.db.seen_ids_by_position.collect_prefix(tx, &agent, left)? {
        tx.db.seen_ids.delete(tx, &SeenIdKey { agent, id })?;
        left -= 1;
    }
    for (_, row) in tx.db.pending_responses.collect_prefix(tx, &agent, left)? {
        pending::delete(tx, agent, &row)?;
        left -= 1;
    }
    if left == 0 {
        return Ok(false);
    }
    tx.db.state_files.delete(tx, &agent)?;
    Ok(true)
}

/// Whether any session state of an agent is stored. The row about the file is removed last.
pub(crate) fn is_left(tx: &Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    tx.db.state_files.contains(tx, &agent)
}
