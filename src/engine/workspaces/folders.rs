//! Workspaces of agent groups' folders, which are inside of the data directory and move with it.

use crate::Result;
use crate::model::id::AgentId;
use crate::model::report::Reply;
use crate::model::workspace::{Witness, Workspace, WorkspaceFact};
use crate::tx::Tx;
use crate::workspaces::locate;

/// Records what the folders look like. If a folder is a different directory than before, it was copied or restored with
/// the data directory. It is adopted because its location is right.
pub(crate) fn folders(tx: &mut Tx<'_, '_>, folders: &[(AgentId, Witness)]) -> Result<Reply> {
    for (agent, witness) in folders {
        let Some(key) = tx.db.workspaces_by_agent.get(tx, agent)? else { continue };
        let before = tx.db.workspaces.require(tx, &key)?;
        let other = before.witness.as_ref().is_some_and(|known| !known.is_of_same(witness));
        let after = Workspace { witness: Some(witness.clone()), ..before.clone() };
        if after != before {
            locate::stored(tx, key, Some(&before), &after)?;
        }
        if other {
            locate::happened(tx, key, WorkspaceFact::Restored)?;
        }
    }
    Ok(Reply::Done)
}
