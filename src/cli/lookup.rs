//! Row lookups for people: names instead of ids, and references as people write them.

use super::labels;
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::entity::Chat;
use crate::model::id::{AgentId, ChatId, SessionId};
use crate::model::session::{ChatSession, Session};
use crate::state::{self, ChatKey, Read, SessionKey, Tables};

/// An agent's folder, or its id if the row is gone.
pub(super) fn folder(db: &Tables, txn: &Read<'_>, id: AgentId) -> Result<String, state::Error> {
    Ok(db.agents.get(txn, &id)?.map_or_else(|| id.to_string(), |agent| agent.folder.to_string()))
}

/// The folder of a session's agent.
pub(super) fn folder_of_session(db: &Tables, txn: &Read<'_>, id: SessionId) -> Result<String, state::Error> {
    match session(db, txn, id)? {
        Some(session) => folder(db, txn, session.agent),
        None => Ok(id.to_string()),
    }
}

/// A session of an agent.
pub(super) fn session(db: &Tables, txn: &Read<'_>, id: SessionId) -> Result<Option<ChatSession>, state::Error> {
    let Some(workspace) = db.sessions_by_id.get(txn, &id)? else { return Ok(None) };
    Ok(db.sessions.get(txn, &SessionKey { workspace, session: id })?.and_then(Session::chat))
}

/// A reference to a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChatRef {
    /// `mg7`.
    Id(ChatId),
    /// `<channel>/<platform id>`.
    Place(ChannelName, ForeignId),
}

impl std::str::FromStr for ChatRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        let not_a_chat =
            || format!("`{text}` is not a chat; write an id like mg7, or channel/platform-id like telegram/123");
        let (channel, platform_id) = text.split_once('/').ok_or_else(not_a_chat)?;
        if platform_id.is_empty() {
            return Err(not_a_chat());
        }
        let channel = ChannelName::new(channel).map_err(|error| error.to_string())?;
        let platform_id = ForeignId::new("the platform id", platform_id).map_err(|error| error.to_string())?;
        Ok(Self::Place(channel, platform_id))
    }
}

impl std::fmt::Display for ChatRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Place(channel, platform_id) => write!(f, "{channel}/{platform_id}"),
        }
    }
}

/// A chat that is not archived.
pub(super) fn chat(db: &Tables, txn: &Read<'_>, which: &ChatRef) -> Result<Option<(ChatId, Chat)>, state::Error> {
    let (id, place) = match which {
        ChatRef::Id(id) => (Some(*id), None),
        ChatRef::Place(channel, platform_id) => {
            let key = ChatKey::of(channel, platform_id);
            (db.chats_by_address.get(txn, &key)?, Some((channel, platform_id)))
        }
    };
    let Some(id) = id else { return Ok(None) };
    let found = db.chats.get(txn, &id)?.filter(|chat| chat.archived.is_none());
    // A key may hold only a digest of the id.
    let same = |chat: &Chat| place.is_none_or(|place| place == (&chat.channel, &chat.platform_id));
    Ok(found.filter(same).map(|chat| (id, chat)))
}

/// A chat by its address.
pub(super) fn chat_at(db: &Tables, txn: &Read<'_>, at: &Address) -> Result<Option<(ChatId, Chat)>, state::Error> {
    chat(db, txn, &ChatRef::Place(at.channel.clone(), at.platform_id.clone()))
}

/// `telegram/123`, and the thread if there is one.
pub(super) fn place(address: &Address) -> String {
    let thread = address.thread.as_ref().map(|thread| format!(" (thread {thread})")).unwrap_or_default();
    format!("{}/{}{thread}", address.channel, address.platform_id)
}

/// A chat as people know it: by its name, or else by its address.
pub(super) fn chat_words(chat: &Chat) -> String {
    match &chat.name {
        Some(name) if name == chat.channel.as_str() => name.clone(),
        Some(name) => format!("{} ({})", labels::excerpt(name), chat.channel),
        None => format!("{}/{}", chat.channel, chat.platform_id),
    }
}

/// The chat at an address and the thread, as people know them.
pub(super) fn place_words(db: &Tables, txn: &Read<'_>, at: &Address) -> Result<String, state::Error> {
    let Some((_, chat)) = chat_at(db, txn, at)? else { return Ok(place(at)) };
    let thread = at.thread.as_ref().map(|thread| format!(", thread {thread}")).unwrap_or_default();
    Ok(format!("{}{thread}", chat_words(&chat)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chats_are_named_by_id_or_by_place() {
        for (text, shown) in [("mg7", "mg7"), ("telegram/-100:5", "telegram/-100:5"), ("a/b/c", "a/b/c")] {
            assert_eq!(text.parse::<ChatRef>().unwrap().to_string(), shown);
        }
        assert_eq!("mg7".parse::<ChatRef>().unwrap(), ChatRef::Id(ChatId::new(7)));
        for text in ["", "telegram", "telegram/", "/1"] {
            assert!(text.parse::<ChatRef>().is_err(), "{text}");
        }
    }
}
