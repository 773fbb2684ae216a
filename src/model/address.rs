//! Identifiers that come from outside: channels, chats, threads, users.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::short::Short;

/// An id given by a platform: any text up to 1,024 bytes without control characters. May be empty where the platform
/// gives none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ForeignId(Short);

/// A channel instance: a foreign id that is not empty. It is the namespace of the chats and users that come through it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ChannelName(Short);

/// A person on one channel: `<channel>:<id as the adapter gave it>`. Nothing but an adapter's sender id makes one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UserId {
    channel: ChannelName,
    handle: ForeignId,
}

/// A chat on a channel, or a thread in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    /// The channel instance that the chat belongs to.
    pub channel: ChannelName,
    /// Chat, as its adapter names it.
    pub platform_id: ForeignId,
    /// Thread within the chat.
    pub thread: Option<ForeignId>,
}

/// Why a text cannot be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum BadName {
    /// Over [`ForeignId::MAX_BYTES`].
    #[error("{what} has {bytes} bytes, at most {max} are accepted", max = ForeignId::MAX_BYTES)]
    TooLong { what: &'static str, bytes: usize },
    /// NUL, newline and the like.
    #[error("{what} contains the control character U+{code:04X}", code = u32::from(*.found))]
    Control { what: &'static str, found: char },
    /// Nothing where something is needed.
    #[error("{what} is empty")]
    Empty { what: &'static str },
    /// Not `<channel>:<id>`.
    #[error("`{text}` is not a user id like telegram:123 (channel, colon, the sender's id)")]
    NotAUser { text: String },
}

impl ForeignId {
    /// Longest id accepted (the platforms' own limits are far below).
    pub const MAX_BYTES: usize = 1_024;

    /// Checks an id; `what` names it in the error.
    ///
    /// # Errors
    /// [`BadName`] if it is too long or has control characters.
    pub fn new(what: &'static str, text: impl Into<Short>) -> Result<Self, BadName> {
        let text = text.into();
        if text.len() > Self::MAX_BYTES {
            return Err(BadName::TooLong { what, bytes: text.len() });
        }
        if let Some(found) = text.chars().find(|c| c.is_control()) {
            return Err(BadName::Control { what, found });
        }
        Ok(Self(text))
    }

    /// Like [`Self::new`], but an empty text is no id at all.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn optional(what: &'static str, text: Option<String>) -> Result<Option<Self>, BadName> {
        text.filter(|t| !t.is_empty()).map(|t| Self::new(what, t)).transpose()
    }

    /// The id as the network wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ChannelName {
    /// Checks a channel name.
    ///
    /// # Errors
    /// [`BadName`] as for foreign ids, and when it is empty.
    pub fn new(text: impl Into<Short>) -> Result<Self, BadName> {
        let ForeignId(text) = ForeignId::new("the channel name", text)?;
        if text.is_empty() { Err(BadName::Empty { what: "the channel name" }) } else { Ok(Self(text)) }
    }

    /// The name as in hearth.toml.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ForeignId {
    /// Validates a name that comes as text. A record's name is trusted.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let is_text = deserializer.is_human_readable();
        let text = Short::deserialize(deserializer)?;
        if is_text { Self::new("the id", text).map_err(D::Error::custom) } else { Ok(Self(text)) }
    }
}

impl<'de> Deserialize<'de> for ChannelName {
    /// Validates a name that comes as text. A record's name is trusted.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let is_text = deserializer.is_human_readable();
        let text = Short::deserialize(deserializer)?;
        if is_text { Self::new(text).map_err(D::Error::custom) } else { Ok(Self(text)) }
    }
}

impl UserId {
    /// The person whom a channel's adapter calls `handle`. A handle with a colon is a handle like any other.
    #[must_use]
    pub fn new(channel: ChannelName, handle: ForeignId) -> Self {
        Self { channel, handle }
    }

    /// Reads `<channel>:<id>` as an operator writes it: the channel ends at the first colon.
    ///
    /// # Errors
    /// [`BadName`] for everything else.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let not_a_user = || BadName::NotAUser { text: text.to_owned() };
        let (channel, handle) = text.split_once(':').ok_or_else(not_a_user)?;
        if channel.is_empty() || handle.is_empty() {
            return Err(not_a_user());
        }
        Ok(Self::new(ChannelName::new(channel)?, ForeignId::new("the user's id", handle)?))
    }

    /// Namespace of the identity.
    #[must_use]
    pub fn channel(&self) -> &ChannelName {
        &self.channel
    }

    /// Id within the channel.
    #[must_use]
    pub fn handle(&self) -> &ForeignId {
        &self.handle
    }
}

impl std::str::FromStr for UserId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::parse(text)
    }
}

impl std::fmt::Display for ForeignId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Display for ChannelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Display for UserId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.channel, self.handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NanoClaw treats any handle with a colon as a full id, so a display name can claim another user's identity.
    #[test]
    fn a_sender_cannot_choose_the_namespace() {
        let user = |channel: &str, handle: &str| {
            UserId::new(ChannelName::new(channel).unwrap(), ForeignId::new("id", handle).unwrap()).to_string()
        };
        assert_eq!(user("telegram", "123"), "telegram:123");
        assert_eq!(user("telegram", "telegram:123"), "telegram:telegram:123");
        assert_eq!(user("matrix", "@a:hs.org"), "matrix:@a:hs.org");
        assert_ne!(
            UserId::parse("a:b:c").unwrap(),
            UserId::new(ChannelName::new("a:b").unwrap(), ForeignId::new("id", "c").unwrap())
        );
    }

    #[test]
    fn foreign_ids_are_bounded_and_printable() {
        assert!(ForeignId::new("the id", "x".repeat(1_024)).is_ok());
        assert_eq!(
            ForeignId::new("the id", "x".repeat(1_025)).unwrap_err().to_string(),
            "the id has 1025 bytes, at most 1024 are accepted"
        );
        assert_eq!(
            ForeignId::new("the id", "a\0b").unwrap_err().to_string(),
            "the id contains the control character U+0000"
        );
        assert!(ChannelName::new("").is_err());
    }
}
