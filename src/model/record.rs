//! Records of workspace sessions, and the lease of the process that works on one.

use serde::{Deserialize, Serialize};

use super::content::RawJson;
use super::id::SessionId;
use super::time::Timestamp;

/// One record of a workspace session. Records are immutable: a change to a session creates a new revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// When it was appended; for an imported record, the time from its source.
    pub at: Timestamp,
    /// The message or event.
    pub body: RecordBody,
    /// Further fields of the source record that only its creator understands: a JSON object whose fields sit where they
    /// sat in the record. Written back unchanged.
    pub extra: Option<RawJson>,
}

/// Content of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordBody {
    /// A message.
    Message {
        /// Who wrote it.
        role: SpeakerRole,
        /// Its blocks: a JSON array, as received.
        blocks: RawJson,
        /// Its usage: a JSON object, as received.
        usage: Option<RawJson>,
        /// Whether it ends its turn; none if the source does not say.
        ends_turn: Option<bool>,
    },
    /// Something that was typed at a prompt.
    Prompt(String),
    /// A record of a kind that only its creator understands: a JSON object, written back unchanged.
    Foreign(RawJson),
}

/// Role of a message's author.
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

    /// The role that a word in files stands for; none for unknown words.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::System, Self::User, Self::Assistant, Self::Tool].into_iter().find(|role| role.as_str() == word)
    }
}

/// The process that works on a workspace session. Every write carries the epoch, so a worker that lost its lease
/// without noticing is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Rises with every holder.
    pub epoch: u64,
    /// Process of the holder.
    pub pid: u32,
    /// Start time of that process, as the kernel counts it, because pids are reused.
    pub started: u64,
    /// The boot in which both mean something.
    pub boot: String,
    /// When it was taken.
    pub since: Timestamp,
    /// Last heartbeat of its holder.
    pub beat: Timestamp,
}

/// A file that was examined for a session import. Examining the same file again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFile {
    /// Where it was, raw bytes.
    pub path: Vec<u8>,
    /// Time of the examination.
    pub at: Timestamp,
    /// The imported session, or why it was not imported.
    pub outcome: Result<SessionId, String>,
    /// When this older state of a session was archived, in milliseconds since 1970; none for the session itself.
    pub older: Option<u64>,
}
