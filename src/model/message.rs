//! Incoming messages and their states, and dropped events with their reasons.

use serde::{Deserialize, Serialize};

use super::address::{Address, ChannelName, ForeignId, UserId};
use super::content::{Attachment, Content};
use super::id::{AgentId, ApprovalId, BodyId, ChatId, MessageId, SessionId};
use super::task::{Gated, Occurrence};
use super::time::{Awake, Timestamp};

/// What kind of message it is, as the agent sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageKind {
    /// A chat message in the adapter's own form.
    Chat,
    /// A chat message in the bridge's form.
    ChatSdk,
    /// A scheduled task.
    Task,
    /// Unused. Keeps its number reserved in stores.
    Webhook,
    /// A message from Hearth to the agent.
    System,
}

impl MessageKind {
    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::ChatSdk => "chat-sdk",
            Self::Task => "task",
            Self::Webhook => "webhook",
            Self::System => "system",
        }
    }
}

/// Content of a message, stored once per event however many agents receive it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// What the agent reads.
    pub content: Content,
    /// What kind of message.
    pub kind: MessageKind,
    /// When it was sent, by the platform's clock.
    pub said: Timestamp,
    /// Chat and thread it came from; none for messages from Hearth.
    pub source: Option<Address>,
    /// The platform's id of it; none when it gave none.
    pub platform_message: Option<ForeignId>,
    /// The person who wrote it, if one did.
    pub sender: Option<UserId>,
    /// Files that came with it.
    pub attachments: Vec<Attachment>,
}

/// The fetch of a body's files from the network that keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// Time of the next request to the channel; at once in a later run.
    pub again: Awake,
    /// When the messages are delivered without the files. A later run restarts this period.
    pub until: Awake,
}

/// The files of an ended message that its session's agent may still read, in the order in which they came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFiles {
    /// Files of the store of files.
    pub files: Vec<Attachment>,
}

impl SessionFiles {
    /// Their size together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }
}

/// When a pending message may go to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Due {
    /// Now.
    Now,
    /// At a time of the wall clock.
    At(Timestamp),
    /// After a backoff in awake time; at once in a later run.
    Retry(Awake),
    /// When a budget has room, at the latest at a time of the wall clock.
    Budget(Timestamp),
}

/// What an open message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// For its agent.
    Agent,
    /// For a time of the wall clock.
    Time(Timestamp),
    /// For the end of a backoff.
    Backoff(Awake),
    /// For a message that triggers, because it does not trigger itself.
    Trigger,
    /// For the end of the turn of which it is a part.
    Turn,
}

/// How a message ended well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Completion {
    /// A turn processed it.
    Answered,
    /// It was context beyond the agent's cap; stored, never shown.
    ContextCapped,
    /// It was a task whose script found nothing to do or failed, as the text says. The agent was not woken.
    Gated(Gated),
    /// A person stopped it: its turn, or while it waited. None is the operator of this machine.
    Stopped(Option<UserId>),
}

/// Where a message is: exactly one of these at any time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageState {
    /// Waits for a turn. A message that does not trigger waits for one that does.
    Pending(Due),
    /// An incarnation works on it.
    Claimed {
        /// The run that claimed it.
        incarnation: u32,
        /// Awake time of the claim.
        since: Awake,
    },
    /// A turn with it has ended.
    Completed {
        /// How the turn ended.
        how: Completion,
        /// Time at which the end was recorded.
        at: Timestamp,
    },
    /// Failed for good; the sender was told.
    Failed {
        /// The last error.
        error: String,
        /// Time at which it failed for good.
        at: Timestamp,
    },
    /// Dropped without a turn.
    Dropped {
        /// Why it was dropped.
        reason: Reason,
        /// Time of the drop.
        at: Timestamp,
    },
}

impl MessageState {
    /// When it ended, if it has.
    #[must_use]
    pub const fn ended(&self) -> Option<Timestamp> {
        match self {
            Self::Completed { at, .. } | Self::Failed { at, .. } | Self::Dropped { at, .. } => Some(*at),
            Self::Pending(_) | Self::Claimed { .. } => None,
        }
    }
}

/// Origin of a message between agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Session that sent it.
    pub session: SessionId,
    /// Messages between agents since a person spoke, this one included.
    pub count: u32,
}

