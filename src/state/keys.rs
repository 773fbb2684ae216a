//! Keys with named parts.
//!
//! A key is encoded as its fields in order. So a struct has the bytes, the order and the text of a tuple of the same
//! parts, and a field that is a struct changes nothing.

use super::key::{BadKey, KeyPart, Prefix};
use super::recall::keys::Term;
use super::scope_key::ScopeKey;
use super::text_key::{Digest, ForeignKey, RouteKey, Text};
use crate::model::address::{Address, ChannelName, ForeignId, UserId};
use crate::model::entity::Role;
use crate::model::group::StatePart;
use crate::model::id::{AgentId, ApprovalId, BodyId, ChatId, MessageId, OutboundId, SessionId, SkipId, TaskId};
use crate::model::incarnation::IncarnationId;
use crate::model::message::Message;
use crate::model::recall::{RecallScope, SaidId};
use crate::model::session::{Recency, Session};
use crate::model::time::Day;
use crate::model::workspace::{Discriminator, Fingerprint, WorkspaceKey};
use crate::model::{Timestamp, Turn};

/// Implements [`KeyPart`] for a struct: its fields in order. The types after `in` are its prefixes.
macro_rules! key_parts {
    ($name:ident { $($field:ident: $part:ty),+ } $(in $($prefix:ty),+)?) => {
        impl KeyPart for $name {
            const MAX_BYTES: usize = 0 $(+ <$part as KeyPart>::MAX_BYTES)+;

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.encode(out);)+
            }

            fn decode(bytes: &mut &[u8]) -> Result<Self, BadKey> {
                Ok(Self { $($field: KeyPart::decode(bytes)?),+ })
            }

            fn show(&self, parts: &mut Vec<String>) {
                $(self.$field.show(parts);)+
            }
        }

        $($(impl Prefix<$name> for $prefix {})+)?
    };
}

