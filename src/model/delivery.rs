//! Messages on their way out.

use serde::{Deserialize, Serialize};

use super::address::{Address, ForeignId};
use super::card::Card;
use super::content::RawJson;
use super::id::{MessageId, OutboundId, SessionId};
use super::time::{Awake, Timestamp};

/// Who wrote an outgoing message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Author {
    /// An agent.
    Agent {
        /// Session it speaks from.
        session: SessionId,
        /// Incarnation that wrote it.
        incarnation: u32,
        /// The agent's id of it: the same one twice is the same message.
        wire_id: String,
        /// The agent's number for it, for edits and reactions.
        number: u64,
    },
    /// Hearth itself: a notice that something went wrong.
    Hearth,
}

/// A message that was said before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// One of ours; its platform id is known once it was delivered.
    Ours(OutboundId),
    /// One of the platform's.
    Theirs(ForeignId),
}

/// What an outgoing message does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Says its text, with its files.
    Say,
    /// Shows a card to choose from.
    Ask(Card),
    /// Replaces the text, and takes away the buttons, of a message.
    Edit(Said),
    /// Puts its text, an emoji, under a message.
    React(Said),
}

/// Where an outgoing message is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutState {
    /// Waits for its time.
    Later(Timestamp),
    /// Waits in its lane; when it is the lane's first, until the given point of awake time.
    Waiting {
        /// Not before this point; at once in a later run.
        until: Option<Awake>,
        /// Why the last attempt failed, or why there was none.
        after: Option<String>,
    },
    /// An attempt was started; until its outcome is known nobody can say whether the message went out.
    Attempting {
        /// Since when.
        since: Awake,
    },
    /// The channel took it.
    Delivered {
        /// When.
        at: Timestamp,
        /// The platform's id of it, if it has one.
        platform_message: Option<ForeignId>,
    },
    /// Given up; agent and owner were told.
    Failed {
        /// Why.
        error: String,
        /// When.
        at: Timestamp,
    },
    /// The agent may not say this there.
    Refused {
        /// Why.
        error: String,
        /// When.
        at: Timestamp,
    },
    /// An answer of a turn that never ended: never sent.
    Abandoned {
        /// When.
        at: Timestamp,
    },
    /// Taken in by Hearth itself: a request to it, or a message to another agent. It goes to no channel.
    Carried {
        /// When.
        at: Timestamp,
        /// The message that the other agent has of it.
        message: Option<MessageId>,
    },
}

/// One thing said by an agent or by Hearth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbound {
    /// Who wrote it.
    pub author: Author,
    /// Where it goes; none when it has no address and can only be refused or abandoned.
    pub to: Option<Address>,
    /// What it does.
    pub act: Act,
    /// The message it answers.
    pub in_reply_to: Option<MessageId>,
    /// Its text; empty for other payloads.
    pub text: String,
    /// The whole payload.
    pub content: RawJson,
    /// Names of the files kept for it.
    pub files: Vec<String>,
    /// Where it is.
    pub state: OutState,
    /// Attempts so far.
    pub attempts: u32,
    /// When the first attempt was made.
    pub first_attempt: Option<Awake>,
    /// Attempts whose outcome nobody knows.
    pub uncertain: u32,
    /// When it was stored.
    pub stored: Timestamp,
}

impl Outbound {
    /// The attempt that is under way.
    #[must_use]
    pub const fn attempt(&self) -> Option<Attempt> {
        match self.state {
            OutState::Attempting { since } => Some(Attempt { number: self.attempts, since }),
            _ => None,
        }
    }
}

/// What a channel is asked to do, with the platform's ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryAct {
    /// Say the text, with the files.
    Say,
    /// Show a card.
    Ask(Card),
    /// Replace the text of a message and take away its buttons.
    Edit(ForeignId),
    /// Put an emoji under a message.
    React(ForeignId),
}

/// Which attempt of a message: what is heard of an earlier one says nothing of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Which one, from 1 on. One that was taken back has the same number as the next one.
    pub number: u32,
    /// When it was begun.
    pub since: Awake,
}

/// What a channel is asked to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Id; an idempotency key where the channel takes one.
    pub id: OutboundId,
    /// For which attempt that is asked; its outcome names it.
    pub attempt: Attempt,
    /// Where it goes.
    pub to: Address,
    /// What to do.
    pub act: DeliveryAct,
    /// An earlier attempt may have gone out, and the channel cannot tell: people are to see that this is a repetition.
    pub repeated: bool,
    /// Name of the agent that speaks; none for Hearth.
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

/// What a channel says of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryResult {
    /// The platform has it.
    Delivered {
        /// The platform's id of it.
        platform_message: Option<ForeignId>,
    },
    /// Nobody is there to take it; nothing was sent. Tried again when somebody is.
    Absent,
    /// No channel of that name runs; nothing was sent.
    NoAdapter,
    /// It did not go out, and may later.
    Retry(String),
    /// It will never go out.
    Rejected(String),
    /// It may have gone out.
    Uncertain(String),
}
