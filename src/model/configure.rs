//! What an operator wants the entities to be.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::address::{Address, ChannelName, ForeignId, UserId};
use super::channel::{ChannelInstance, ChannelKind};
use super::entity::{
    AgentSettings, Engage, Folder, Ignored, Origin, ProviderKind, SenderScope, SessionMode, UnknownSenders,
};
use super::id::SessionId;
use super::retention::Retention;

/// A list of changes that happen together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configure {
    /// What to do, in order.
    pub changes: Vec<Change>,
    /// Who asks.
    pub origin: Origin,
    /// Digest of the configuration that was looked at when the changes were thought out; refused if it is another by now.
    pub expected: Option<u64>,
}

impl Configure {
    /// Changes that depend on nothing that was looked at.
    #[must_use]
    pub const fn new(changes: Vec<Change>, origin: Origin) -> Self {
        Self { changes, origin, expected: None }
    }

    /// Whether it may be what makes room in a full store: it changes the limits, or only takes away.
    #[must_use]
    pub fn may_make_room(&self) -> bool {
        let limits = |change: &Change| matches!(change, Change::PutSettings(_));
        self.changes.iter().any(limits) || self.changes.iter().all(Change::takes_away)
    }
}

/// One change. `Put` makes the entity or changes it to be like this.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "changes are few and live as long as one transaction")]
pub enum Change {
    /// Settings of the whole installation.
    PutSettings(Settings),
    /// An agent.
    PutAgent(Folder, AgentSettings),
    /// Archives an agent and removes its wirings.
    RemoveAgent(Folder),
    /// The same, because its directory is going to be removed: refused while an incarnation of it lives, and a look at
    /// nothing but that if it is archived already.
    PurgeAgent(Folder),
    /// A person with exactly these roles and memberships.
    PutUser(UserSpec),
    /// Removes a person's row, roles and memberships.
    RemoveUser(UserId),
    /// A chat with at least these wirings.
    PutChat(ChatSpec),
    /// Archives a chat and removes its wirings.
    RemoveChat(ChannelName, ForeignId),
    /// Removes one wiring.
    RemoveWiring(ChannelName, ForeignId, Folder),
    /// Decides that a chat is not to be asked about.
    DenyChat(ChannelName, ForeignId),
    /// Takes that decision back.
    AllowChat(ChannelName, ForeignId),
    /// Gives a person a role.
    Grant(UserId, RoleSpec),
    /// Takes a role from a person.
    Revoke(UserId, RoleSpec),
    /// Lets a person talk to an agent.
    AddMember(Folder, UserId),
    /// Takes a membership back.
    RemoveMember(Folder, UserId),
    /// Lets an agent write somewhere under a name of its own.
    AddDestination(Folder, String, DestinationSpec),
    /// Takes a destination away.
    RemoveDestination(Folder, String),
    /// A channel instance.
    PutChannel(ChannelSpec),
    /// Removes a channel instance; its chats and people stay.
    RemoveChannel(ChannelName),
    /// Keeps a thread from waking an agent.
    Mute(Folder, Address),
    /// Lets it wake the agent again.
    Unmute(Folder, Address),
    /// The same in the session state that an agent shares with its programs, by their name of the thread, with a note.
    MuteName(Folder, String, Option<String>),
    /// Takes that back, whoever said it.
    UnmuteName(Folder, String),
    /// Ends that an agent goes on listening in a thread.
    EndSticky(Folder, Address),
    /// Ends the incarnations of an agent that live, at once; the next ones are told this, if anything.
    RestartAgent(Folder, Option<String>),
    /// Ends the incarnation of a session that lives, at once; a wait for its next start is over.
    RestartSession(SessionId),
    /// Makes the session that an agent has in this chat or thread, unless there is one.
    OpenSession(Folder, Address),
    /// Lets a session begin anew: what its provider remembers does not count any more.
    ResetSession(SessionId),
    /// Lets something else drive a session; none is what drives its agent.
    SetSessionProvider(SessionId, Option<ProviderKind>),
    /// Removes what a file made and the other changes do not name.
    Prune,
}

