//! What happened to messages and sessions beyond what their rows say: the memory of `why`.

use serde::{Deserialize, Serialize};

use super::entity::ProviderKind;
use super::id::{MessageId, OutboundId, SessionId};
use super::incarnation::{Exit, StopReason};
use super::time::{Millis, Timestamp};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// When.
    pub at: Timestamp,
    /// To which message.
    pub message: Option<MessageId>,
    /// In which session.
    pub session: Option<SessionId>,
    /// What.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// An incarnation began to work on the message.
    Claimed(u32),
    /// A turn ended without an end for the message; it will be tried again.
    TurnLost {
        /// The incarnation that was lost.
        incarnation: u32,
        /// Tries so far.
        tries: u32,
        /// How it was lost.
        why: String,
    },
    /// A turn with the message failed; it will be tried again.
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
        /// For how long at least, awake.
        wait: Millis,
        /// In the provider's words.
        why: String,
    },
    /// The session began anew, for this time.
    Reset(u32),
    /// The session is driven by this from now on; none is what drives its agent.
    Driven(Option<ProviderKind>),
    /// The message was given up.
    GivenUp(String),
    /// An incarnation was asked to stop.
    Stopped(u32, StopReason),
    /// An incarnation ended.
    Ended(u32, Exit),
    /// A file of the agent could not be taken in.
    FileRefused {
        /// Its name.
        file: String,
        /// Why.
        reason: String,
    },
    /// An answer was kept from going out.
    AnswerRefused(OutboundId, String),
    /// An answer of a turn that never ended was put aside.
    AnswerAbandoned(OutboundId),
    /// A delivery failed for good.
    DeliveryFailed(OutboundId, String),
    /// A delivery may have happened and is tried again.
    DeliveryUncertain(OutboundId, String),
    /// The same event came again and made a context message ask for a turn.
    Raised,
}