/// One message of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The session that it belongs to.
    pub session: SessionId,
    /// Its agent; repeated from the session so that counts per agent need no second read.
    pub agent: AgentId,
    /// Position in the session; even.
    pub seq: u64,
    /// Its payload, shared with the other messages of the same event.
    pub body: BodyId,
    /// Whether it asks for a turn.
    pub trigger: bool,
    /// Default destination of an answer.
    pub reply: Option<Address>,
    /// The agent's session that sent it, and how many agents it went through since a person's message; none for other
    /// messages.
    pub from: Option<Hop>,
    /// The occurrence of a task that created it.
    pub slot: Option<Occurrence>,
    /// Where it is.
    pub state: MessageState,
    /// Turns that ended without an end for it.
    pub tries: u32,
    /// The last incarnation in which a turn with this message failed and a retry followed; 0 for none. Acknowledgements
    /// of the message from this and earlier incarnations are ignored.
    pub failed_in: u32,
    /// Whether the sender was told that the message waits for the provider.
    pub told_to_wait: bool,
    /// When it was stored.
    pub stored: Timestamp,
}

impl Message {
    /// What the message waits for; nothing if it has ended.
    #[must_use]
    pub const fn waits(&self) -> Option<Waits> {
        match (&self.state, self.trigger) {
            (MessageState::Pending(_), false) => Some(Waits::Trigger),
            (MessageState::Pending(Due::Now), true) => Some(Waits::Agent),
            (MessageState::Pending(Due::At(at) | Due::Budget(at)), true) => Some(Waits::Time(*at)),
            (MessageState::Pending(Due::Retry(until)), true) => Some(Waits::Backoff(*until)),
            (MessageState::Claimed { .. }, _) => Some(Waits::Turn),
            (MessageState::Completed { .. } | MessageState::Failed { .. } | MessageState::Dropped { .. }, _) => None,
        }
    }
}

impl Message {
    /// Whether it waits for a budget.
    #[must_use]
    pub const fn waits_for_budget(&self) -> bool {
        self.trigger && matches!(self.state, MessageState::Pending(Due::Budget(_)))
    }

    /// Whether it is part of its agent's backlog. Messages that wait for a budget are not: they may wait for weeks, and the
    /// agent can work on others meanwhile.
    #[must_use]
    pub const fn is_backlog(&self) -> bool {
        let open = matches!(self.state, MessageState::Pending(_) | MessageState::Claimed { .. });
        self.trigger && open && !self.waits_for_budget()
    }
}

/// Why an event was dropped, or a message was or was not acted on. The word is part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// No agent is wired to the chat, and the bot was not addressed.
    UnknownChat,
    /// The bot was addressed in a chat to which no agent is wired.
    NoAgentWired,
    /// An approver decided that no one is asked about the chat.
    ChatDenied,
    /// Agents are wired to the chat, but none engaged.
    NoAgentEngaged,
    /// The text does not match the wiring's pattern.
    PatternMismatch,
    /// The bot was not addressed.
    NotMentioned,
    /// The wiring accepts only known users, and the message has no sender id.
    UnknownUserScope,
    /// The wiring accepts only known users, and the sender is not a member.
    SenderScopeNotMember,
    /// The chat accepts only known users, and the message has no sender id.
    UnknownUser,
    /// The chat is strict, and the sender is not a member.
    UnknownSenderStrict,
    /// An approval is needed, and no approver can be asked.
    ApprovalUnavailable,
    /// An approver was asked about the sender; the message waits for the decision.
    SenderHeld,
    /// An approver was asked about the chat; the message waits for the decision.
    ChannelHeld,
    /// The sender has reached the limit of messages that wait for a decision.
    HeldFull,
    /// The limit of people or chats that wait for a decision is reached.
    ApprovalsFull,
    /// The approver said no.
    Rejected,
    /// The approval expired without a decision.
    ApprovalExpired,
    /// A newer message replaced it while it waited for a decision, or the subject of the decision no longer exists.
    Superseded,
    /// The chat was removed.
    ChatRemoved,
    /// No approver for the chat: no owner or administrator can be reached.
    NobodyToAsk,
    /// The thread is muted for the agent.
    Muted,
    /// A command that no agent gets.
    CommandFiltered,
    /// A command for which the sender needs a role.
    CommandDenied,
    /// It went through too many agents since a person's message.
    TooManyHops,
    /// It answered a card.
    Answer,
    /// The agent has reached its limit of waiting messages.
    Backlog,
    /// The agent was removed.
    AgentRemoved,
    /// The same event was stored before.
    AlreadyStored,
    /// The store or the disk has no room for new work.
    StoreFull,
    /// The person is owner.
    Owner,
    /// The person administers everything.
    GlobalAdmin,
    /// The person administers the agent.
    AdminOfAgent,
    /// The person is a member.
    Member,
    /// The chat is open to everyone.
    Public,
    /// The text matches the pattern.
    PatternMatch,
    /// The bot was addressed.
    Mentioned,
    /// The agent was addressed in this thread before.
    Sticky,
    /// A stored context message became one that asks for a turn.
    RaisedToTrigger,
    /// It was, or contained, a code for pairing or for signing in to the console.
    PairingCode,
    /// It was a command that Hearth carried out itself.
    OwnCommand,
    /// A budget has no room for it.
    Budget,
}

