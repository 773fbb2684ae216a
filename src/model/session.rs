//! Sessions: conversations of agents in chats, and those of programs and people in directories.

use serde::{Deserialize, Serialize};

use super::address::{Address, ForeignId};
use super::content::RawJson;
use super::entity::ProviderKind;
use super::id::{AgentId, ChatId, SessionId};
use super::time::{Awake, Timestamp};
use super::workspace::WorkspaceKey;

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
    /// Scheduled work that does not belong in a conversation.
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
pub struct ChatSession {
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

impl ChatSession {
    /// One in which nothing was said yet.
    #[must_use]
    pub const fn new(
        (agent, name): (AgentId, SessionName),
        route: Route,
        reply: Option<Address>,
        created: Timestamp,
    ) -> Self {
        Self {
            agent,
            route,
            name,
            reply,
            status: SessionStatus::Active,
            last_number: 0,
            last_incarnation: 0,
            live: None,
            provider: None,
            epoch: 0,
            failed_starts: 0,
            start_after: None,
            messages: 0,
            context_version: 0,
            created,
            active: created,
        }
    }

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

/// One conversation, wherever it is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Session {
    /// Of an agent, in chats; its records are its messages, incoming and outgoing, in the order of their numbers.
    Chat(ChatSession),
    /// Of a program or a person in a directory; its records are its own.
    Workspace(Box<WorkspaceSession>),
}

impl Session {
    /// The conversation of an agent, if it is one.
    #[must_use]
    pub fn chat(self) -> Option<ChatSession> {
        match self {
            Self::Chat(chat) => Some(chat),
            Self::Workspace(_) => None,
        }
    }

    /// Whether it is kept only for a while.
    #[must_use]
    pub const fn is_trashed(&self) -> bool {
        matches!(self, Self::Workspace(own) if own.deleted.is_some())
    }

    /// As [`Self::chat`], to look at.
    #[must_use]
    pub const fn as_chat(&self) -> Option<&ChatSession> {
        match self {
            Self::Chat(chat) => Some(chat),
            Self::Workspace(_) => None,
        }
    }

    /// The session of a workspace, if it is one.
    #[must_use]
    pub fn workspace(self) -> Option<WorkspaceSession> {
        match self {
            Self::Workspace(session) => Some(*session),
            Self::Chat(_) => None,
        }
    }

    /// How many messages are in it; for a conversation of an agent the highest of their numbers, which is 0 when there are
    /// none.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        match self {
            Self::Chat(chat) => chat.last_number,
            Self::Workspace(own) => own.messages,
        }
    }

    /// Where it stands among the sessions of its workspace: the time of its last change, and what tells equal times
    /// apart. The minute is enough for a conversation in chats, so that a message seldom moves it.
    #[must_use]
    pub fn recency(&self) -> (Timestamp, u64) {
        match self {
            Self::Chat(chat) => (Timestamp::from_millis(chat.active.millis().div_euclid(60_000) * 60_000), 0),
            Self::Workspace(session) => (session.updated.min(session.committed), session.order),
        }
    }
}

/// The id of a workspace session as people type it: letters, digits, `.`, `_`, `-`, at most 128 of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionLabel(String);

/// A text that cannot be the id of a workspace session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` cannot be the id of a session: {why}")]
pub struct BadLabel {
    text: String,
    why: &'static str,
}

