//! Commands about workspaces, and their results.

use serde::{Deserialize, Deserializer, Serialize};

use super::as_text;
use super::id::AgentId;
use super::session_command::SessionCommand;
use super::take_in::{FileRefused, TakeIn, TookIn};
use super::workspace::{Witness, WorkspaceKey};

/// A directory as found on disk, with what is needed to find its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceSight {
    /// Canonical path, raw bytes; the path as given if it cannot be resolved.
    #[serde(deserialize_with = "path")]
    pub path: Vec<u8>,
    /// Its identity; none if it does not exist.
    pub witness: Option<Witness>,
    /// Root of the repository that contains it, raw bytes.
    #[serde(deserialize_with = "path_option")]
    pub project: Option<Vec<u8>>,
    /// Other workspace paths that lead to the same directory now.
    #[serde(deserialize_with = "paths")]
    pub also_at: Vec<Vec<u8>>,
}

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

/// Whether bytes can be a path.
#[must_use]
pub fn is_path(bytes: &[u8]) -> bool {
    !bytes.is_empty() && !bytes.contains(&0)
}

fn checked<E: serde::de::Error>(bytes: Vec<u8>) -> Result<Vec<u8>, E> {
    if is_path(&bytes) { Ok(bytes) } else { Err(E::custom("invalid path")) }
}

/// Parses the bytes of a path.
pub(super) fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    checked(Deserialize::deserialize(deserializer)?)
}

fn path_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
    Option::deserialize(deserializer)?.map(checked).transpose()
}

fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u8>>, D::Error> {
    Vec::<Vec<u8>>::deserialize(deserializer)?.into_iter().map(checked).collect()
}

/// The workspace to adopt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdoptFrom {
    /// The workspace whose identity matches the directory, else the one that was at its path before.
    Found,
    /// This one.
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
        /// The workspace.
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
