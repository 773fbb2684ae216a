//! Configuration changes requested by an operator.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::address::{Address, ChannelName, ForeignId, UserId};
use super::as_text;
use super::backup_plan::BackupPlan;
use super::bound_secret::BoundSecret;
use super::budget::Budget;
use super::channel::{BridgeProgram, ChannelInstance, ChannelKind, UnknownChats};
use super::console::ConsoleSettings;
use super::entity::{
    AgentSettings, ContextFrom, Engage, Folder, Ignored, Origin, ProviderKind, SenderScope, SessionMode, UnknownSenders,
};
use super::host::Endpoint;
use super::id::{SessionId, TaskId, ToolGrantId};
use super::retention::Retention;
use super::session::SessionChoice;
use super::spend::{ModelPrice, Price};
use super::voice::Voice;

/// A list of changes that are applied together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configure {
    /// What to do, in order.
    pub changes: Vec<Change>,
    /// Who asks for the change.
    pub origin: Origin,
    /// The person who asks; none is the operator of this machine.
    pub by: Option<UserId>,
    /// Digest of the configuration on which the changes are based. They are refused if it has changed since.
    pub expected: Option<u64>,
}

impl Configure {
    /// Changes that do not depend on the current configuration.
    #[must_use]
    pub const fn new(changes: Vec<Change>, origin: Origin) -> Self {
        Self { changes, origin, by: None, expected: None }
    }

    /// Whether it is allowed in a full store: it changes the limits, or only removes things.
    #[must_use]
    pub fn may_make_room(&self) -> bool {
        let limits = |change: &Change| matches!(change, Change::PutSettings(_));
        self.changes.iter().any(limits) || self.changes.iter().all(Change::takes_away)
    }
}

