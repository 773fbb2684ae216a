//! Checks the identity of agent group folders, to detect that the data directory was copied or restored.

use super::Daemon;
use super::engine_thread::Item;
use crate::contracts::workspace::witness;
use crate::model::id::AgentId;
use crate::model::input::Input;
use crate::model::workspace::Witness;
use crate::model::workspace_command::WorkspaceInput;
use crate::state;

impl Daemon {
    /// Compares the folders with the store, and submits those that differ to the engine.
    pub(super) fn look_at_folders(&self) {
        match self.other_folders() {
            Ok(folders) if folders.is_empty() => {}
            Ok(folders) => {
                self.inbox.push(Item::of(Input::Workspace(Box::new(WorkspaceInput::Folders(folders)))));
            }
            Err(error) => tracing::warn!(%error, "cannot look up the folders of agents"),
        }
    }

    fn other_folders(&self) -> Result<Vec<(AgentId, Witness)>, state::Error> {
        let known = self.engine.store().read(|db, txn| {
            let mut known = Vec::new();
            for row in db.workspaces_by_agent.iter(txn)? {
                let (agent, key) = row?;
                known.push((agent, db.workspaces.require(txn, &key)?));
            }
            Ok::<_, state::Error>(known)
        })?;
        let mut folders = Vec::new();
        for (agent, row) in known {
            let path = self.paths.data().join(crate::contracts::workspace::path_of(&row.path));
            let Some(found) = witness(&path).filter(|found| row.witness.as_ref() != Some(found)) else { continue };
            if row.witness.is_some_and(|known| !known.is_of_same(&found)) {
                tracing::info!(
                    "the folder of {agent} is a different directory than before: Hearth assumes that it was restored"
                );
            }
            folders.push((agent, found));
        }
        Ok(folders)
    }
}