impl Reason {
    /// The word programs see. People read [`explanation`](Self::explanation).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownChat => "unknown_chat",
            Self::NoAgentWired => "no_agent_wired",
            Self::ChatDenied => "chat_denied",
            Self::NoAgentEngaged => "no_agent_engaged",
            Self::PatternMismatch => "pattern_mismatch",
            Self::NotMentioned => "not_mentioned",
            Self::UnknownUserScope => "unknown_user_scope",
            Self::SenderScopeNotMember => "sender_scope_not_member",
            Self::UnknownUser => "unknown_user",
            Self::UnknownSenderStrict => "unknown_sender_strict",
            Self::ApprovalUnavailable => "approval_unavailable",
            Self::SenderHeld => "unknown_sender_request_approval",
            Self::ChannelHeld => "channel_request_approval",
            Self::HeldFull => "held_full",
            Self::ApprovalsFull => "approvals_full",
            Self::Rejected => "rejected",
            Self::ApprovalExpired => "approval_expired",
            Self::Superseded => "superseded",
            Self::ChatRemoved => "chat_removed",
            Self::NobodyToAsk => "nobody_to_ask",
            Self::Muted => "thread_muted",
            Self::CommandFiltered => "command_filtered",
            Self::CommandDenied => "command_denied",
            Self::TooManyHops => "too_many_hops",
            Self::Answer => "answer",
            Self::Backlog => "agent_backlog_full",
            Self::AgentRemoved => "agent_removed",
            Self::AlreadyStored => "already_stored",
            Self::StoreFull => "store_full",
            Self::Owner => "owner",
            Self::GlobalAdmin => "global_admin",
            Self::AdminOfAgent => "admin_of_agent",
            Self::Member => "member",
            Self::Public => "public_chat",
            Self::PatternMatch => "pattern_match",
            Self::Mentioned => "mentioned",
            Self::Sticky => "sticky_thread",
            Self::RaisedToTrigger => "raised_to_trigger",
            Self::PairingCode => "pairing_code",
            Self::OwnCommand => "own_command",
            Self::Budget => "budget",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A dropped inbound event: one record per drop, with its real reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drop {
    /// Time of the drop.
    pub at: Timestamp,
    /// Channel it came through.
    pub channel: ChannelName,
    /// Chat it came from.
    pub platform_id: ForeignId,
    /// Thread within the chat.
    pub thread: Option<ForeignId>,
    /// The chat, if Hearth knows it.
    pub chat: Option<ChatId>,
    /// The agent that would have received it; none if it was dropped for all agents.
    pub agent: Option<AgentId>,
    /// The platform's id of the message.
    pub platform_message: Option<ForeignId>,
    /// The person who wrote the event, if known.
    pub sender: Option<UserId>,
    /// The sender's display name.
    pub sender_name: Option<String>,
    /// Why it was dropped.
    pub reason: Reason,
}

/// Outcome of an event with a platform id. Kept so that a repeat of the event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The complete platform id, to verify keys that hold its digest.
    pub platform_message: ForeignId,
    /// When it was first stored.
    pub at: Timestamp,
    /// The messages created from it; empty if it was dropped.
    pub messages: Vec<MessageId>,
    /// Why it was dropped, if it was.
    pub refused: Option<Reason>,
    /// The decision it waits for, or waited for.
    pub held: Option<ApprovalId>,
}
