//! The content of a NanoClaw installation as Hearth's data types, and the result of importing each part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::model::address::Address;
use crate::model::configure::{ChatSpec, DestinationSpec, UserSpec};
use crate::model::entity::{AgentSettings, Folder, UnknownSenders};

/// Version of NanoClaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One database for everything.
    V1,
    /// One database of the host, and two for each session.
    V2,
}

impl Version {
    /// Name for people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

/// Settings that version 1 lacks, and the validators that the reader needs.
#[derive(Clone, Copy)]
pub struct Wishes<'a> {
    /// Policy for strangers in chats of version 1, which admitted everyone.
    pub strangers: UnknownSenders,
    /// Why a pattern is invalid.
    pub pattern: &'a dyn Fn(&str) -> Result<(), String>,
    /// Why a recurrence is invalid.
    pub recurrence: &'a dyn Fn(&str) -> Result<(), String>,
    /// Why a time is invalid.
    pub time: &'a dyn Fn(&str) -> Result<(), String>,
}

/// Everything that can be imported, ordered so that references point to earlier parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Inventory {
    /// The version it comes from.
    pub version: Version,
    /// Agents, by folder.
    pub agents: BTreeMap<Folder, AgentSettings>,
    /// People with their roles and memberships.
    pub users: Vec<UserSpec>,
    /// Chats with their wirings.
    pub chats: Vec<ChatSpec>,
    /// Chats that were denied, about which the owner is not asked again.
    pub denied: Vec<Address>,
    /// Destinations of agents, by the names they use.
    pub destinations: Vec<(Folder, String, DestinationSpec)>,
    /// Conversations that providers can resume.
    pub sessions: Vec<FoundSession>,
    /// Scheduled tasks.
    pub tasks: Vec<FoundTask>,
    /// Messages that were not processed yet.
    pub events: Vec<FoundEvent>,
    /// Directories of agents.
    pub trees: Vec<Tree>,
    /// Agents whose settings come from a file in their folder, which they could have changed.
    pub config_files: BTreeSet<Folder>,
    /// What is not imported, and further notes.
    pub items: Vec<Item>,
}

/// A conversation that a provider can resume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSession {
    /// Its name in NanoClaw.
    pub name: String,
    pub agent: Folder,
    /// Its chat or thread.
    pub place: Address,
    /// The continuation by provider.
    pub continuations: BTreeMap<String, String>,
}

/// A scheduled task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTask {
    /// Its name in NanoClaw.
    pub name: String,
    pub agent: Folder,
    /// The conversation in which it runs, if any.
    pub home: Option<Address>,
    /// Where answers go, if not to the conversation.
    pub reply: Option<Address>,
    /// The agent's prompt.
    pub prompt: String,
    /// A script that runs first.
    pub script: Option<String>,
    /// First run, in the format for creating a task.
    pub first: Option<String>,
    /// Recurrence, in the format for creating a task.
    pub recurrence: Option<String>,
    /// Whether it is paused.
    pub paused: bool,
}

/// A queued message as its inbound event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEvent {
    /// Its name in NanoClaw.
    pub name: String,
    /// One inbound event in JSON.
    pub json: String,
}

/// A directory to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Its agent; `None` for shared files.
    pub agent: Option<Folder>,
    /// Path below the installation, by components.
    pub from: Vec<String>,
    /// What it becomes.
    pub to: TreeKind,
    /// What was done with a container configuration at its top.
    pub config: ConfigFile,
}

/// What was done with a container configuration in an agent's folder. The file itself is never copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigFile {
    /// Not read.
    Unread,
    /// Used for the agent's settings.
    Read,
}

/// Kind of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeKind {
    /// The agent's working directory.
    Group,
    /// The provider's conversation records.
    Projects,
}

/// Kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An agent group, a registered group.
    Agent,
    User,
    /// A role or membership of a person.
    Right,
    Chat,
    /// A wiring of an agent to a chat.
    Wiring,
    /// A destination of an agent.
    Destination,
    Session,
    /// A scheduled task.
    Task,
    Message,
    /// A file of an agent.
    File,
    /// Anything else.
    Other,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 11] = [
        Self::Agent,
        Self::User,
        Self::Right,
        Self::Chat,
        Self::Wiring,
        Self::Destination,
        Self::Session,
        Self::Task,
        Self::Message,
        Self::File,
        Self::Other,
    ];

    /// Name for people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agents",
            Self::User => "users",
            Self::Right => "rights",
            Self::Chat => "chats",
            Self::Wiring => "wirings",
            Self::Destination => "destinations",
            Self::Session => "sessions",
            Self::Task => "tasks",
            Self::Message => "messages",
            Self::File => "files",
            Self::Other => "other",
        }
    }
}

