//! Sessions: conversations of agents in chats, and sessions of programs and people in workspaces.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::address::{Address, ForeignId};
use super::content::RawJson;
use super::entity::{ProviderKind, Verbosity};
use super::id::{AgentId, ChatId, SessionId};
use super::time::{Awake, Timestamp};
use super::workspace::WorkspaceKey;

/// Purpose of a session, and the key under which it is found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Route {
    /// All of a chat.
    Shared(ChatId),
    /// A thread of a chat; none stands for messages outside of threads.
    PerThread(ChatId, Option<ForeignId>),
    /// Everything an agent receives in mode agent-shared.
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

/// Name of a session among an agent's sessions with the same route; exported as `NANOCLAW_SESSION_NAME`.
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
    /// The agent whose session it is.
    pub agent: AgentId,
    /// What it is for: a chat, a thread, or all chats.
    pub route: Route,
    /// Its name among the agent's.
    pub name: SessionName,
    /// Default destination of answers; none for sessions without a chat of their own.
    pub reply: Option<Address>,
    /// Whether it can be used.
    pub status: SessionStatus,
    /// Highest message number used in either direction. Host messages get even numbers, agent messages odd ones.
    pub last_number: u64,
    /// Highest incarnation ever allocated.
    pub last_incarnation: u32,
    /// The incarnation that is not closed, if there is one.
    pub live: Option<u32>,
    /// The session's own provider, if it differs from the agent's.
    pub provider: Option<ProviderKind>,
    /// Number of resets. A provider's memory of an earlier epoch does not count.
    pub epoch: u32,
    /// Failed starts in a row before any message was claimed.
    pub failed_starts: u32,
    /// Earliest next start, because of those failures.
    pub start_after: Option<Awake>,
    /// Number of messages that ever arrived.
    pub messages: u64,
    /// Version of the context file that was requested last.
    pub context_version: u64,
    /// When it was created.
    pub created: Timestamp,
    /// When a message last arrived.
    pub active: Timestamp,
}

/// Maximum length of the name of a model or an effort.
const CHOICE_BYTES: usize = 100;

/// What people chose for one session, instead of the settings of its agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSettings {
    /// Name of the model; none is the agent's.
    pub model: Option<String>,
    /// The reasoning effort.
    pub effort: Option<String>,
    /// How much of what the agent writes people get.
    pub verbosity: Option<Verbosity>,
}

/// One choice for a session; none goes back to the setting of its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionChoice {
    /// The model.
    Model(Option<String>),
    /// The reasoning effort.
    Effort(Option<String>),
    /// How much of what the agent writes people get.
    Verbosity(Option<Verbosity>),
}

impl SessionSettings {
    /// These settings with one choice changed.
    #[must_use]
    pub fn with(mut self, choice: SessionChoice) -> Self {
        match choice {
            SessionChoice::Model(model) => self.model = model,
            SessionChoice::Effort(effort) => self.effort = effort,
            SessionChoice::Verbosity(verbosity) => self.verbosity = verbosity,
        }
        self
    }
}

impl SessionChoice {
    /// A choice as people write it: `default` goes back.
    #[must_use]
    pub fn named(choice: fn(Option<String>) -> Self, name: &str) -> Self {
        choice((!name.eq_ignore_ascii_case("default")).then(|| name.to_owned()))
    }

    /// Why it cannot be made, if it cannot.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let (what, name) = match self {
            Self::Model(name) => ("a model", name.as_deref()?),
            Self::Effort(name) => ("an effort", name.as_deref()?),
            Self::Verbosity(_) => return None,
        };
        let is_fit = (1..=CHOICE_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
        (!is_fit).then(|| format!("the name of {what} is one word of at most {CHOICE_BYTES} ASCII characters"))
    }
}

