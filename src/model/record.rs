//! What is in a workspace session: ordered records, and who works on it.

use serde::{Deserialize, Serialize};

use super::content::RawJson;
use super::id::SessionId;
use super::time::Timestamp;

/// One record of a workspace session. Records are never changed: what changes a session makes a new revision of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// When it was appended, or when its source says it was.
    pub at: Timestamp,
    /// What it says.
    pub body: RecordBody,
    /// What its source said beside that and only its maker knows: a JSON object with these fields where they stood in
    /// the record, written back as they came.
    pub extra: Option<RawJson>,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordBody {
    /// Something that was said.
    Message {
        /// By whom.
        role: SpeakerRole,
        /// Its blocks: a JSON array, as it came.
        blocks: RawJson,
        /// What it cost: a JSON object, as it came.
        usage: Option<RawJson>,
        /// Whether the turn it belongs to ends with it; none where nobody says.
        ends_turn: Option<bool>,
    },
    /// Something that was typed at a prompt.
    Prompt(String),
    /// A record of a kind that only its maker knows: a JSON object, written back as it came.
    Foreign(RawJson),
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpeakerRole {
    /// Instructions.
    System,
    /// A person.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

impl SpeakerRole {
    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Who a word in files means, if anybody.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::System, Self::User, Self::Assistant, Self::Tool].into_iter().find(|role| role.as_str() == word)
    }
}

/// Who works on a workspace session now. Every write carries the epoch, so that a worker that lost its lease without
/// noticing is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Rises with every holder.
    pub epoch: u64,
    /// Process of the holder.
    pub pid: u32,
    /// When that process started, as the kernel counts it: a pid alone is used again.
    pub started: u64,
    /// The boot in which both mean something.
    pub boot: String,
    /// When it was taken.
    pub since: Timestamp,
    /// When its holder last said that it is alive.
    pub beat: Timestamp,
}

/// A file that was looked at to take a session in; the same file twice changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFile {
    /// Where it was, raw bytes.
    pub path: Vec<u8>,
    /// When.
    pub at: Timestamp,
    /// What became of it.
    pub outcome: Result<SessionId, String>,
    /// When this older state of a session was put aside, in milliseconds since 1970; none for the session itself.
    pub older: Option<u64>,
}
