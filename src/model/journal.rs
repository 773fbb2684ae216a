//! The journal: history of messages and sessions beyond their current rows. The source for `why`.

use serde::{Deserialize, Serialize};

use super::budget::{Fallback, PassReason};
use super::entity::ProviderKind;
use super::id::{MessageId, OutboundId, SessionId};
use super::incarnation::{Exit, StopReason};
use super::session::SessionChoice;
use super::time::{Millis, Timestamp};
use super::tool::ToolCall;

/// An event of a message or session, for `hearth why`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Time of the event.
    pub at: Timestamp,
    /// The message that it happened to, if it was one.
    pub message: Option<MessageId>,
    /// The session that it happened in, if it was one.
    pub session: Option<SessionId>,
    /// The event.
    pub event: Event,
}

/// Kinds of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// An incarnation claimed the message.
    Claimed(u32),
    /// A turn was lost before it acknowledged the message. The message will be retried.
    TurnLost {
        /// The incarnation that was lost.
        incarnation: u32,
        /// Tries so far.
        tries: u32,
        /// How it was lost.
        why: String,
    },
    /// A turn with the message failed. The message will be retried.
    TurnFailed {
        /// The incarnation whose turn it was.
        incarnation: u32,
        /// Tries so far.
        tries: u32,
        /// What went wrong.
        why: String,
    },
    /// The message waits because its agent's provider limits requests.
    PutOff {
        /// Minimum wait, in awake time.
        wait: Millis,
        /// The provider's message.
        why: String,
    },
    /// The session was reset; this is its new epoch.
    Reset(u32),
    /// The session's provider changed; none means the agent's provider.
    Driven(Option<ProviderKind>),
    /// The message failed for good.
    GivenUp(String),
    /// An incarnation was asked to stop.
    Stopped(u32, StopReason),
    /// An incarnation ended.
    Ended(u32, Exit),
    /// A file of the agent could not be imported.
    FileRefused {
        /// Name of the file in the mailbox.
        file: String,
        /// Why it was refused.
        reason: String,
    },
    /// An answer was refused.
    AnswerRefused(OutboundId, String),
    /// An answer of a turn that never ended was discarded.
    AnswerAbandoned(OutboundId),
    /// A delivery failed for good.
    DeliveryFailed(OutboundId, String),
    /// A delivery had an unknown outcome and is retried.
    DeliveryUncertain(OutboundId, String),
    /// A repeat of the event turned a context message into one that asks for a turn.
    Raised,
    /// The message waits because its agent's provider cannot be reached.
    Unreachable {
        /// Minimum wait, in awake time.
        wait: Millis,
        /// The error of the connection.
        why: String,
    },
    /// A person chose something for the session.
    Chosen(SessionChoice),
    /// The message waits because a budget has no room for it.
    OverBudget {
        /// Name of the budget.
        budget: String,
        /// When its next period begins.
        until: Timestamp,
    },
    /// The message passed although a budget had no room for it.
    PassedBudget {
        /// Name of the budget.
        budget: String,
        /// Why the message passed.
        why: PassReason,
    },
    /// The agent's provider took no requests. Another one gets the message.
    FailedOver {
        /// What the provider said.
        why: String,
    },
    /// A fallback of the agent has the message.
    StoodIn {
        /// The provider that was used instead.
        fallback: Fallback,
        /// Why the provider before it takes no work.
        why: String,
    },
    /// The agent's own provider has the message, after another one stood in for it.
    TookOverAgain {
        /// The agent's own provider.
        provider: ProviderKind,
        /// Its model, if it is known.
        model: Option<String>,
    },
    /// The agent called a tool.
    ToolCalled(Box<ToolCall>),
}

impl Event {
    /// Whether it is a tool call, of which a message may have many.
    #[must_use]
    pub const fn is_tool_call(&self) -> bool {
        matches!(self, Self::ToolCalled(_))
    }
}
