//! The directory of a command and its workspace.

use crate::cli::workspace::error::WorkspaceError;
use crate::config::Paths;
use crate::daemon::groups_path;
use crate::engine::workspaces::{Located, locate};
use crate::model::workspace::{Fingerprint, WorkspaceKey, key_text};
use crate::model::workspace_sight::WorkspaceSight;
use crate::state::{self, Read, Reader, Tables};

/// The place of a command.
pub(super) struct CommandDir {
    pub(super) paths: Paths,
    pub(super) sight: WorkspaceSight,
    groups: Vec<u8>,
}

impl CommandDir {
    pub(super) fn new(paths: &Paths, sight: WorkspaceSight) -> Self {
        Self { paths: paths.clone(), groups: groups_path(paths), sight }
    }

    /// The directory as text for people.
    pub(super) fn root(&self) -> String {
        String::from_utf8_lossy(&self.sight.path).into_owned()
    }

    /// The name of its workspace, or the name that a new one would get.
    pub(super) fn name(&self, key: Option<WorkspaceKey>) -> String {
        key.map_or_else(|| Fingerprint::of_path(&self.sight.path).to_string(), key_text)
    }

    /// Its state in the store.
    pub(super) fn locate(&self, db: &Tables, txn: &Read<'_>) -> Result<Located, state::Error> {
        locate(db, txn, &self.groups, &self.sight)
    }

    /// The store to read; none if there is none yet.
    pub(super) fn reader(&self) -> Result<Option<Reader>, WorkspaceError> {
        match Reader::open(self.paths.data()) {
            Ok(reader) => Ok(Some(reader)),
            Err(state::Error::NoStore { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The message for a workspace without sessions.
    pub(super) fn nothing(&self, key: Option<WorkspaceKey>) -> String {
        format!("no sessions found in workspace {} ({})", self.name(key), self.root())
    }

    /// A hint for the case that nothing is found.
    pub(super) fn hint(&self, key: Option<WorkspaceKey>, others: u64) -> String {
        let others = match others {
            0 => String::new(),
            1 => "; 1 other workspace has sessions, `hearth workspace sessions resume --any-workspace` continues one as a fork"
                .to_owned(),
            n => format!(
                "; {n} other workspaces have sessions, `hearth workspace sessions resume --any-workspace` continues one as a fork"
            ),
        };
        format!(
            "`hearth workspace sessions list` lists the sessions of workspace {}, `hearth workspace sessions new` creates one\nsessions belong to a \
             directory; those of other directories are not listed here{others}",
            self.name(key)
        )
    }

    /// Adds the workspace to an error.
    pub(super) fn about(&self, trouble: WorkspaceError, key: Option<WorkspaceKey>, others: u64) -> WorkspaceError {
        trouble.with("workspace_root", self.root()).with("fingerprint", self.name(key)).with("other_partitions", others)
    }

    /// The error for a reference if there is no store.
    pub(super) fn no_store(&self, reference: Option<&str>) -> WorkspaceError {
        use crate::model::session_ref::Reference;
        let hint = self.hint(None, 0);
        let trouble = match reference.map(|text| (text, Reference::read(text))) {
            None | Some((_, Reference::Latest)) => WorkspaceError::new("no_managed_sessions", self.nothing(None), hint),
            Some((text, read)) => WorkspaceError::new("session_not_found", format!("session not found: {text}"), hint)
                .with("requested", text)
                .with("branch", read.branch()),
        };
        self.about(trouble, None, 0)
    }
}
