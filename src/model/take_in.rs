//! Import of workspace sessions from files.

use serde::{Deserialize, Serialize};

use super::as_text;
use super::id::SessionId;
use super::record::SessionRecord;
use super::session::{Compaction, SessionLabel, SessionSource};
use super::time::Timestamp;
use super::workspace::WorkspaceKey;
use super::workspace_sight::{WorkspaceSight, path};

/// Metadata of a session in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHead {
    /// The preferred id; another one is chosen if it is already used.
    pub label: SessionLabel,
    /// The model that it uses.
    pub model: Option<String>,
    /// When it was begun.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
    /// What it was forked from: the parent's id, and the name of the branch.
    pub parent: Option<(String, Option<String>)>,
    /// What compaction removed from it.
    pub compaction: Option<Compaction>,
    /// Where it is from.
    pub source: SessionSource,
}

/// A session as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSession {
    /// Format version that the file declares. Only version 1 is known.
    pub version: u32,
    /// Metadata of the session.
    pub head: SessionHead,
    /// Its records, in order.
    pub records: Vec<SessionRecord>,
}

/// One piece of a session that is imported from a file. The imported session becomes visible with its last piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeIn {
    /// The directory whose workspace receives the session. The workspace is created if it does not exist.
    pub sight: WorkspaceSight,
    /// State of the file when it was read.
    pub file: FileState,
    /// Metadata of the session. Its source names the file that the session belongs to.
    pub head: SessionHead,
    /// Number of records in earlier pieces.
    pub after: u64,
    /// The records that follow.
    pub records: Vec<SessionRecord>,
    /// Whether these are the last ones.
    pub last: bool,
}

/// A file as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// Where it is, raw bytes.
    #[serde(deserialize_with = "path")]
    pub path: Vec<u8>,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// When this older state of a session was archived, in milliseconds since 1970; none for the session itself.
    pub older: Option<u64>,
}

/// A file that was examined and not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRefused {
    /// The directory whose workspace would have received the session.
    pub sight: WorkspaceSight,
    /// The file that its session belongs to, raw bytes.
    #[serde(deserialize_with = "path")]
    pub owner: Vec<u8>,
    /// State of the file when it was examined.
    pub file: FileState,
    /// Why not, for people.
    pub why: String,
    /// The other workspace that it names, for people.
    pub root: Option<String>,
}

/// Result of importing one piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TookIn {
    /// The import continues with the records after this number.
    More {
        /// Number of records imported so far.
        upto: u64,
    },
    /// The session is complete.
    Whole {
        /// The session that has the content of the file.
        #[serde(with = "as_text")]
        session: SessionId,
        /// Its id for people.
        label: SessionLabel,
        /// Which revision of it the file became.
        revision: u32,
    },
    /// The same content was imported before.
    Already {
        /// The session that has the content of the file.
        #[serde(with = "as_text")]
        session: SessionId,
        /// Its id for people.
        label: SessionLabel,
    },
    /// The store has a newer state of the session; this older one is not needed.
    Passed {
        /// The session of the file.
        #[serde(with = "as_text")]
        session: SessionId,
        /// Its id for people.
        label: SessionLabel,
    },
    /// The file and the stored session have diverged. Neither is changed.
    Conflict {
        /// The session of the file.
        #[serde(with = "as_text")]
        session: SessionId,
        /// Its id for people.
        label: SessionLabel,
        /// Why the file cannot be imported.
        why: String,
    },
}

/// A partly imported session. It stays hidden until the last piece arrives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialImport {
    /// The file that the session belongs to, raw bytes.
    pub path: Vec<u8>,
    /// SHA-256 of the file that the pieces are of.
    pub digest: [u8; 32],
    /// Workspace that receives it.
    pub workspace: WorkspaceKey,
    /// Session under which its records are stored.
    pub session: SessionId,
    /// Revision under which its records are stored.
    pub revision: u32,
    /// Number of records so far.
    pub records: u64,
    /// Number of messages among them.
    pub messages: u64,
    /// When the last piece arrived.
    pub at: Timestamp,
}
