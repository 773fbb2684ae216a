//! Messages on their way to an agent, and what was refused.

use serde::{Deserialize, Serialize};

use super::address::{Address, ChannelName, ForeignId, UserId};
use super::content::{Attachment, Content};
use super::id::{AgentId, ApprovalId, BodyId, ChatId, MessageId, SessionId};
use super::task::{Gated, Slot};
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
    /// Made by nothing; its number in stores is nobody else's.
    Webhook,
    /// Something Hearth itself says to the agent.
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

/// What was said, once per event however many agents hear it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// The payload.
    pub content: Content,
    /// What kind of message.
    pub kind: MessageKind,
    /// When it was said, by the platform's clock.
    pub said: Timestamp,
    /// Chat and thread it was said in; none for what Hearth says.
    pub source: Option<Address>,
    /// The platform's id of it; none when it gave none.
    pub platform_message: Option<ForeignId>,
    /// The person who said it.
    pub sender: Option<UserId>,
    /// Files that came with it.
    pub attachments: Vec<Attachment>,
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
}

/// How a message ended well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Completion {
    /// A turn took it in.
    Answered,
    /// It was context beyond the agent's cap; stored, never shown.
    ContextCapped,
    /// It was a task whose script said that there is nothing to do, or failed, as the text says; the agent was not woken.
    Gated(Gated),
}

/// Where a message is: exactly one of these at any time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageState {
    /// Waits for a turn. A message that does not trigger waits for one that does.
    Pending(Due),
    /// An incarnation works on it.
    Claimed {
        /// Which.
        incarnation: u32,
        /// Since when.
        since: Awake,
    },
    /// Done.
    Completed {
        /// How.
        how: Completion,
        /// When.
        at: Timestamp,
    },
    /// Given up; the person was told.
    Failed {
        /// Why.
        error: String,
        /// When.
        at: Timestamp,
    },
    /// Not wanted any more.
    Dropped {
        /// Why.
        reason: Reason,
        /// When.
        at: Timestamp,
    },
}

/// Where a message between agents comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Session that said it.
    pub session: SessionId,
    /// Messages between agents since a person spoke, this one included.
    pub count: u32,
}

/// One message of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Session it is in.
    pub session: SessionId,
    /// Its agent; repeated from the session so that counts per agent need no second read.
    pub agent: AgentId,
    /// Position in the session; even.
    pub seq: u64,
    /// What it says.
    pub body: BodyId,
    /// Whether it asks for a turn.
    pub trigger: bool,
    /// Where an answer goes unless the agent says otherwise.
    pub reply: Option<Address>,
    /// The agent's session that said it, and how many agents it went through since a person spoke; none for others.
    pub from: Option<Hop>,
    /// The occurrence of a task that it is.
    pub slot: Option<Slot>,
    /// Where it is.
    pub state: MessageState,
    /// Turns that ended without an end for it.
    pub tries: u32,
    /// The incarnation in which a turn with it failed last so that it is tried again; 0 for none. What this one and earlier
    /// ones say of it does not count any more.
    pub failed_in: u32,
    /// Whether somebody was told that it waits for the provider.
    pub told_to_wait: bool,
    /// When it was stored.
    pub stored: Timestamp,
}

/// Why something was refused or not acted on. The word is part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// Nobody listens in the chat, and the bot was not addressed.
    UnknownChat,
    /// The bot was addressed in a chat in which no agent listens.
    NoAgentWired,
    /// Somebody decided that the chat is not to be asked about.
    ChatDenied,
    /// Agents listen, none took it.
    NoAgentEngaged,
    /// The text does not match the wiring's pattern.
    PatternMismatch,
    /// The bot was not addressed.
    NotMentioned,
    /// The wiring wants known people, and the message names nobody.
    UnknownUserScope,
    /// The wiring wants known people, and the sender is not a member.
    SenderScopeNotMember,
    /// The chat wants known people, and the message names nobody.
    UnknownUser,
    /// The chat is strict, and the sender is not a member.
    UnknownSenderStrict,
    /// Somebody would have to be asked, and nobody can be.
    ApprovalUnavailable,
    /// Somebody was asked about the sender: the message waits for the answer.
    SenderHeld,
    /// Somebody was asked about the chat: the message waits for the answer.
    ChannelHeld,
    /// As many messages of the sender wait for an answer as may wait.
    HeldFull,
    /// As many people or chats wait for an answer as may wait.
    ApprovalsFull,
    /// The answer was no.
    Rejected,
    /// Nobody answered in time.
    ApprovalExpired,
    /// A newer message took its place while an answer was waited for, or what it waited for is not any more.
    Superseded,
    /// The chat was removed.
    ChatRemoved,
    /// Nobody could be asked about the chat: no owner or administrator can be reached.
    NobodyToAsk,
    /// The thread is muted for the agent.
    Muted,
    /// A command that no agent gets.
    CommandFiltered,
    /// A command for which the sender needs a role.
    CommandDenied,
    /// It went through too many agents since a person spoke.
    TooManyHops,
    /// It was an answer to a card.
    Answer,
    /// The agent has as many waiting messages as it may have.
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
    /// The chat is open to everybody.
    Public,
    /// The text matches the pattern.
    PatternMatch,
    /// The bot was addressed.
    Mentioned,
    /// The agent was addressed in this thread before.
    Sticky,
    /// A stored context message became one that asks for a turn.
    RaisedToTrigger,
}

impl Reason {
    /// The word people and programs see.
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
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refused inbound event: one record per refusal, with its real reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drop {
    /// When.
    pub at: Timestamp,
    /// Channel it came through.
    pub channel: ChannelName,
    /// Chat it came from.
    pub platform_id: ForeignId,
    /// The chat, if Hearth knows it.
    pub chat: Option<ChatId>,
    /// The agent that would have heard it; none when it failed for all.
    pub agent: Option<AgentId>,
    /// The platform's id of the message.
    pub platform_message: Option<ForeignId>,
    /// Who said it.
    pub sender: Option<UserId>,
    /// How they call themselves.
    pub sender_name: Option<String>,
    /// Why.
    pub reason: Reason,
}

/// What became of an event with a platform id: kept so that the same event twice changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The complete platform id, to verify keys that hold its digest.
    pub platform_message: ForeignId,
    /// When it was first stored.
    pub at: Timestamp,
    /// The messages it became; none when it was refused.
    pub messages: Vec<MessageId>,
    /// Why it was refused, when it was.
    pub refused: Option<Reason>,
    /// The decision it waits for, or waited for.
    pub held: Option<ApprovalId>,
}