impl Change {
    /// Whether nothing is stored for good because of it.
    const fn takes_away(&self) -> bool {
        match self {
            Self::RemoveAgent(_)
            | Self::PurgeAgent(_)
            | Self::RemoveUser(_)
            | Self::RemoveChat(..)
            | Self::RemoveWiring(..)
            | Self::Revoke(..)
            | Self::RemoveMember(..)
            | Self::RemoveDestination(..)
            | Self::RemoveChannel(_)
            | Self::Unmute(..)
            | Self::UnmuteName(..)
            | Self::EndSticky(..)
            | Self::Prune => true,
            Self::PutSettings(_)
            | Self::PutAgent(..)
            | Self::PutUser(_)
            | Self::PutChat(_)
            | Self::DenyChat(..)
            | Self::AllowChat(..)
            | Self::Grant(..)
            | Self::AddMember(..)
            | Self::AddDestination(..)
            | Self::PutChannel(_)
            | Self::RestartAgent(..)
            | Self::RestartSession(_)
            | Self::OpenSession(..)
            | Self::ResetSession(_)
            | Self::SetSessionProvider(..)
            | Self::Mute(..)
            | Self::MuteName(..) => false,
        }
    }
}

/// Where an agent may write, by the names that people use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DestinationSpec {
    /// A chat.
    Chat(ChannelName, ForeignId),
    /// Another agent.
    Agent(Folder),
}

/// Settings of the whole installation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Settings {
    /// The agent that `hearth chat` talks to when there are several.
    pub default_agent: Option<Folder>,
    /// Bytes the store may use.
    pub store_max_bytes: Option<u64>,
    /// Incarnations that may run at once.
    pub max_containers: Option<u32>,
    /// How long things are kept.
    pub retention: Retention,
    /// Zone of the people here (IANA); none is the machine's.
    pub timezone: Option<String>,
    /// Where agents run; none is wherever they can.
    pub runtime: Option<RuntimeKind>,
    /// Image of the agents' containers; none is the one that `hearth image build` makes.
    pub image: Option<String>,
}

impl Settings {
    /// Most incarnations that may be let run at once.
    pub const MAX_CONTAINERS: u32 = 1_000;
}

/// Where agents run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuntimeKind {
    /// In containers.
    Podman,
    /// As child processes of the daemon.
    Process,
}

impl RuntimeKind {
    /// For people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Process => "process",
        }
    }
}

/// A person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSpec {
    /// Who.
    pub id: UserId,
    /// How they are called.
    pub name: Option<String>,
    /// Their roles.
    pub roles: Vec<RoleSpec>,
    /// Agents they may talk to.
    pub member_of: Vec<Folder>,
}

/// A role by the names that files use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleSpec {
    /// `owner`.
    Owner,
    /// `admin`.
    Admin,
    /// `admin:<folder>`.
    AdminOf(Folder),
}

/// A chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatSpec {
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
    /// Who listens.
    pub wirings: Vec<WiringSpec>,
}

/// A wiring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WiringSpec {
    /// Who listens.
    pub agent: Folder,
    /// When it takes a message as its own.
    pub engage: Engage,
    /// Whose messages engage.
    pub senders: SenderScope,
    /// What happens to the others.
    pub ignored: Ignored,
    /// Which messages share a session.
    pub session: SessionMode,
    /// Higher ones are asked first.
    pub priority: i32,
}

/// A channel instance. Secrets are references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Its name.
    pub name: ChannelName,
    /// What drives it.
    pub kind: ChannelKind,
    /// Where its token is found.
    pub token: Option<String>,
    /// Where its server is, if not where its kind says.
    pub base_url: Option<String>,
    /// Where the key of its signatures is found.
    pub secret: Option<String>,
    /// Where it listens, if its kind does.
    pub listen: Option<SocketAddr>,
}

impl From<&ChannelInstance> for ChannelSpec {
    fn from(row: &ChannelInstance) -> Self {
        Self {
            name: row.name.clone(),
            kind: row.kind,
            token: row.token.clone(),
            base_url: row.base_url.clone(),
            secret: row.secret.clone(),
            listen: row.listen,
        }
    }
}
