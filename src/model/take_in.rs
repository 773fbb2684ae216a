//! Sessions that are taken in from files.

use serde::{Deserialize, Serialize};

use super::id::SessionId;
use super::record::SessionRecord;
use super::session::{Compaction, SessionLabel, SessionSource};
use super::time::Timestamp;
use super::workspace::{WorkspaceKey, WorkspaceSight};

/// What a file says of its session as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHead {
    /// The id it would have; another one if that is taken.
    pub label: SessionLabel,
    /// What it talks to.
    pub model: Option<String>,
    /// When it was begun.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
    /// What it was forked from: the parent's id, and the name of the branch.
    pub parent: Option<(String, Option<String>)>,
    /// What was left out of it.
    pub compaction: Option<Compaction>,
    /// Where it is from.
    pub source: SessionSource,
}

/// A session as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSession {
    /// Version of the form that the file says it has; 1 is the one that is known.
    pub version: u32,
    /// What it says of the session as a whole.
    pub head: SessionHead,
    /// Its records, in order.
    pub records: Vec<SessionRecord>,
}

/// A piece of a session that is taken in from a file. What was taken in shows when its last piece is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeIn {
    /// The directory in whose workspace it comes; the workspace is made if there is none.
    pub sight: WorkspaceSight,
    /// The file.
    pub file: FileState,
    /// What the file says of the session as a whole; its source names the file that the session belongs to.
    pub head: SessionHead,
    /// Records that came in earlier pieces.
    pub after: u64,
    /// The records that follow.
    pub records: Vec<SessionRecord>,
    /// Whether these are the last ones.
    pub last: bool,
}

/// A file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState {
    /// Where it is, raw bytes.
    pub path: Vec<u8>,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// When this older state of a session was put aside, in milliseconds since 1970; none for the session itself.
    pub older: Option<u64>,
}

/// A file that was looked at and not taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRefused {
    /// The directory in whose workspace it was to come.
    pub sight: WorkspaceSight,
    /// The file that its session belongs to, raw bytes.
    pub owner: Vec<u8>,
    /// The file.
    pub file: FileState,
    /// Why not, for people.
    pub why: String,
    /// The other workspace that it names, for people.
    pub root: Option<String>,
}

/// What became of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TookIn {
    /// The records after this number are wanted next.
    More {
        /// How many there are.
        upto: u64,
    },
    /// All of it is there.
    Whole {
        /// The session.
        session: SessionId,
        /// Its id for people.
        label: SessionLabel,
        /// Which revision of it the file became.
        revision: u32,
    },
    /// It was there before.
    Already {
        /// The session.
        session: SessionId,
        /// Its id for people.
        label: SessionLabel,
    },
    /// A newer state of the session is there, this older one is not needed.
    Passed {
        /// The session.
        session: SessionId,
        /// Its id for people.
        label: SessionLabel,
    },
    /// File and session went on separately: neither is changed.
    Conflict {
        /// The session.
        session: SessionId,
        /// Its id for people.
        label: SessionLabel,
        /// What stands in the way.
        why: String,
    },
}

/// A session of which only some pieces are there. Nobody sees it yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intake {
    /// The file that the session belongs to, raw bytes.
    pub path: Vec<u8>,
    /// SHA-256 of the file that the pieces are of.
    pub digest: [u8; 32],
    /// Where it comes.
    pub workspace: WorkspaceKey,
    /// Under which session its records lie.
    pub session: SessionId,
    /// Under which revision.
    pub revision: u32,
    /// How many records are there.
    pub records: u64,
    /// How many of them are messages.
    pub messages: u64,
    /// When the last piece came.
    pub at: Timestamp,
}