impl ChatSession {
    /// A new session without messages.
    #[must_use]
    pub const fn new(
        agent: AgentId,
        name: SessionName,
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

    /// Allocates the number of an incoming message: even, above every earlier one.
    pub fn take_seq(&mut self) -> u64 {
        self.messages = self.messages.saturating_add(1);
        self.last_number = self.last_number.saturating_add(2 - self.last_number % 2);
        self.last_number
    }

    /// Lowest number that the agent may use next: odd, above every earlier one.
    #[must_use]
    pub const fn next_agent_number(&self) -> u64 {
        self.last_number.saturating_add(1 + self.last_number % 2)
    }
}

/// A session of either kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Session {
    /// A session of an agent in chats. Its records are its messages, incoming and outgoing, in the order of their
    /// numbers.
    Chat(ChatSession),
    /// A session of a program or a person in a workspace. It has its own records.
    Workspace(Box<WorkspaceSession>),
}

impl Session {
    /// The agent's session, if it is one.
    #[must_use]
    pub fn chat(self) -> Option<ChatSession> {
        match self {
            Self::Chat(chat) => Some(chat),
            Self::Workspace(_) => None,
        }
    }

    /// Whether it is in the trash.
    #[must_use]
    pub const fn is_trashed(&self) -> bool {
        matches!(self, Self::Workspace(own) if own.deleted.is_some())
    }

    /// Like [`Self::chat`], by reference.
    #[must_use]
    pub const fn as_chat(&self) -> Option<&ChatSession> {
        match self {
            Self::Chat(chat) => Some(chat),
            Self::Workspace(_) => None,
        }
    }

    /// The session, if it belongs to an agent, has this name and is active.
    #[must_use]
    pub fn as_active(&self, name: SessionName) -> Option<&ChatSession> {
        self.as_chat().filter(|chat| chat.status == SessionStatus::Active && chat.name == name)
    }

    /// Like [`Self::workspace`], by reference.
    #[must_use]
    pub const fn as_workspace(&self) -> Option<&WorkspaceSession> {
        match self {
            Self::Workspace(session) => Some(session),
            Self::Chat(_) => None,
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

    /// Number of messages. For an agent's session, the highest message number; 0 if there are none.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        match self {
            Self::Chat(chat) => chat.last_number,
            Self::Workspace(own) => own.messages,
        }
    }

    /// Sort key among the sessions of its workspace: the time of the last change, and a tiebreaker. Agents' sessions
    /// are rounded to the minute, so that a message seldom moves them.
    #[must_use]
    pub fn recency(&self) -> Recency {
        match self {
            Self::Chat(chat) => {
                let at = Timestamp::from_millis(chat.active.millis().div_euclid(60_000) * 60_000);
                Recency { at, order: 0 }
            }
            Self::Workspace(session) => Recency { at: session.updated.min(session.committed), order: session.order },
        }
    }
}

/// The order of sessions by their last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Recency {
    /// When the session changed.
    pub at: Timestamp,
    /// Orders changes of the same time.
    pub order: u64,
}

/// Id of a workspace session as people type it: letters, digits, `.`, `_` and `-`, at most 128 of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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

    /// Words that refer to a session by its position in the list, never by its id.
    pub const ALIASES: [&'static str; 3] = ["latest", "last", "recent"];

    /// Checks an id.
    ///
    /// # Errors
    /// [`BadLabel`] if it has other characters or is too long, is one of [`Self::ALIASES`] in any case, looks like the
    /// id of an agent's session (`se12`), or has the extension of a session file.
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
            return bad("that word refers to a session by its position");
        }
        if text.parse::<SessionId>().is_ok() {
            return bad("ids of agents' sessions look like that");
        }
        if text.ends_with(".jsonl") || text.ends_with(".json") {
            return bad("an id must not have the ending of a file");
        }
        Ok(Self(text))
    }

    /// The closest valid id to a text, for a session whose own id cannot be typed.
    #[must_use]
    pub fn nearest(text: &str) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let plain: String = text.chars().map(plain).take(100).collect();
        let plain = plain.trim_start_matches(['.', '_', '-']).trim_end_matches(['.', '-']);
        let tries = [text.to_owned(), plain.to_owned(), format!("file-{plain}-")];
        tries.into_iter().find_map(|text| Self::new(text).ok()).unwrap_or_else(|| Self("unnamed".to_owned()))
    }

    /// This id with a number appended, for a further session with the same id.
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

