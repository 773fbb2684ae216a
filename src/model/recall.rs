//! Search over everything that was said: what is found, and where it was said.

use serde::{Deserialize, Serialize};

use super::id::{AgentId, ApprovalId, BodyId, ChatId, MessageId, OutboundId, SkipId};

/// The key under which texts are found. A person or agent that may not see it finds none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecallScope {
    /// What an agent received and said in a chat; none is what belongs to no chat.
    Chat(AgentId, Option<ChatId>),
    /// Messages held for an approval.
    Held(ApprovalId),
}

/// How far an agent's tool `recall` reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RecallReach {
    /// The chat of its session.
    #[default]
    Chat,
    /// All chats of the agent.
    Agent,
}

impl RecallReach {
    /// All of them, from the least to the most.
    pub const ALL: [Self; 2] = [Self::Chat, Self::Agent];

    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Agent => "agent",
        }
    }
}

/// A text that can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SaidId {
    /// A message to an agent, or a run of its task.
    Message(MessageId),
    /// What an agent said.
    Answer(OutboundId),
    /// A skip.
    Skip(SkipId),
    /// A message that waits for an approval.
    Held(BodyId),
}

impl SaidId {
    /// The number of its id.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Message(id) => id.number(),
            Self::Answer(id) => id.number(),
            Self::Skip(id) => id.number(),
            Self::Held(id) => id.number(),
        }
    }
}

impl std::fmt::Display for SaidId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Message(id) => id.fmt(f),
            Self::Answer(id) => id.fmt(f),
            Self::Skip(id) => id.fmt(f),
            Self::Held(id) => id.fmt(f),
        }
    }
}
