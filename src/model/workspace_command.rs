//! Commands about workspaces, and their results.

use serde::{Deserialize, Serialize};

use super::as_text;
use super::id::AgentId;
use super::session_command::SessionCommand;
use super::take_in::{FileRefused, TakeIn, TookIn};
use super::workspace::{Witness, WorkspaceKey};
use super::workspace_sight::{WorkspaceSight, path};

/// Inputs about workspaces and their sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceInput {
    /// The user adopts a directory as a known workspace.
    Adopt(WorkspaceSight, AdoptFrom),
    /// Identities of the folders of agent groups. Not sent by clients.
    #[serde(skip)]
    Folders(Vec<(AgentId, Witness)>),
    /// A command on a session.
    Session(SessionCommand),
    /// A piece of a session that is imported from a file.
    TakeIn(Box<TakeIn>),
    /// A file that was not imported.
    Refuse(Box<FileRefused>),
}

/// The workspace to adopt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdoptFrom {
    /// The workspace whose identity matches the directory, else the one that was at its path before.
    Found,
    /// A workspace that is known.
    Key(#[serde(with = "as_text::key")] WorkspaceKey),
    /// The one at this path, raw bytes.
    Path(#[serde(deserialize_with = "path")] Vec<u8>),
}

/// The answer to a [`WorkspaceInput`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceReply {
    /// The directory is that workspace.
    Adopted {
        /// The workspace that was adopted.
        #[serde(with = "as_text::key")]
        key: WorkspaceKey,
        /// Whether this is new.
        changed: bool,
    },
    /// Result of importing a piece of a session.
    TookIn(TookIn),
    /// Recorded.
    Noted,
}
