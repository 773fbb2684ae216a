//! The directory in which a command is given, and its workspace.

use super::error::Trouble;
use crate::config::Paths;
use crate::daemon::groups_path;
use crate::engine::workspaces::{Located, locate};
use crate::model::workspace::{Fingerprint, WorkspaceKey, WorkspaceSight, key_text};
use crate::state::{self, Read, Reader, Tables};

/// Where a command is given.
pub(super) struct Place {
    pub(super) paths: Paths,
    pub(super) sight: WorkspaceSight,
    groups: Vec<u8>,
}

impl Place {
    pub(super) fn new(paths: &Paths, sight: WorkspaceSight) -> Self {
        Self { paths: paths.clone(), groups: groups_path(paths), sight }
    }

    /// The directory, for people.
    pub(super) fn root(&self) -> String {
        String::from_utf8_lossy(&self.sight.path).into_owned()
    }

    /// The name of its workspace; of one that is not there yet, the one that it would get.
    pub(super) fn name(&self, key: Option<WorkspaceKey>) -> String {
        key.map_or_else(|| Fingerprint::of_path(&self.sight.path).to_string(), key_text)
    }

    /// What the store knows of it.
    pub(super) fn locate(&self, db: &Tables, txn: &Read<'_>) -> Result<Located, state::Error> {
        locate(db, txn, &self.groups, &self.sight)
    }

    /// The store to read; none if there is none yet.
    pub(super) fn reader(&self) -> Result<Option<Reader>, Trouble> {
        match Reader::open(self.paths.data()) {
            Ok(reader) => Ok(Some(reader)),
            Err(state::Error::NoStore { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// That there is no session here.
    pub(super) fn nothing(&self, key: Option<WorkspaceKey>) -> String {
        format!("no sessions found in workspace {} ({})", self.name(key), self.root())
    }

    /// What to do where nothing is found.
    pub(super) fn hint(&self, key: Option<WorkspaceKey>, others: u64) -> String {
        let others = match others {
            0 => String::new(),
            1 => "; 1 other workspace has sessions, `hearth session resume --any-workspace` goes on with one as a fork"
                .to_owned(),
            n => format!(
                "; {n} other workspaces have sessions, `hearth session resume --any-workspace` goes on with one as a fork"
            ),
        };
        format!(
            "`hearth session list` shows what is in workspace {}, `hearth session new` begins one\nsessions are kept per \
             directory: those of other directories are not seen here{others}",
            self.name(key)
        )
    }

    /// Names the workspace in an error.
    pub(super) fn about(&self, trouble: Trouble, key: Option<WorkspaceKey>, others: u64) -> Trouble {
        trouble.with("workspace_root", self.root()).with("fingerprint", self.name(key)).with("other_partitions", others)
    }

    /// That there is no store, as an error about a reference.
    pub(super) fn no_store(&self, reference: Option<&str>) -> Trouble {
        use crate::model::session_ref::Reference;
        let hint = self.hint(None, 0);
        let trouble = match reference.map(|text| (text, Reference::read(text))) {
            None | Some((_, Reference::Latest)) => Trouble::new("no_managed_sessions", self.nothing(None), hint),
            Some((text, read)) => Trouble::new("session_not_found", format!("session not found: {text}"), hint)
                .with("requested", text)
                .with("branch", read.branch()),
        };
        self.about(trouble, None, 0)
    }
}