/// Declares key structs and implements [`KeyPart`] for them. Most fields are described by their types.
macro_rules! keys {
    ($($(#[$about:meta])+ $name:ident {
        $($(#[$field_about:meta])* $field:ident: $part:ty,)+
    } $(in $($prefix:ty),+)?;)+) => {$(
        $(#[$about])+
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        pub struct $name {
            $($(#[$field_about])* pub $field: $part,)+
        }

        key_parts!($name { $($field: $part),+ } $(in $($prefix),+)?);
    )+};
}

keys! {
    /// An agent's session for a route.
    AgentRouteKey {
        agent: AgentId,
        route: RouteKey,
    } in AgentId;
    /// An agent in a chat.
    AgentChatKey {
        agent: AgentId,
        chat: ChatId,
    } in AgentId;
    /// A thread under the name that an agent's state file has for it.
    StateMuteKey {
        agent: AgentId,
        name: ForeignKey,
    } in AgentId;
    /// An id that an agent's skills have seen.
    SeenIdKey {
        agent: AgentId,
        id: ForeignKey,
    } in AgentId;
    /// The position of an id that an agent's skills have seen.
    SeenPositionKey {
        agent: AgentId,
        position: u64,
    } in AgentId;
    /// A reply to a request of a session's run.
    ReplyKey {
        session: SessionId,
        /// The run's name for the request.
        request: Text,
    } in SessionId;
    /// An outgoing message under the id that its agent gave it.
    WireKey {
        /// The session of the agent.
        session: SessionId,
        id: Text,
    } in SessionId;
    /// A person.
    PersonKey {
        /// Name of the channel.
        channel: ForeignKey,
        /// The adapter's id of the person.
        handle: ForeignKey,
    };
    /// A chat on its channel.
    ChatKey {
        /// Name of the channel.
        channel: ForeignKey,
        /// The platform's id of the chat.
        chat: ForeignKey,
    } in ForeignKey;
    /// A host and port, and an agent.
    HostKey {
        agent: AgentId,
        /// The host and port.
        host: Text,
    } in AgentId;
    /// A thread, or the messages of a chat outside of threads.
    ThreadKey {
        chat: ChatKey,
        /// The platform's id of the thread.
        thread: Option<ForeignKey>,
    };
    /// A thread and an agent.
    AgentThreadKey {
        agent: AgentId,
        thread: ThreadKey,
    } in AgentId, (AgentId, ChatKey);
    /// A role of a person.
    GrantKey {
        person: PersonKey,
        role: Role,
    } in PersonKey;
    /// A role of a person, ordered by role and time.
    RoleHolderKey {
        role: Role,
        /// When it was granted.
        at: Timestamp,
        person: PersonKey,
    } in Role;
    /// A membership.
    MemberKey {
        agent: AgentId,
        person: PersonKey,
    } in AgentId;
    /// An event of a platform.
    SeenKey {
        chat: ChatKey,
        /// The platform's id of the message.
        message: ForeignKey,
    };
    /// An outgoing message in its queue.
    QueueKey {
        to: ThreadKey,
        turn: Turn,
        outbound: OutboundId,
    } in ThreadKey;
    /// An agent that is wired to a chat.
    #[derive(Copy)]
    WiringKey {
        chat: ChatId,
        agent: AgentId,
    } in ChatId;
    /// A destination of an agent.
    DestinationKey {
        agent: AgentId,
        /// The agent's name for it.
        name: Text,
    } in AgentId;
    /// A message held for an approval.
    #[derive(Copy)]
    HeldKey {
        approval: ApprovalId,
        /// The message's body.
        body: BodyId,
    } in ApprovalId;
    /// An occurrence of a task.
    #[derive(Copy)]
    OccurrenceId {
        task: TaskId,
        at: Timestamp,
    } in TaskId;
    /// A skip of a skill, or of a file of a skill.
    SkillKey {
        agent: AgentId,
        /// The skill, or the skill and the digest of the file.
        skill: Text,
        skip: SkipId,
    } in AgentId, (AgentId, Text);
    /// A field of an agent group's state file.
    StateFieldKey {
        agent: AgentId,
        /// The part of the file.
        part: StatePart,
        /// The field's name.
        name: ForeignKey,
    } in AgentId;
    /// A message that an agent group has begun to answer.
    PendingResponseKey {
        agent: AgentId,
        /// The id of the message.
        message: ForeignKey,
    } in AgentId;
    /// The subject of an approval about a sender.
    SenderKey {
        chat: ChatId,
        sender: PersonKey,
    } in ChatId;
    /// An approval about a person.
    PersonApprovalKey {
        person: PersonKey,
        approval: ApprovalId,
    } in PersonKey;
    /// An approval in the list of its approver.
    ApproverKey {
        approver: PersonKey,
        turn: Turn,
        approval: ApprovalId,
    } in (PersonKey, Turn);
    /// The message of a prompt in its chat.
    PromptKey {
        chat: ChatKey,
        outbound: OutboundId,
    } in ChatKey;
    /// The owner of a quota of bytes of held files: a person, or a chat if the sender is unknown.
    HolderKey {
        /// Name of the channel.
        channel: ForeignKey,
        /// The id of the person or of the chat.
        holder: ForeignKey,
    };
}

keys! {
    /// A workspace, found by a digest of its path or of its directory's identity.
    #[derive(Copy)]
    WorkspaceDigestKey {
        digest: Digest,
        workspace: WorkspaceKey,
    } in Digest;
    /// An event of a workspace.
    #[derive(Copy)]
    WorkspaceEventKey {
        workspace: WorkspaceKey,
        /// The event's number.
        number: u64,
    } in WorkspaceKey;
    /// A session in its workspace.
    #[derive(Copy)]
    SessionKey {
        workspace: WorkspaceKey,
        session: SessionId,
    } in WorkspaceKey;
    /// A session in its workspace, ordered by its last change.
    #[derive(Copy)]
    RecencyKey {
        workspace: WorkspaceKey,
        /// The session's last change.
        recency: Recency,
        session: SessionId,
    } in WorkspaceKey;
    /// The label of a session in its workspace.
    LabelKey {
        workspace: WorkspaceKey,
        label: Text,
    };
    /// A session that begins with the records of another one.
    #[derive(Copy)]
    BaseKey {
        /// The session that has the records.
        parent: SessionId,
        /// The session that begins with them.
        child: SessionId,
    } in SessionId;
    /// A revision of a session.
    #[derive(Copy)]
    RevisionKey {
        session: SessionId,
        /// The revision's number.
        revision: u32,
    } in SessionId;
    /// An earlier revision that begins with the records of another session.
    #[derive(Copy)]
    RevisionBaseKey {
        /// The session that has the records.
        parent: SessionId,
        /// The revision that begins with them.
        child: RevisionKey,
    } in SessionId;
    /// A record of a session.
    #[derive(Copy)]
    RecordKey {
        of: RevisionKey,
        /// The record's number.
        number: u64,
    } in RevisionKey, SessionId;
    /// An entry of the ledger of costs.
    #[derive(Copy)]
    SpendKey {
        /// The message whose acknowledgement ended the turn, or that the agent was working on.
        message: MessageId,
        incarnation: u32,
        /// Number of the call within the run; 0 is the report of the turn.
        call: u64,
    } in MessageId;
    /// The total of a day.
    SpendTotalKey {
        /// What it is kept for.
        scope: ScopeKey,
        day: Day,
    } in ScopeKey;
    /// A message at its position in a session.
    #[derive(Copy)]
    InboxKey {
        session: SessionId,
        seq: u64,
    } in SessionId;
    /// An outgoing message of an agent by its number.
    #[derive(Copy)]
    SentKey {
        session: SessionId,
        /// The agent's number.
        number: u64,
    } in SessionId;
    /// A file that sessions were imported from.
    #[derive(Copy)]
    ImportKey {
        /// Digest of the path of the session's own file.
        path: Digest,
        /// Digest of the file's content.
        content: Digest,
    } in Digest;
}

keys! {
    /// A text in the index of what was said.
    #[derive(Copy)]
    RecallKey {
        /// Where it is found.
        scope: RecallScope,
        id: SaidId,
    } in RecallScope;
    /// A segment of that index.
    #[derive(Copy)]
    RecallSegmentKey {
        /// Where its texts are found.
        scope: RecallScope,
        segment: u32,
    } in RecallScope;
    /// The first term of a row of a segment.
    RecallTermKey {
        of: RecallSegmentKey,
        term: Term,
        /// The number of the first text with it in this row.
        at: u32,
    } in RecallSegmentKey;
}

key_parts!(WorkspaceKey { fingerprint: Fingerprint, discriminator: Discriminator } in Fingerprint);
key_parts!(IncarnationId { session: SessionId, number: u32 } in SessionId);
key_parts!(Recency { at: Timestamp, order: u64 });

impl PersonKey {
    /// Key of a person.
    #[must_use]
    pub fn of(user: &UserId) -> Self {
        Self { channel: ForeignKey::of(user.channel()), handle: ForeignKey::of(user.handle()) }
    }
}

impl ChatKey {
    /// Key of a chat.
    #[must_use]
    pub fn of(channel: &ChannelName, platform_id: &ForeignId) -> Self {
        Self { channel: ForeignKey::of(channel), chat: ForeignKey::of(platform_id) }
    }
}

impl ThreadKey {
    /// Key of an address.
    #[must_use]
    pub fn of(address: &Address) -> Self {
        let chat = ChatKey::of(&address.channel, &address.platform_id);
        Self { chat, thread: address.thread.as_ref().map(ForeignKey::of) }
    }
}

impl SeenKey {
    /// Key of an event at an address.
    #[must_use]
    pub fn of(source: &Address, message: &ForeignId) -> Self {
        Self { chat: ChatKey::of(&source.channel, &source.platform_id), message: ForeignKey::of(message) }
    }
}

impl HolderKey {
    /// Key of a person.
    #[must_use]
    pub fn person(user: &UserId) -> Self {
        let PersonKey { channel, handle } = PersonKey::of(user);
        Self { channel, holder: handle }
    }

    /// Key of a chat.
    #[must_use]
    pub fn chat(channel: &ChannelName, platform_id: &ForeignId) -> Self {
        Self { channel: ForeignKey::of(channel), holder: ForeignKey::of(platform_id) }
    }
}

impl PromptKey {
    /// Key of the message of a prompt.
    #[must_use]
    pub fn of(to: &Address, outbound: OutboundId) -> Self {
        Self { chat: ChatKey::of(&to.channel, &to.platform_id), outbound }
    }
}

impl InboxKey {
    /// Key of a message.
    #[must_use]
    pub const fn of(message: &Message) -> Self {
        Self { session: message.session, seq: message.seq }
    }
}

impl RecencyKey {
    /// Key of a session.
    #[must_use]
    pub fn of(key: &SessionKey, session: &Session) -> Self {
        Self { workspace: key.workspace, recency: session.recency(), session: key.session }
    }
}
