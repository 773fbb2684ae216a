//! Who talks to whom: agents, chats, wirings, users, roles, members, destinations.

use serde::{Deserialize, Serialize};

use super::address::{Address, ChannelName, ForeignId, UserId};
use super::id::{AgentId, ChatId};
use super::short::Short;
use super::time::Timestamp;

pub use super::agent::{
    Access, Agent, AgentSettings, EnvValue, ExtraMount, Limits, McpServer, Network, Packages, ProviderKind, Skills,
    TechnicalSkips, Trust,
};
pub use super::hold::Hold;

/// Folder of an agent group: its identity for people, and the name of its directory.
///
/// Letters, digits, `_` and `-`, the first one a letter or digit, at most 64; `global` is reserved in any case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Folder(Short);

/// A text that cannot be a folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` cannot be an agent's folder: use 1 to 64 letters, digits, `_` or `-`, beginning with a letter or digit (`global` is reserved)"
)]
pub struct BadFolder {
    text: String,
}

impl Folder {
    /// Checks a folder name.
    ///
    /// # Errors
    /// [`BadFolder`] for every name that is not plainly one directory.
    pub fn new(text: impl Into<Short>) -> Result<Self, BadFolder> {
        let text = text.into();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let valid = first && text.len() <= 64 && text.bytes().all(plain) && !text.eq_ignore_ascii_case("global");
        if valid { Ok(Self(text)) } else { Err(BadFolder { text: text.into() }) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who made an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// `hearth apply`.
    File,
    /// A command, or Hearth itself on somebody's behalf.
    Runtime,
}

/// What happens to people a chat's agents do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnknownSenders {
    /// Refused, with a record.
    Strict,
    /// Somebody is asked.
    RequestApproval,
    /// Everybody may talk.
    Public,
}

/// One chat on one channel (messaging group). (channel, platform id) is unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// Channel instance.
    pub channel: ChannelName,
    /// Chat, as the adapter names it.
    pub platform_id: ForeignId,
    /// Name for people.
    pub name: Option<String>,
    /// Whether more than one person may talk here.
    pub group: bool,
    /// What happens to strangers.
    pub unknown_senders: UnknownSenders,
    /// Somebody decided that this chat is not to be asked about.
    pub denied: Option<Timestamp>,
    /// Who made it.
    pub origin: Origin,
    /// When it was made.
    pub created: Timestamp,
    /// When it was removed.
    pub archived: Option<Timestamp>,
}

/// When an agent takes a message as its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engage {
    /// The text matches; `.` is always true, even of no text.
    Pattern(String),
    /// The platform says that the bot was addressed.
    Mention,
    /// As `Mention`, and from then on in that thread.
    MentionSticky,
}

/// Whose messages engage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SenderScope {
    /// Everybody's whom the chat lets in.
    All,
    /// Only people the agent knows.
    Known,
}

/// What happens to messages that do not engage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ignored {
    /// Nothing is kept.
    Drop,
    /// They are kept as context of the next turn.
    Accumulate,
}

/// Which messages share a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionMode {
    /// One session per chat.
    Shared,
    /// One session per thread.
    PerThread,
    /// One session for everything the agent hears in this mode.
    AgentShared,
}

/// That an agent listens in a chat, and how. At most one per (chat, agent).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wiring {
    /// When the agent takes a message as its own.
    pub engage: Engage,
    /// Whose messages engage.
    pub senders: SenderScope,
    /// What happens to the others.
    pub ignored: Ignored,
    /// Which messages share a session.
    pub session: SessionMode,
    /// Higher ones are asked first; equal ones in the order of the agents' ids.
    pub priority: i32,
    /// Who made it.
    pub origin: Origin,
    /// When it was made.
    pub created: Timestamp,
}

/// A person on one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Who; repeated from the key, which may hold only its digest.
    pub id: UserId,
    /// How they are called; refreshed from traffic, never trusted.
    pub name: Option<String>,
    /// Who made the row.
    pub origin: Origin,
    /// When it was made.
    pub created: Timestamp,
}

/// What a person may do, and where. A sum type, so that an owner of one agent cannot be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Everything.
    Owner,
    /// Everything but owning.
    GlobalAdmin,
    /// Administers one agent and is a member of it.
    AdminOf(AgentId),
}

/// That a person has a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Who.
    pub user: UserId,
    /// When; approvers are asked in this order.
    pub at: Timestamp,
    /// Who granted it.
    pub by: Option<UserId>,
    /// Where the grant came from.
    pub origin: Origin,
}

/// That a person may talk to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Who.
    pub user: UserId,
    /// When.
    pub at: Timestamp,
    /// Who let them in.
    pub by: Option<UserId>,
    /// Where the membership came from.
    pub origin: Origin,
}

/// That an agent may write somewhere; the key has the name it uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Destination {
    /// A chat.
    Chat(ChatId),
    /// Another agent.
    Agent(AgentId),
}

/// Where a person is reached outside of any chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectMessage {
    /// The chat that is their direct message.
    pub address: Address,
    /// When that was found out.
    pub resolved: Timestamp,
}

/// Lower case, runs of anything but `a-z0-9` become `-`, none at the ends; `unnamed` when nothing is left.
///
/// NanoClaw's rule for names of destinations, so that its names can be taken over.
#[must_use]
pub fn normalize_name(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for c in text.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_single_plain_directories() {
        for text in ["main", "family-chat", "Team_42", "0", &"a".repeat(64)] {
            assert!(Folder::new(text).is_ok(), "{text}");
        }
        for text in [
            "../../etc",
            "/tmp",
            "global",
            "",
            "GLOBAL",
            " main",
            "main ",
            "-x",
            "_x",
            &"a".repeat(65),
            "a.b",
            "a b",
            "ä",
            "a\0",
        ] {
            assert!(Folder::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_are_normalised_like_the_peers() {
        for (text, name) in [
            ("Gen", "gen"),
            ("Family Chat!!", "family-chat"),
            ("  --A__b..C  ", "a-b-c"),
            ("日本語", "unnamed"),
            ("", "unnamed"),
            ("Ünïcode X", "n-code-x"),
            ("telegram-mg-17000", "telegram-mg-17000"),
            ("A/B\\C", "a-b-c"),
        ] {
            assert_eq!(normalize_name(text), name, "{text}");
        }
    }
}
