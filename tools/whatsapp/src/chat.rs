//! Chats, people and messages of WhatsApp, as Hearth names them.

use std::fmt;

use whatsapp_rust::{Jid, Server};

/// Longest number or id of a person or group in bytes.
const USER: usize = 40;
/// Longest id of a message in bytes.
const ID: usize = 64;

/// A chat: a person, or a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Chat {
    /// A person whose number WhatsApp shows. It is the same in the channel of the Cloud API.
    Number(String),
    /// A person who hides their number: WhatsApp's id.
    Hidden(String),
    Group(String),
}

impl Chat {
    /// Reads Hearth's id: `15550000001`, `123@lid`, `123@g.us`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (user, chat): (_, fn(String) -> Self) = match text.split_once('@') {
            None => (text, Self::Number),
            Some((user, "lid")) => (user, Self::Hidden),
            Some((user, "g.us")) => (user, Self::Group),
            Some(_) => return None,
        };
        let is_sign = |byte: u8| byte.is_ascii_digit() || (text.ends_with("@g.us") && byte == b'-');
        ((5..=USER).contains(&user.len()) && user.bytes().all(is_sign)).then(|| chat(user.to_owned()))
    }

    /// The chat of an address. Devices of a person are the same person.
    pub(crate) fn of(jid: &Jid) -> Option<Self> {
        let user = jid.user_base();
        let text = match jid.server {
            Server::Pn | Server::Legacy | Server::Hosted => user.to_owned(),
            Server::Lid | Server::HostedLid => format!("{user}@lid"),
            Server::Group => format!("{user}@g.us"),
            _ => return None,
        };
        Self::read(&text)
    }

    pub(crate) fn jid(&self) -> Jid {
        match self {
            Self::Number(user) => Jid::pn(user.as_str()),
            Self::Hidden(user) => Jid::lid(user.as_str()),
            Self::Group(user) => Jid::group(user.as_str()),
        }
    }

    pub(crate) fn is_group(&self) -> bool {
        matches!(self, Self::Group(_))
    }
}

impl fmt::Display for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(user) => f.write_str(user),
            Self::Hidden(user) => write!(f, "{user}@lid"),
            Self::Group(user) => write!(f, "{user}@g.us"),
        }
    }
}

/// The id of a message: WhatsApp's, which its author chose, and the author's address, unless that is the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Id {
    pub(crate) id: String,
    pub(crate) author: Option<String>,
}

impl Id {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (id, author) = match text.split_once('/') {
            Some((id, author)) => {
                let jid: Jid = author.parse().ok()?;
                Chat::of(&jid).filter(|author| !author.is_group())?;
                (id, Some(jid.to_string()))
            }
            None => (text, None),
        };
        is_id(id).then(|| Self { id: id.to_owned(), author })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.author {
            Some(author) => write!(f, "{}/{author}", self.id),
            None => f.write_str(&self.id),
        }
    }
}

/// Whether a text has the form of a message's id. A sender can choose any other, too.
pub(crate) fn is_id(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:=+".contains(&byte);
    (1..=ID).contains(&text.len()) && text.bytes().all(is_sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_groups_are_told_apart_by_their_ids() {
        for (text, address) in [
            ("15550000001", "15550000001@s.whatsapp.net"),
            ("100000012345678@lid", "100000012345678@lid"),
            ("120363040237990503@g.us", "120363040237990503@g.us"),
            ("15550000001-1600000000@g.us", "15550000001-1600000000@g.us"),
        ] {
            let chat = Chat::read(text).unwrap();
            assert_eq!((chat.to_string().as_str(), chat.jid().to_string().as_str()), (text, address));
            assert_eq!(Chat::of(&chat.jid()), Some(chat));
        }
        for text in ["", "+15550001111", "1@lid", "status@broadcast", "15550000001@s.whatsapp.net", "a/../b", "1-2@lid"]
        {
            assert_eq!(Chat::read(text), None, "{text}");
        }
        assert_eq!(Chat::read(&"1".repeat(41)), None);
        let device: Jid = "15550000001:7@s.whatsapp.net".parse().unwrap();
        assert_eq!(Chat::of(&device), Chat::read("15550000001"));
        assert_eq!(Chat::of(&"status@broadcast".parse().unwrap()), None);
    }

    #[test]
    fn ids_of_messages_have_an_author_unless_it_is_the_bot() {
        for text in ["3EB0AB", "3EB0AB/100000012345678@lid", "3EB0AB/15550000001@s.whatsapp.net"] {
            assert_eq!(Id::read(text).map(|id| id.to_string()).as_deref(), Some(text));
        }
        for text in ["", "a b", "a/", "a/x", "a/120363040237990503@g.us", "/15550000001@s.whatsapp.net"] {
            assert_eq!(Id::read(text), None, "{text}");
        }
    }
}
