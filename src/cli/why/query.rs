//! The subject of `hearth why`, and where to search.

use crate::model::address::{ChannelName, ForeignId};
use crate::model::id::{ApprovalId, BodyId, DropId, MessageId, OutgoingId, QuestionId, SessionId, SkipId, TaskId};
use crate::state::{ChatKey, ForeignKey, SeenKey};

/// The subject that the user asks about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Query {
    /// An id of Hearth.
    Id(HearthId),
    /// The platform's id of a message.
    Platform(ForeignId),
    /// Words in a message.
    Words(String),
    /// The last event.
    Latest,
}

/// An id of a subject that can be explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HearthId {
    /// A message of a session.
    Message(MessageId),
    /// An outgoing message.
    Answer(OutgoingId),
    /// A dropped event.
    Dropped(DropId),
    /// A scheduled task.
    Task(TaskId),
    Approval(ApprovalId),
    /// A question of an agent.
    Question(QuestionId),
    Session(SessionId),
    Skip(SkipId),
    /// A message that waits for an approval, by the id that searches show.
    Held(BodyId),
}

impl HearthId {
    /// Parses an id; none if it is not one of these.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let message = || text.parse().map(Self::Message).ok();
        let answer = || text.parse().map(Self::Answer).ok();
        let dropped = || text.parse().map(Self::Dropped).ok();
        let task = || text.parse().map(Self::Task).ok();
        let approval = || text.parse().map(Self::Approval).ok();
        let question = || text.parse().map(Self::Question).ok();
        let session = || text.parse().map(Self::Session).ok();
        let skip = || text.parse().map(Self::Skip).ok();
        let held = || text.parse().map(Self::Held).ok();
        let event = message().or_else(answer).or_else(dropped).or_else(held);
        event.or_else(task).or_else(approval).or_else(question).or_else(session).or_else(skip)
    }
}

impl std::fmt::Display for HearthId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Message(id) => id.fmt(f),
            Self::Answer(id) => id.fmt(f),
            Self::Dropped(id) => id.fmt(f),
            Self::Task(id) => id.fmt(f),
            Self::Approval(id) => id.fmt(f),
            Self::Question(id) => id.fmt(f),
            Self::Session(id) => id.fmt(f),
            Self::Skip(id) => id.fmt(f),
            Self::Held(id) => id.fmt(f),
        }
    }
}

/// Where a search looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everywhere.
    #[default]
    All,
    /// In the chats of a channel.
    Channel(ForeignKey),
    Chat(ChatKey),
}

impl Scope {
    /// The chats of a channel.
    pub(super) fn channel(name: &ChannelName) -> Self {
        Self::Channel(ForeignKey::of(name))
    }

    /// Whether a chat belongs to it.
    pub(super) fn has(&self, chat: &ChatKey) -> bool {
        match self {
            Self::All => true,
            Self::Channel(channel) => chat.channel == *channel,
            Self::Chat(only) => chat == only,
        }
    }

    /// A key that sorts before those of its events.
    pub(super) fn before_first(&self) -> SeenKey {
        let least = ForeignKey::least;
        let chat = match self {
            Self::All => ChatKey { channel: least(), chat: least() },
            Self::Channel(channel) => ChatKey { channel: channel.clone(), chat: least() },
            Self::Chat(chat) => chat.clone(),
        };
        SeenKey { chat, message: least() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_platform_ids() {
        for (text, id) in [
            ("ms12", HearthId::Message(MessageId::new(12))),
            ("dr3", HearthId::Dropped(DropId::new(3))),
            ("ta1", HearthId::Task(TaskId::new(1))),
            ("ap1", HearthId::Approval(ApprovalId::new(1))),
            ("qu4", HearthId::Question(QuestionId::new(4))),
            ("se8", HearthId::Session(SessionId::new(8))),
            ("sk2", HearthId::Skip(SkipId::new(2))),
        ] {
            assert_eq!(HearthId::parse(text), Some(id));
        }
        for text in ["5f0c91ab-mo17", "mo5"] {
            assert!(matches!(HearthId::parse(text), Some(HearthId::Answer(_))), "{text}");
        }
        for text in ["", "12", "ms", "MS12", "ms012", "ta-1", "ap1 ", "ag1", "latest", "se99999999999999999999"] {
            assert_eq!(HearthId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_scope_has_its_chats() {
        let key = |channel: &str, chat: &str| {
            ChatKey::of(&ChannelName::new(channel).unwrap(), &ForeignId::new("chat", chat).unwrap())
        };
        let channel = Scope::channel(&ChannelName::new("telegram").unwrap());
        let chat = Scope::Chat(key("telegram", "1"));
        for (chat_key, in_channel, in_chat) in
            [(key("telegram", "1"), true, true), (key("telegram", "2"), true, false), (key("hook", "1"), false, false)]
        {
            assert!(Scope::All.has(&chat_key));
            assert_eq!((channel.has(&chat_key), chat.has(&chat_key)), (in_channel, in_chat), "{chat_key:?}");
        }
    }
}
