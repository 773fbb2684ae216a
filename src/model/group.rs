//! What lies in an agent group's folder as files of a contract with programs inside and outside: the fields of its
//! session state. The skips that its skills report are in `skip`.

use serde::{Deserialize, Serialize};

use super::content::{BlobId, RawJson};
use super::time::Timestamp;

/// What is known of an agent group's session-state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    /// Digest of the bytes that were last read or written; another digest means that somebody else wrote.
    pub digest: Option<BlobId>,
    /// When it was last read or written.
    pub looked: Timestamp,
    /// Whether fields changed since it was last written.
    pub dirty: bool,
    /// Why it is left alone, if it is.
    pub trouble: Option<StateTrouble>,
    /// Copies of files that nobody could read, by name, the newest last.
    pub quarantined: Vec<String>,
    /// Last position given to a field or an id.
    pub last_position: u64,
}

/// Why a session-state file is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateTrouble {
    /// Its schema is newer than what Hearth knows.
    Newer(i64),
    /// Nobody but its owner brings an older one up to date.
    Older(Option<i64>),
    /// Its lock was not to be had in time.
    Locked,
    /// It cannot be read or written: why.
    Unusable(String),
}

/// Which object of a session-state file a field belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StatePart {
    /// The file's own fields, those that nobody knows among them.
    Top,
    /// `sessions`, by name.
    Sessions,
    /// `muted_threads`, by thread.
    Muted,
}

/// One field of an agent group's session state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateField {
    /// Its name, complete.
    pub name: String,
    /// Its value.
    pub value: RawJson,
    /// Where it stands among the fields.
    pub position: u64,
    /// When it last changed.
    pub changed: Timestamp,
}

/// An id that a skill has seen already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenId {
    /// The id, complete.
    pub id: String,
    /// Where it stands among the others: the order in which they came.
    pub position: u64,
    /// When it was first seen; seeing it again does not count.
    pub first: Timestamp,
}

/// A message that somebody has begun to answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingResponse {
    /// Id of the message, complete.
    pub message: String,
    /// The entry as it is in the file.
    pub value: RawJson,
    /// Where it stands among the others.
    pub position: u64,
    /// When Hearth first saw it: its age counts from then, whatever the entry says.
    pub since: Timestamp,
    /// When it counts as stale.
    pub due: Timestamp,
}