/// One change. `Put` creates or updates the entity; clients send that as a piece of hearth.toml.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Settings of the whole installation.
    #[serde(skip)]
    PutSettings(Settings),
    /// Creates or changes an agent.
    #[serde(skip)]
    PutAgent(Folder, AgentSettings),
    /// Archives an agent and removes its wirings.
    RemoveAgent(Folder),
    /// Like `RemoveAgent`, before its directory is removed. Refused while one of its incarnations is alive. If the
    /// agent is already archived, only that is checked.
    PurgeAgent(Folder),
    /// A person with exactly these roles and memberships.
    #[serde(skip)]
    PutUser(UserSpec),
    /// Removes a person's row, roles and memberships.
    RemoveUser(#[serde(with = "as_text")] UserId),
    /// A chat with at least these wirings.
    #[serde(skip)]
    PutChat(ChatSpec),
    /// Archives a chat and removes its wirings.
    RemoveChat(ChannelName, ForeignId),
    /// Removes the wiring of an agent in a chat.
    RemoveWiring(ChannelName, ForeignId, Folder),
    /// Records that no one is asked about a chat.
    DenyChat(ChannelName, ForeignId),
    /// Revokes that decision.
    AllowChat(ChannelName, ForeignId),
    /// Gives a person a role.
    Grant(#[serde(with = "as_text")] UserId, RoleSpec),
    /// Takes a role from a person.
    Revoke(#[serde(with = "as_text")] UserId, RoleSpec),
    /// Lets a person talk to an agent.
    AddMember(Folder, #[serde(with = "as_text")] UserId),
    /// Removes a membership.
    RemoveMember(Folder, #[serde(with = "as_text")] UserId),
    /// Adds a destination to which an agent may write, under this name.
    AddDestination(Folder, String, DestinationSpec),
    /// Removes an agent's destination by its name.
    RemoveDestination(Folder, String),
    /// Whether and where the console listens.
    #[serde(skip)]
    PutConsole(ConsoleSettings),
    /// A channel instance.
    #[serde(skip)]
    PutChannel(ChannelSpec),
    /// Removes a channel instance; its chats and people stay.
    RemoveChannel(ChannelName),
    /// Keeps a thread from waking an agent.
    Mute(Folder, Address),
    /// Lets it wake the agent again.
    Unmute(Folder, Address),
    /// Mutes a thread in the session state that an agent shares with its programs, by the programs' name for the
    /// thread, with a note.
    MuteName(Folder, String, Option<String>),
    /// Removes a mute by that name, no matter which side set it.
    UnmuteName(Folder, String),
    /// Stops an agent from following a thread.
    EndSticky(Folder, Address),
    /// Stops the live incarnations of an agent at once. The next ones receive this note, if given.
    RestartAgent(Folder, Option<String>),
    /// Stops the running turns of an agent. Their messages end and are not retried.
    StopAgent(Folder),
    /// The same, and the agent gets no work until it is unfrozen.
    FreezeAgent(Folder),
    /// Lets a frozen agent work again.
    UnfreezeAgent(Folder),
    /// Stops the live incarnation of a session at once and cancels its start backoff.
    RestartSession(#[serde(with = "as_text")] SessionId),
    /// Creates the agent's session for this chat or thread, unless it already exists.
    OpenSession(Folder, Address),
    /// Resets a session: the provider's memory of it no longer counts.
    ResetSession(#[serde(with = "as_text")] SessionId),
    /// Sets the provider of a session; none means the agent's provider.
    SetSessionProvider(#[serde(with = "as_text")] SessionId, Option<ProviderKind>),
    /// Chooses something for a session, instead of the agent's setting.
    ChooseForSession(#[serde(with = "as_text")] SessionId, SessionChoice),
    /// Lets an agent reach a host, until that is revoked.
    AllowHost(Folder, #[serde(with = "as_text")] Endpoint),
    /// Keeps an agent from a host, until that is revoked.
    DenyHost(Folder, #[serde(with = "as_text")] Endpoint),
    /// Revokes what was decided about a host and an agent.
    RevokeHost(Folder, #[serde(with = "as_text")] Endpoint),
    /// Allows tool calls of an agent that match a pattern; only in the runs of a task, if there is one.
    AllowTool(Folder, String, Option<TaskId>),
    /// Forgets tool calls that were allowed in advance.
    ForgetToolGrant(Folder, #[serde(with = "as_text")] ToolGrantId),
    /// Removes entities that were created from a file and are not named by the other changes.
    #[serde(skip)]
    Prune,
}

impl Change {
    /// The person whose roles or memberships it changes.
    #[must_use]
    pub const fn person(&self) -> Option<&UserId> {
        match self {
            Self::PutUser(spec) => Some(&spec.id),
            Self::RemoveUser(user)
            | Self::Grant(user, _)
            | Self::Revoke(user, _)
            | Self::AddMember(_, user)
            | Self::RemoveMember(_, user) => Some(user),
            _ => None,
        }
    }

    /// Whether it stores nothing permanently.
    #[must_use]
    pub const fn takes_away(&self) -> bool {
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
            | Self::RevokeHost(..)
            | Self::ForgetToolGrant(..)
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
            | Self::PutConsole(_)
            | Self::PutChannel(_)
            | Self::RestartAgent(..)
            | Self::StopAgent(_)
            | Self::FreezeAgent(_)
            | Self::UnfreezeAgent(_)
            | Self::RestartSession(_)
            | Self::OpenSession(..)
            | Self::ResetSession(_)
            | Self::SetSessionProvider(..)
            | Self::ChooseForSession(..)
            | Self::AllowTool(..)
            | Self::Mute(..)
            | Self::MuteName(..)
            | Self::AllowHost(..)
            | Self::DenyHost(..) => false,
        }
    }
}

/// Where an agent may write, by the names that people use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Time zone of the installation's users (IANA); none is the machine's.
    pub timezone: Option<String>,
    /// Where agents run; none chooses automatically.
    pub runtime: Option<RuntimeKind>,
    /// Image for the agents' containers; none is the one built by `hearth image build`.
    pub image: Option<String>,
    /// Scheduled backups; none makes none.
    pub backup: Option<BackupPlan>,
    /// Bytes of files of ended messages that stay readable in one session.
    pub session_files_max_bytes: Option<u64>,
    /// Prices of models, in the order of their names; they have precedence over the list.
    pub prices: Vec<ModelPrice>,
    /// Budgets.
    pub budgets: Vec<Budget>,
    /// Messages of each person and day that pass although a budget is spent; none is [`Budget::GRACE`].
    pub grace: Option<u32>,
    /// Secrets that are bound to hosts, in the order of their names.
    pub secrets: Vec<BoundSecret>,
    /// Voice messages; none leaves them to the agents.
    pub voice: Option<Voice>,
}

impl Settings {
    /// Default of `session_files_max_bytes`.
    pub const SESSION_FILES: u64 = 256 << 20;
    /// Upper limit for the number of incarnations that may run at once.
    pub const MAX_CONTAINERS: u32 = 1_000;

    /// The price that is configured for a model.
    #[must_use]
    pub fn price_of(&self, model: Option<&str>) -> Option<Price> {
        self.prices.iter().find(|known| model == Some(known.model.as_str())).map(|known| known.price)
    }
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

/// A person as configuration describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSpec {
    /// The person.
    pub id: UserId,
    /// Name that other people see.
    pub name: Option<String>,
    /// Roles that the person is to have.
    pub roles: Vec<RoleSpec>,
    /// Agents they may talk to.
    pub member_of: Vec<Folder>,
}

/// A role by the names that files use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoleSpec {
    /// Written as `owner`.
    Owner,
    /// Written as `admin`: of every agent.
    Admin,
    /// Written as `admin:<folder>`: of one agent.
    AdminOf(Folder),
}

/// A chat as configuration describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatSpec {
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
    /// The agents that listen in the chat.
    pub wirings: Vec<WiringSpec>,
}

/// A wiring as configuration describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WiringSpec {
    /// The agent that listens.
    pub agent: Folder,
    /// When the agent engages with a message.
    pub engage: Engage,
    /// Whose messages engage.
    pub senders: SenderScope,
    /// What happens to the others.
    pub ignored: Ignored,
    /// Which messages share a session.
    pub session: SessionMode,
    /// Wirings with a higher priority are evaluated first.
    pub priority: i32,
    /// Whose messages become context; none is the rule for the chat's `unknown_senders`.
    pub context_from: Option<ContextFrom>,
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
    /// Address of its server, if it differs from its kind's default.
    pub base_url: Option<String>,
    /// Where the key of its signatures is found.
    pub secret: Option<String>,
    /// Where it listens, if its kind does.
    pub listen: Option<SocketAddr>,
    /// The program that connects it, if its kind has one.
    pub program: Option<BridgeProgram>,
    /// Whether the network shows previews of links in what agents write.
    pub link_previews: bool,
    /// What happens in chats in which no agent listens.
    pub unknown_chats: UnknownChats,
    /// Whether a person whose message is held for approval is told so, once.
    pub tell_strangers: bool,
}

impl ChannelSpec {
    /// A channel with a name and a kind, and defaults for everything else.
    #[must_use]
    pub const fn named(name: ChannelName, kind: ChannelKind) -> Self {
        Self {
            name,
            kind,
            token: None,
            base_url: None,
            secret: None,
            listen: None,
            program: None,
            link_previews: false,
            unknown_chats: UnknownChats::Ask,
            tell_strangers: false,
        }
    }
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
            program: row.program.clone(),
            link_previews: row.link_previews,
            unknown_chats: row.unknown_chats,
            tell_strangers: row.tell_strangers,
        }
    }
}
