//! Outgoing messages, and the interface to channels that deliver them.

use serde::{Deserialize, Serialize};

use super::address::{Address, ForeignId};
use super::card::{Card, PromptSubject};
use super::content::RawJson;
use super::id::{MessageId, OutboundId, OutgoingId, SessionId};
use super::time::{Awake, Timestamp};
use super::turn::Turn;

/// Why a message waits whose channel is not configured, or has not started.
pub const NOT_RUNNING: &str = "its channel is not running";

/// Who wrote an outgoing message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Author {
    /// A run of an agent.
    Agent {
        /// Session it speaks from.
        session: SessionId,
        /// Incarnation that wrote it.
        incarnation: u32,
        /// The agent's id for it. A repeated id means the same message.
        wire_id: String,
        /// The agent's number for it, for edits and reactions.
        number: u64,
    },
    /// Hearth itself: a notice that something went wrong.
    Hearth,
}

/// A reference to an earlier message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageRef {
    /// A message sent by Hearth; its platform id is known once it is delivered.
    Ours(OutboundId),
    /// A message from the platform, by its platform id.
    Theirs(ForeignId),
}

/// Action of an outgoing message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Says its text, with its files.
    Say,
    /// Shows a card to choose from.
    Ask(Card),
    /// Replaces the text of a message and removes its buttons.
    Edit(MessageRef),
    /// Adds its text, an emoji, as a reaction to a message.
    React(MessageRef),
}

/// State of an outgoing message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutState {
    /// Scheduled for this time.
    Later(Timestamp),
    /// In its outgoing queue. At the head of the queue it waits until the given point of awake time.
    Waiting {
        /// Earliest next attempt; at once in a later run.
        until: Option<Awake>,
        /// Why the last attempt failed, or why there was no attempt.
        after: Option<String>,
    },
    /// An attempt was started. Until its outcome is known, the message may or may not have been sent.
    Attempting {
        /// Start of the attempt.
        since: Awake,
    },
    /// Delivered to the platform.
    Delivered {
        /// Time at which the delivery was recorded.
        at: Timestamp,
        /// The platform's id for it, if it has one.
        platform_message: Option<ForeignId>,
    },
    /// Failed for good; agent and owner were told.
    Failed {
        /// The last attempt's error.
        error: String,
        /// Time at which Hearth stopped trying.
        at: Timestamp,
    },
    /// The agent may not send this there.
    Refused {
        /// Reason, which the agent is told.
        error: String,
        /// Time of the refusal.
        at: Timestamp,
    },
    /// Discarded: an answer of a turn that never ended. Never sent.
    Abandoned {
        /// Time at which it was discarded.
        at: Timestamp,
    },
    /// Processed by Hearth itself: a request to Hearth, or a message to another agent. It goes to no channel.
    Carried {
        /// Time at which it was processed.
        at: Timestamp,
        /// The message that the other agent received.
        message: Option<MessageId>,
    },
}

/// A message from an agent or from Hearth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbound {
    /// Who wrote it.
    pub author: Author,
    /// Destination. Without one it can only be refused or discarded.
    pub to: Option<Address>,
    /// What it asks for.
    pub act: Act,
    /// The message it answers.
    pub in_reply_to: Option<MessageId>,
    /// Its text; empty for other payloads.
    pub text: String,
    /// The whole payload.
    pub content: RawJson,
    /// Names of the files kept for it.
    pub files: Vec<String>,
    /// Progress of the delivery.
    pub state: OutState,
    /// Attempts so far.
    pub attempts: u32,
    /// When the first attempt was made.
    pub first_attempt: Option<Awake>,
    /// Attempts with an unknown outcome.
    pub uncertain: u32,
    /// When it was stored.
    pub stored: Timestamp,
}

impl Outbound {
    /// Its turn among the messages to the same address. The card of an approval that has certainly not been shown yet
    /// lets all other messages go first. Agents' cards and edits of cards stay in order with the other messages.
    #[must_use]
    pub const fn turn(&self) -> Turn {
        match (&self.act, &self.state) {
            (Act::Ask(Card { matter: PromptSubject::Approval(_), .. }), OutState::Waiting { .. })
                if self.uncertain == 0 =>
            {
                Turn::Later
            }
            _ => Turn::Now,
        }
    }

    /// The attempt in progress.
    #[must_use]
    pub const fn attempt(&self) -> Option<Attempt> {
        match self.state {
            OutState::Attempting { since } => Some(Attempt { number: self.attempts, since }),
            _ => None,
        }
    }
}

/// Action for a channel, with the platform's ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryAct {
    /// Send the text, with the files.
    Say,
    /// Show a card.
    Ask(Card),
    /// Replace the text of a message and remove its buttons.
    Edit(ForeignId),
    /// Add an emoji as a reaction to a message.
    React(ForeignId),
}

/// Identifies one attempt. Reports about an earlier attempt say nothing about this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Number of the attempt, from 1. A withdrawn attempt has the same number as the next one.
    pub number: u32,
    /// When it was begun.
    pub since: Awake,
}

/// A delivery request to a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The outgoing message that is delivered.
    pub id: OutboundId,
    /// Its id outside of the store: the idempotency key where the channel takes one.
    pub key: OutgoingId,
    /// The attempt. The outcome names it.
    pub attempt: Attempt,
    /// The address that it is sent to.
    pub to: Address,
    /// What the adapter has to do.
    pub act: DeliveryAct,
    /// An earlier attempt may have been delivered, and the channel cannot deduplicate: the text is marked as a
    /// repetition.
    pub repeated: bool,
    /// Name of the agent that sends it; none for Hearth.
    pub speaker: Option<String>,
    /// The message it answers.
    pub in_reply_to: Option<MessageId>,
    /// Its text.
    pub text: String,
    /// The whole payload.
    pub content: RawJson,
    /// Session and names of the files that go with it.
    pub files: Vec<String>,
}

/// Outcome of an attempt, as the channel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryResult {
    /// The platform has it.
    Delivered {
        /// The platform's id for it, if it has one.
        platform_message: Option<ForeignId>,
    },
    /// The recipient is not connected; nothing was sent. Retried when they connect.
    Absent,
    /// No channel of that name runs; nothing was sent.
    NoAdapter,
    /// It was not sent. A retry may succeed.
    Retry(String),
    /// It can never be sent.
    Rejected(String),
    /// It may have been sent.
    Uncertain(String),
}
