//! The folders of agent groups: workspaces that lie in the data directory and go with it.

use super::locate::{happened, stored};
use crate::engine::{Cx, Result};
use crate::model::effect::Effect;
use crate::model::id::AgentId;
use crate::model::workspace::{Witness, Workspace, WorkspaceFact};
use crate::state::Write;

/// Takes down what the folders look like. One that is another directory than before was copied or restored with the data
/// directory: it is adopted, because it lies where it belongs.
pub(super) fn folders(cx: &Cx<'_>, txn: &mut Write<'_>, folders: &[(AgentId, Witness)]) -> Result<Vec<Effect>> {
    for (agent, witness) in folders {
        let Some(key) = cx.db.workspaces_by_agent.get(txn, agent)? else { continue };
        let before = cx.db.workspaces.require(txn, &key)?;
        let other = before.witness.as_ref().is_some_and(|known| !known.is_of_same(witness));
        let after = Workspace { witness: Some(witness.clone()), ..before.clone() };
        if after != before {
            stored(cx, txn, key, (Some(&before), &after))?;
        }
        if other {
            happened(cx, txn, key, WorkspaceFact::Restored)?;
        }
    }
    Ok(Vec::new())
}