/// Result for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Imported: it is here now and was not before.
    Taken,
    /// It already exists.
    Unchanged,
    /// It is skipped.
    LeftOut,
}

impl Outcome {
    /// Name for people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Unchanged => "unchanged",
            Self::LeftOut => "left_out",
        }
    }
}

/// A report entry: one thing, or several with the same result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub kind: Kind,
    /// Its name in NanoClaw or here.
    pub name: String,
    /// Number of things.
    pub count: u64,
    pub outcome: Outcome,
    /// Why it is skipped, or what differs.
    pub note: Option<String>,
}

impl Item {
    /// An entry for one thing, without a note.
    #[must_use]
    pub fn new(kind: Kind, name: impl Into<String>, outcome: Outcome) -> Self {
        Self { kind, name: name.into(), count: 1, outcome, note: None }
    }

    /// An entry for one skipped thing, with the reason.
    #[must_use]
    pub fn left_out(kind: Kind, name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { note: Some(why.into()), ..Self::new(kind, name, Outcome::LeftOut) }
    }

    /// The same entry for several things.
    #[must_use]
    pub fn of(self, count: u64) -> Self {
        Self { count, ..self }
    }

    /// Adds a note.
    #[must_use]
    pub fn noting(self, note: Option<String>) -> Self {
        Self { note: note.or(self.note), ..self }
    }
}

impl Inventory {
    /// Creates an empty result.
    #[must_use]
    pub const fn nothing(version: Version) -> Self {
        Self {
            version,
            agents: BTreeMap::new(),
            users: Vec::new(),
            chats: Vec::new(),
            denied: Vec::new(),
            destinations: Vec::new(),
            sessions: Vec::new(),
            tasks: Vec::new(),
            events: Vec::new(),
            trees: Vec::new(),
            config_files: BTreeSet::new(),
            items: Vec::new(),
        }
    }

    /// Adds an entry for a skipped thing.
    pub(super) fn leave(&mut self, kind: Kind, name: impl Into<String>, why: impl Into<String>) {
        self.items.push(Item::left_out(kind, name, why));
    }

    /// Adds an entry for several skipped things, if there are any.
    pub(super) fn leave_all(&mut self, kind: Kind, name: &str, count: u64, why: &str) {
        if count > 0 {
            self.items.push(Item::left_out(kind, name, why).of(count));
        }
    }

    /// The chat of an address.
    pub(super) fn chat(&mut self, place: &Address) -> Option<&mut ChatSpec> {
        self.chats.iter_mut().find(|chat| chat.channel == place.channel && chat.platform_id == place.platform_id)
    }

    /// Whether an agent listens in a chat.
    #[must_use]
    pub fn listens(&self, agent: &Folder, place: &Address) -> bool {
        let here = |chat: &&ChatSpec| chat.channel == place.channel && chat.platform_id == place.platform_id;
        self.chats.iter().filter(here).any(|chat| chat.wirings.iter().any(|wiring| wiring.agent == *agent))
    }

    /// The person, who is added if they are new.
    pub(super) fn user(&mut self, id: &crate::model::address::UserId) -> &mut UserSpec {
        let at = self.users.iter().position(|user| user.id == *id).unwrap_or_else(|| {
            let user = UserSpec { id: id.clone(), name: None, roles: Vec::new(), member_of: Vec::new() };
            self.users.push(user);
            self.users.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the place was just found")]
        &mut self.users[at]
    }
}

/// An address, for messages.
#[must_use]
pub fn shown(place: &Address) -> String {
    let Address { channel, platform_id, thread } = place;
    let thread = thread.as_ref().map_or_else(String::new, |thread| format!(" in the thread {thread}"));
    format!("{channel}/{platform_id}{thread}")
}

/// Constructors and paths of trees.
impl Tree {
    /// A directory whose container configuration, if it has one, was not read.
    pub(super) fn new(agent: Option<&Folder>, from: Vec<String>, to: TreeKind) -> Self {
        Self { agent: agent.cloned(), from, to, config: ConfigFile::Unread }
    }

    /// Path relative to the installation.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.from.iter().collect()
    }
}
