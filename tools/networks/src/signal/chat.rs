//! Chats, people and messages of Signal, as Hearth names them.

use serde_json::{Map, Value, json};

/// A chat: a person, or a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Chat {
    /// Its id is that of the person.
    Person(String),
    /// Its id is Signal's, in base64.
    Group(String),
}

impl Chat {
    pub(super) fn read(text: &str) -> Option<Self> {
        person(text).map(Self::Person).or_else(|| is_group(text).then(|| Self::Group(text.to_owned())))
    }

    pub(super) fn id(&self) -> &str {
        match self {
            Self::Person(id) | Self::Group(id) => id,
        }
    }

    /// The parameters that name it in a request.
    pub(super) fn parameters(&self) -> Map<String, Value> {
        match self {
            Self::Person(id) => Map::from_iter([("recipient".to_owned(), json!([id]))]),
            Self::Group(id) => Map::from_iter([("groupId".to_owned(), json!(id))]),
        }
    }
}

/// The id of a person, in lower case. Numbers and names can change hands and are none.
pub(super) fn person(text: &str) -> Option<String> {
    let id = text.to_ascii_lowercase();
    let parts: Vec<&str> = id.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let is_hex = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (lengths == [8, 4, 4, 4, 12] && is_hex).then_some(id)
}

/// Whether a text has the form of a group's id.
fn is_group(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    (20..=100).contains(&text.len()) && text.bytes().all(is_base64)
}

/// The id of a message: the time at which its author sent it, in milliseconds, and the author, unless that is the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) timestamp: u64,
    pub(super) author: Option<String>,
}

impl Id {
    pub(super) fn read(text: &str) -> Option<Self> {
        let (timestamp, author) = match text.split_once('.') {
            Some((timestamp, author)) => (timestamp, Some(person(author)?)),
            None => (text, None),
        };
        Some(Self { timestamp: timestamp.parse().ok().filter(|timestamp| *timestamp > 0)?, author })
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.author {
            Some(author) => write!(f, "{}.{author}", self.timestamp),
            None => write!(f, "{}", self.timestamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: &str = "aaaaaaaa-0000-4000-8000-000000000001";

    #[test]
    fn people_and_groups_are_told_apart_by_their_ids() {
        assert_eq!(Chat::read(&ANN.to_uppercase()), Some(Chat::Person(ANN.to_owned())));
        let group = "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXowMTIzNDU=";
        assert_eq!(
            Chat::read(group).map(|chat| chat.parameters()),
            Some(Map::from_iter([("groupId".into(), json!(group))]))
        );
        for text in [
            "",
            "+15550001111",
            "PNI:aaaaaaaa-0000-4000-8000-000000000001",
            "a/../b",
            "no such chat/../\u{1f4a9}",
            &"A".repeat(101),
        ] {
            assert_eq!(Chat::read(text), None, "{text}");
        }
    }

    #[test]
    fn ids_of_messages_have_an_author_unless_it_is_the_bot() {
        for text in ["1795737767488", &format!("1795737767488.{ANN}")] {
            assert_eq!(Id::read(text).map(|id| id.to_string()).as_deref(), Some(text));
        }
        for text in ["", "0", "x", "-1", "1.", "1.x", &format!(".{ANN}")] {
            assert_eq!(Id::read(text), None, "{text}");
        }
    }
}