impl SessionLabel {
    /// Longest id, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Words that mean a session by its place among the others, never by its id.
    pub const ALIASES: [&'static str; 3] = ["latest", "last", "recent"];

    /// Checks an id.
    ///
    /// # Errors
    /// [`BadLabel`] if it has other characters or is too long, is one of [`Self::ALIASES`] in any case, looks like the
    /// id of an agent's session (`se12`), or ends like a file of sessions.
    pub fn new(text: impl Into<String>) -> Result<Self, BadLabel> {
        let text = text.into();
        let bad = |why| Err(BadLabel { text: text.clone(), why });
        if text.is_empty() || text.len() > Self::MAX_BYTES {
            return bad("it needs 1 to 128 characters");
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if !text.bytes().all(plain) || !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return bad("it may only have letters, digits, `.`, `_` and `-`, and begins with a letter or digit");
        }
        if Self::ALIASES.iter().any(|alias| alias.eq_ignore_ascii_case(&text)) {
            return bad("that word means a session by its place among the others");
        }
        if text.parse::<SessionId>().is_ok() {
            return bad("ids of agents' sessions look like that");
        }
        if text.ends_with(".jsonl") || text.ends_with(".json") {
            return bad("an id does not end like a file");
        }
        Ok(Self(text))
    }

    /// The id that comes nearest to a text, for a session that has no id that people could type.
    #[must_use]
    pub fn nearest(text: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let plain: String = text.chars().map(plain).take(100).collect();
        let plain = plain.trim_start_matches(['.', '_', '-']).trim_end_matches(['.', '-']);
        let tries = [text.to_owned(), plain.to_owned(), format!("file-{plain}-")];
        tries.into_iter().find_map(|text| Self::new(text).ok()).unwrap_or_else(|| Self("unnamed".to_owned()))
    }

    /// An id like this one with a number behind it, for one more session that would be called the same.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Self {
        let ending = format!("-{number}");
        let begin = self.0.get(..Self::MAX_BYTES.saturating_sub(ending.len())).unwrap_or(&self.0);
        Self(format!("{begin}{ending}"))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SessionLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A session of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceSession {
    /// The id people use, unique in its workspace.
    pub label: SessionLabel,
    /// How it is called.
    pub title: Option<String>,
    /// What it talks to, if somebody said so.
    pub model: Option<String>,
    /// When it was begun; as its source says for one that was taken in.
    pub created: Timestamp,
    /// When it last changed; as its source says for one that was taken in.
    pub updated: Timestamp,
    /// When it last changed in this store.
    pub committed: Timestamp,
    /// Rises with every change of any workspace session: tells changes of the same time apart.
    pub order: u64,
    /// Which revision counts; the records of earlier ones are kept.
    pub revision: u32,
    /// Where its records begin, if not with its own: those of another revision up to a number are its first ones.
    pub base: Option<Base>,
    /// Number of its last record, those of its base counted.
    pub records: u64,
    /// How many of its records are messages, those of its base counted.
    pub messages: u64,
    /// What it was forked from.
    pub lineage: Option<Lineage>,
    /// What was left out of the current revision.
    pub compaction: Option<Compaction>,
    /// Where it was taken in from.
    pub source: Option<SessionSource>,
    /// Epoch of the newest lease.
    pub lease_epoch: u64,
    /// Since when it is in the trash.
    pub deleted: Option<Timestamp>,
}

impl WorkspaceSession {
    /// One that nothing was written to yet; its order is given when it is stored.
    #[must_use]
    pub const fn new(label: SessionLabel, at: Timestamp) -> Self {
        Self {
            label,
            title: None,
            model: None,
            created: at,
            updated: at,
            committed: at,
            order: 0,
            revision: 0,
            base: None,
            records: 0,
            messages: 0,
            lineage: None,
            compaction: None,
            source: None,
            lease_epoch: 0,
            deleted: None,
        }
    }
}

/// The beginning of a session that it shares with another revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Whose records.
    pub session: SessionId,
    /// Of which revision.
    pub revision: u32,
    /// Up to this number.
    pub upto: u64,
}

/// An earlier revision of a session: its records are kept, and nothing is added to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Where its records begin, if not with its own.
    pub base: Option<Base>,
    /// Number of its last record, those of its base counted.
    pub records: u64,
    /// How many of its records are messages, those of its base counted.
    pub messages: u64,
    /// What had been left out of it.
    pub compaction: Option<Compaction>,
    /// When the next one began.
    pub ended: Timestamp,
}

/// What a session was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The parent's id as people use it; it may be gone.
    pub parent: String,
    /// The parent, if it was a session of this store.
    pub session: Option<(WorkspaceKey, SessionId)>,
    /// Name of the branch.
    pub branch: Option<String>,
}

/// What was left out of a session to make it shorter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// How often.
    pub count: u32,
    /// Messages that were left out the last time.
    pub removed: u64,
    /// What they said, in short.
    pub summary: String,
}

/// Where a session was taken in from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSource {
    /// The file, raw bytes of its path.
    pub path: Vec<u8>,
    /// The id that the file gave, if it is another than the label.
    pub id: Option<String>,
    /// Whether the file said nothing of its id and times, and they were made of its name and its own times.
    pub from_name: bool,
    /// The workspace that the file named, raw bytes; none if it named none and lay inside.
    pub root: Option<Vec<u8>>,
    /// Bytes at the file's end that were no complete record, without the secrets in them.
    pub torn_tail: Option<Vec<u8>>,
    /// What the file said of the session as a whole and only its maker knows: a JSON object with such fields by the type
    /// of the record they stood in, written back as they came.
    pub extra: Option<RawJson>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_has_an_id_near_it() {
        for (text, near) in [
            ("a.b_c-1", "a.b_c-1"),
            ("../../evil", "evil"),
            ("Ünique id", "nique-id"),
            ("LATEST", "file-LATEST-"),
            ("se12", "file-se12-"),
            ("x.jsonl", "file-x.jsonl-"),
            ("", "file--"),
            ("🦞", "file--"),
        ] {
            let label = SessionLabel::nearest(text);
            assert_eq!((label.as_str(), SessionLabel::new(near).is_ok()), (near, true), "{text}");
        }
        let long = SessionLabel::nearest(&"x".repeat(128));
        assert_eq!(SessionLabel::new(long.numbered(12).as_str()).unwrap().as_str().len(), 128);
        assert_eq!(SessionLabel::nearest("a").numbered(2).as_str(), "a-2");
    }

    #[test]
    fn one_space_of_numbers_for_both_directions() {
        let numbers = |last: u64| {
            let who = (AgentId::new(1), SessionName::Default);
            let session = ChatSession::new(who, Route::AgentShared, None, Timestamp::from_millis(0));
            let mut session = ChatSession { last_number: last, ..session };
            (session.next_agent_number(), session.take_seq())
        };
        assert_eq!([0, 1, 2, 3, 4, 7].map(numbers), [(1, 2), (3, 2), (3, 4), (5, 4), (5, 6), (9, 8)]);
    }
}
