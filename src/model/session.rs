//! Workspaces and the sessions that live in them.

use serde::{Deserialize, Serialize};

use super::address::{Address, ForeignId};
use super::entity::ProviderKind;
use super::id::{AgentId, ChatId, SessionId};
use super::time::{Awake, Timestamp};

/// 64-bit FNV-1a of the canonical workspace path, shown as 16 lower-case hex digits. A name, not a secret, and not free
/// of collisions: the discriminator beside it tells colliding workspaces apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fingerprint(u64);

/// Tells workspaces with equal fingerprints apart, in the order of their arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Discriminator(pub u16);

/// Key of a workspace.
pub type WorkspaceKey = (Fingerprint, Discriminator);

/// Key of a session: the workspace it lives in, and its id.
pub type SessionKey = (Fingerprint, Discriminator, SessionId);

impl Fingerprint {
    /// Hashes a path as text. Bytes that are no UTF-8 count as U+FFFD, which is why the workspace keeps the raw path.
    #[must_use]
    pub fn of_path(path: &[u8]) -> Self {
        let text = String::from_utf8_lossy(path);
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(hash)
    }

    /// From the number in a key.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The number in a key.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What identifies a directory beyond its path, to notice that it was moved, copied or replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Random text that is also kept in a file inside the directory.
    pub token: String,
}

/// A directory with sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Canonical path, raw bytes. For an agent group's folder: relative to the data directory, so that the data directory
    /// can be moved and restored.
    pub path: Vec<u8>,
    /// The agent whose folder it is.
    pub agent: Option<AgentId>,
    /// What the directory looked like when it was adopted.
    pub witness: Option<Witness>,
    /// When it was first seen.
    pub created: Timestamp,
}

/// What a session is for: the key under which it is found again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Route {
    /// All of a chat.
    Shared(ChatId),
    /// A thread of a chat; without a thread, what is said outside of threads.
    PerThread(ChatId, Option<ForeignId>),
    /// Everything an agent hears in mode agent-shared.
    AgentShared,
}

/// Whether a session can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionStatus {
    /// It can.
    Active,
    /// Its agent was removed.
    Archived,
}

/// Which of an agent's sessions of one kind; exported as `NANOCLAW_SESSION_NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionName {
    /// Conversations.
    Default,
    /// Scheduled work that does not belong into a conversation.
    Maintenance,
}

impl SessionName {
    /// The word in files and environment.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Maintenance => "maintenance",
        }
    }
}

/// One conversation of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Whose.
    pub agent: AgentId,
    /// What it is for.
    pub route: Route,
    /// Its name among the agent's.
    pub name: SessionName,
    /// Where answers go when nothing says otherwise; none for sessions without a chat of their own.
    pub reply: Option<Address>,
    /// Whether it can be used.
    pub status: SessionStatus,
    /// Highest number used by messages of either direction. Host messages get even numbers, agent messages odd ones.
    pub last_number: u64,
    /// Highest incarnation ever allocated.
    pub last_incarnation: u32,
    /// The incarnation that is not closed, if there is one.
    pub live: Option<u32>,
    /// What drives this session, if not what drives its agent.
    pub provider: Option<ProviderKind>,
    /// How often it was made to begin anew: what a provider remembers of an earlier epoch does not count.
    pub epoch: u32,
    /// Starts in a row that failed before anything was worked on.
    pub failed_starts: u32,
    /// Not started again before this, because of them.
    pub start_after: Option<Awake>,
    /// Messages that ever arrived.
    pub messages: u64,
    /// Version of the context file last asked for.
    pub context_version: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When a message last arrived.
    pub active: Timestamp,
}

impl Session {
    /// Takes the next number for a message that arrives: even, above every earlier one.
    pub fn take_seq(&mut self) -> u64 {
        self.messages = self.messages.saturating_add(1);
        self.last_number = self.last_number.saturating_add(2 - self.last_number % 2);
        self.last_number
    }

    /// Smallest number the agent may use next: odd, above every earlier one.
    #[must_use]
    pub const fn next_agent_number(&self) -> u64 {
        self.last_number.saturating_add(1 + self.last_number % 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_match_the_published_vectors() {
        for (path, hex) in [
            ("/", "af63a24c860189fe"),
            ("/tmp", "7f7de39c4bcebddb"),
            ("/tmp/foo", "ca485d71dbcb0e34"),
            ("/tmp/foo/", "8404e3787a08f7e1"),
            ("/home/user/my project", "aa24f4ba6c08d84d"),
            ("/home/user/proj\u{e9}t", "c47a6001f627813f"),
            ("/home/user/proje\u{301}t", "999c8a53a9856321"),
            ("/tmp/🦞/claw", "08bddd0fde4c9421"),
            ("", "cbf29ce484222325"),
            ("foobar", "85944171f73967e8"),
            ("/tmp/Vnb7xSUH4Co", "ca380e5759713147"),
            ("/tmp/P3OSLN0KT3d", "ca380e5759713147"),
        ] {
            assert_eq!(Fingerprint::of_path(path.as_bytes()).to_string(), hex, "{path}");
        }
        assert_eq!(Fingerprint::of_path(b"/tmp/nonutf8-\xff").to_string(), "ca3ce1ce900126f8");
        assert_eq!(Fingerprint::of_path(b"/tmp/nonutf8-\xff\xfe").to_string(), "e6cfad7d10fda939");
    }

    #[test]
    fn one_space_of_numbers_for_both_directions() {
        let numbers = |last: u64| {
            let mut session = Session {
                agent: AgentId::new(1),
                route: Route::AgentShared,
                name: SessionName::Default,
                reply: None,
                status: SessionStatus::Active,
                last_number: last,
                last_incarnation: 0,
                live: None,
                provider: None,
                epoch: 0,
                failed_starts: 0,
                start_after: None,
                messages: 0,
                context_version: 0,
                created: Timestamp::from_millis(0),
                active: Timestamp::from_millis(0),
            };
            (session.next_agent_number(), session.take_seq())
        };
        assert_eq!([0, 1, 2, 3, 4, 7].map(numbers), [(1, 2), (3, 2), (3, 4), (5, 4), (5, 6), (9, 8)]);
    }
}
