//! What an installation of NanoClaw holds, in the words of this host, and what became of everything in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::model::address::Address;
use crate::model::configure::{ChatSpec, DestinationSpec, UserSpec};
use crate::model::entity::{AgentSettings, Folder, UnknownSenders};

/// Which NanoClaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One database for everything.
    V1,
    /// One database of the host, and two for each session.
    V2,
}

impl Version {
    /// For people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

/// What version 1 never knew, and what the reader needs to judge.
#[derive(Clone, Copy)]
pub struct Wishes<'a> {
    /// What happens to strangers in chats of version 1, which let everybody in.
    pub strangers: UnknownSenders,
    /// Why a pattern cannot be one.
    pub pattern: &'a dyn Fn(&str) -> Result<(), String>,
    /// Why a text is no recurrence.
    pub recurrence: &'a dyn Fn(&str) -> Result<(), String>,
    /// Why a text is no time.
    pub time: &'a dyn Fn(&str) -> Result<(), String>,
}

/// Everything that can be taken over, in the order in which each finds what it refers to.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Of which NanoClaw.
    pub version: Version,
    /// Agents, by folder.
    pub agents: BTreeMap<Folder, AgentSettings>,
    /// People with their roles and memberships.
    pub users: Vec<UserSpec>,
    /// Chats with their wirings.
    pub chats: Vec<ChatSpec>,
    /// Chats that are not to be asked about.
    pub denied: Vec<Address>,
    /// Where agents write, by the names they use.
    pub destinations: Vec<(Folder, String, DestinationSpec)>,
    /// What providers remember.
    pub sessions: Vec<FoundSession>,
    /// What is done by the clock.
    pub tasks: Vec<FoundTask>,
    /// What was said and not worked on.
    pub events: Vec<FoundEvent>,
    /// Directories of agents.
    pub trees: Vec<Tree>,
    /// What is not taken over, and what else is to be said.
    pub items: Vec<Item>,
}

/// A conversation that a provider can go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSession {
    /// Its name there.
    pub name: String,
    /// Whose.
    pub agent: Folder,
    /// Where.
    pub place: Address,
    /// Provider -> what it needs.
    pub continuations: BTreeMap<String, String>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTask {
    /// Its name there.
    pub name: String,
    /// Whose.
    pub agent: Folder,
    /// The conversation in which it runs; none belongs to no conversation.
    pub home: Option<Address>,
    /// Where answers go, if not where the conversation's go.
    pub reply: Option<Address>,
    /// What the agent is told.
    pub prompt: String,
    /// A script that runs first.
    pub script: Option<String>,
    /// When it runs next, as a task is made.
    pub first: Option<String>,
    /// When it comes again, as a task is made.
    pub recurrence: Option<String>,
    /// It rests.
    pub paused: bool,
}

/// A message that waits, as the event it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEvent {
    /// Its name there.
    pub name: String,
    /// One inbound event in JSON.
    pub json: String,
}

/// A directory to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Whose; none is what agents share.
    pub agent: Option<Folder>,
    /// Where it is, below the installation, name by name.
    pub from: Vec<String>,
    /// What it becomes.
    pub to: TreeKind,
}

/// What a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeKind {
    /// What the agent works in.
    Group,
    /// The provider's own record of its conversations.
    Projects,
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An agent group, a registered group.
    Agent,
    /// A person.
    User,
    /// A role or membership of a person.
    Right,
    /// A messaging group.
    Chat,
    /// Which agent listens where.
    Wiring,
    /// Where an agent may write.
    Destination,
    /// A conversation.
    Session,
    /// Scheduled work.
    Task,
    /// Something said.
    Message,
    /// A file of an agent.
    File,
    /// Anything else.
    Other,
}

impl Kind {
    /// All of them, in the order of reports.
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

    /// For people and programs.
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

/// What becomes of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It is here afterwards, and was not before.
    Taken,
    /// It is here already.
    Unchanged,
    /// It stays where it is.
    LeftOut,
}

impl Outcome {
    /// For people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Unchanged => "unchanged",
            Self::LeftOut => "left_out",
        }
    }
}

/// One thing, or several of which the same is to be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Which, by its name there or here.
    pub name: String,
    /// How many.
    pub count: u64,
    /// What becomes of it.
    pub outcome: Outcome,
    /// Why it stays, or what is different about it.
    pub note: Option<String>,
}

impl Item {
    /// One thing of which nothing else is to be said.
    #[must_use]
    pub fn new(kind: Kind, name: impl Into<String>, outcome: Outcome) -> Self {
        Self { kind, name: name.into(), count: 1, outcome, note: None }
    }

    /// One thing that stays, and why.
    #[must_use]
    pub fn left_out(kind: Kind, name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { note: Some(why.into()), ..Self::new(kind, name, Outcome::LeftOut) }
    }

    /// The same of several.
    #[must_use]
    pub fn of(self, count: u64) -> Self {
        Self { count, ..self }
    }

    /// With something that is to be said.
    #[must_use]
    pub fn noting(self, note: Option<String>) -> Self {
        Self { note: note.or(self.note), ..self }
    }
}

impl Found {
    /// Nothing yet.
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
            items: Vec::new(),
        }
    }

    /// Notes that something stays.
    pub(super) fn leave(&mut self, kind: Kind, name: impl Into<String>, why: impl Into<String>) {
        self.items.push(Item::left_out(kind, name, why));
    }

    /// Notes that several things stay, if there are any.
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

    /// The person, who is new if nobody spoke of them.
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

/// Where something is, for messages.
#[must_use]
pub fn shown(place: &Address) -> String {
    let Address { channel, platform_id, thread } = place;
    let thread = thread.as_ref().map_or_else(String::new, |thread| format!(" in the thread {thread}"));
    format!("{channel}/{platform_id}{thread}")
}

/// The path of a tree, for messages.
impl Tree {
    /// Where it is, relative to the installation.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.from.iter().collect()
    }
}