impl<'de> Deserialize<'de> for SessionLabel {
    /// Validates a name that comes as text. A record's name is trusted.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let is_text = deserializer.is_human_readable();
        let text = String::deserialize(deserializer)?;
        if is_text { Self::new(text).map_err(D::Error::custom) } else { Ok(Self(text)) }
    }
}

impl std::fmt::Display for SessionLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A session that belongs to a directory, apart from chats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceSession {
    /// The id that people use, unique in its workspace.
    pub label: SessionLabel,
    /// Title that people see.
    pub title: Option<String>,
    /// Its model, if known.
    pub model: Option<String>,
    /// When it was created. For an imported session, the time from its source.
    pub created: Timestamp,
    /// When it last changed. For an imported session, the time from its source.
    pub updated: Timestamp,
    /// When it last changed in this store.
    pub committed: Timestamp,
    /// Rises with every change of any workspace session. Orders changes with equal times.
    pub order: u64,
    /// The current revision. Records of earlier revisions are kept.
    pub revision: u32,
    /// The shared beginning, if it has one: its first records are those of another revision, up to a number.
    pub base: Option<Base>,
    /// Number of its last record, including its base.
    pub records: u64,
    /// Number of messages among its records, including its base.
    pub messages: u64,
    /// What it was forked from.
    pub lineage: Option<Lineage>,
    /// What compaction removed from the current revision.
    pub compaction: Option<Compaction>,
    /// Where it was imported from.
    pub source: Option<SessionSource>,
    /// Epoch of the newest lease.
    pub lease_epoch: u64,
    /// Since when it is in the trash.
    pub deleted: Option<Timestamp>,
}

impl WorkspaceSession {
    /// A new, empty session. Its `order` is set when it is stored.
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

/// The beginning of a session, shared with another revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The session that has the records.
    pub session: SessionId,
    /// Its revision.
    pub revision: u32,
    /// Number of the last shared record.
    pub upto: u64,
}

/// An earlier revision of a session. Its records are kept, and none are added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The shared beginning, if it has one: its first records are those of another revision, up to a number.
    pub base: Option<Base>,
    /// Number of its last record, including its base.
    pub records: u64,
    /// Number of messages among its records, including its base.
    pub messages: u64,
    /// What compaction had removed from it.
    pub compaction: Option<Compaction>,
    /// When the next one began.
    pub ended: Timestamp,
}

/// What a session was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The parent's id as people use it. The parent may no longer exist.
    pub parent: String,
    /// The parent, if it was a session of this store.
    pub session: Option<(WorkspaceKey, SessionId)>,
    /// Name of the branch.
    pub branch: Option<String>,
}

/// What compaction removed from a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Number of compactions.
    pub count: u32,
    /// Messages removed by the last compaction.
    pub removed: u64,
    /// Summary of the removed messages.
    pub summary: String,
}

/// Source of an imported session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSource {
    /// The file, raw bytes of its path.
    pub path: Vec<u8>,
    /// The id in the file, if it differs from the label.
    pub id: Option<String>,
    /// Whether the file had no id and times, so that they were derived from its name and timestamps.
    pub from_name: bool,
    /// The workspace that the file named, raw bytes; none if it named none and was inside the workspace.
    pub root: Option<Vec<u8>>,
    /// Incomplete record at the end of the file, with secrets removed.
    pub torn_tail: Option<Vec<u8>>,
    /// Further metadata in the file that only its creator understands: a JSON object of fields, keyed by the type of
    /// their record. Written back unchanged.
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
            let (agent, name) = (AgentId::new(1), SessionName::Default);
            let session = ChatSession::new(agent, name, Route::AgentShared, None, Timestamp::from_millis(0));
            let mut session = ChatSession { last_number: last, ..session };
            (session.next_agent_number(), session.take_seq())
        };
        assert_eq!([0, 1, 2, 3, 4, 7].map(numbers), [(1, 2), (3, 2), (3, 4), (5, 4), (5, 6), (9, 8)]);
    }
}
