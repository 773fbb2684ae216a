//! Entities and their relations: agents, chats, wirings, users, roles, members, destinations.

use serde::{Deserialize, Serialize};

use super::address::{Address, ChannelName, ForeignId, UserId};
use super::id::{AgentId, ChatId};
use super::time::Timestamp;

pub use super::access::{Access, ExtraMount, Limits, Network};
pub use super::agent::{
    Agent, AgentSettings, EnvValue, McpServer, Packages, Permissions, Preset, ProviderKind, Skills, TechnicalSkips,
    Trust, Verbosity,
};
pub use super::folder::Folder;
pub use super::hold::Hold;
pub use super::origin::Origin;

/// What happens to messages from senders that a chat's agents do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnknownSenders {
    /// Dropped, with a record.
    Strict,
    /// An approver is asked.
    RequestApproval,
    /// Everyone may talk.
    Public,
}

/// One chat on one channel (messaging group). (channel, platform id) is unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// The channel instance that the chat belongs to.
    pub channel: ChannelName,
    /// Chat, as the adapter names it.
    pub platform_id: ForeignId,
    /// Name for people.
    pub name: Option<String>,
    /// Whether more than one person may talk here.
    pub group: bool,
    /// What happens to messages from unknown senders.
    pub unknown_senders: UnknownSenders,
    /// Since when no one is asked about this chat, if an approver decided so.
    pub denied: Option<Timestamp>,
    /// What created it.
    pub origin: Origin,
    /// When it was created.
    pub created: Timestamp,
    /// When it was removed.
    pub archived: Option<Timestamp>,
}

/// When an agent engages with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engage {
    /// The text matches this pattern; `.` always matches, even an empty text.
    Pattern(String),
    /// The platform says that the bot was addressed.
    Mention,
    /// Like `Mention`; after that, every message in the same thread.
    MentionSticky,
}

/// Whose messages engage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SenderScope {
    /// Everyone's whom the chat admits.
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

/// Whose messages reach an agent as context, if set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContextFrom {
    /// Messages of people the agent knows.
    Known,
    /// Messages of everyone in the chat.
    Anyone,
}

/// Which messages share a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionMode {
    /// One session per chat.
    Shared,
    /// A session for each thread.
    PerThread,
    /// One session for everything the agent hears in this mode.
    AgentShared,
}

/// Connects an agent to a chat. At most one per (chat, agent).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wiring {
    /// When the agent engages with a message.
    pub engage: Engage,
    /// Whose messages engage.
    pub senders: SenderScope,
    /// What happens to the others.
    pub ignored: Ignored,
    /// Which messages share a session.
    pub session: SessionMode,
    /// Wirings with a higher priority are evaluated first, equal ones in the order of the agents' ids.
    pub priority: i32,
    /// Whose messages become context; none is the rule for the chat's `unknown_senders`.
    pub context_from: Option<ContextFrom>,
    /// What created it.
    pub origin: Origin,
    /// When it was created.
    pub created: Timestamp,
}

/// A person on one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Who; repeated from the key, which may hold only its digest.
    pub id: UserId,
    /// Display name; refreshed from traffic, never trusted.
    pub name: Option<String>,
    /// What created the row.
    pub origin: Origin,
    /// When it was created.
    pub created: Timestamp,
}

/// A person's role and its scope. The type rules out invalid combinations, such as an owner of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// May decide everything.
    Owner,
    /// Everything but owning.
    GlobalAdmin,
    /// Administers one agent and is a member of it.
    AdminOf(AgentId),
}

/// The grant of a role to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The person who has the role.
    pub user: UserId,
    /// When; approvers are asked in this order.
    pub at: Timestamp,
    /// Who granted it.
    pub by: Option<UserId>,
    /// Where the grant came from.
    pub origin: Origin,
}

/// A person's membership: they may talk to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The person who is a member.
    pub user: UserId,
    /// Time since which they are.
    pub at: Timestamp,
    /// Who let them in.
    pub by: Option<UserId>,
    /// Where the membership came from.
    pub origin: Origin,
}

/// A destination to which an agent may write. The key has the agent's name for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Destination {
    /// A chat.
    Chat(ChatId),
    /// Another agent.
    Agent(AgentId),
}

/// A person's direct message chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectMessage {
    /// The chat that is their direct message.
    pub address: Address,
    /// When it was resolved.
    pub resolved: Timestamp,
}

/// Converts to lower case and replaces runs of anything but `a-z0-9` with `-`, with none at the ends. Returns `unnamed`
/// when nothing is left.
///
/// NanoClaw's rule for names of destinations, so that its names can be imported.
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
