//! What an operator wants to be different, as a line of the socket: a piece of hearth.toml, and what no file says.

use serde::{Deserialize, Serialize};

use crate::config::file::{self, BadFile};
use crate::model::address::{Address, ChannelName, ForeignId, UserId};
use crate::model::configure::{Change, Configure, DestinationSpec};
use crate::model::entity::{Folder, Origin, ProviderKind};
use crate::model::id::SessionId;

/// Changes that happen together or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRequest {
    /// Text of a hearth.toml, whole or in part; empty for none.
    pub toml: String,
    /// What comes after that.
    pub edits: Vec<EditJson>,
    /// Whether a file asks, or a command.
    pub from_file: bool,
    /// Removes what a file made and this one does not name.
    pub prune: bool,
    /// Only say what would change.
    pub dry_run: bool,
    /// Digest of the configuration that was looked at; if it is another by now, nothing is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
}

/// One thing that no file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "edit", rename_all = "snake_case")]
pub enum EditJson {
    /// Archives an agent.
    RemoveAgent {
        /// Its folder.
        agent: String,
    },
    /// Archives an agent whose directory is going to be removed.
    PurgeAgent {
        /// Its folder.
        agent: String,
    },
    /// Removes a person.
    RemoveUser {
        /// Who.
        user: String,
    },
    /// Archives a chat.
    RemoveChat(PlaceJson),
    /// Decides that a chat is not to be asked about.
    DenyChat(PlaceJson),
    /// Takes that back.
    AllowChat(PlaceJson),
    /// Removes a wiring.
    RemoveWiring {
        /// Where.
        place: PlaceJson,
        /// Whose.
        agent: String,
    },
    /// Gives a role.
    Grant {
        /// Who.
        user: String,
        /// `owner`, `admin` or `admin:<folder>`.
        role: String,
    },
    /// Takes a role.
    Revoke {
        /// Who.
        user: String,
        /// `owner`, `admin` or `admin:<folder>`.
        role: String,
    },
    /// Lets somebody talk to an agent.
    AddMember {
        /// Which.
        agent: String,
        /// Who.
        user: String,
    },
    /// Takes that back.
    RemoveMember {
        /// Which.
        agent: String,
        /// Who.
        user: String,
    },
    /// Lets an agent write to a chat.
    AddDestination {
        /// Who writes.
        agent: String,
        /// What it calls the chat.
        name: String,
        /// The chat.
        place: PlaceJson,
    },
    /// Lets an agent write to another one.
    AddPeer {
        /// Who writes.
        agent: String,
        /// What it calls the other one.
        name: String,
        /// The other one's folder.
        peer: String,
    },
    /// Takes a destination away.
    RemoveDestination {
        /// Whose.
        agent: String,
        /// Its name.
        name: String,
    },
    /// Removes a channel.
    RemoveChannel {
        /// Its name.
        channel: String,
    },
    /// Keeps a thread from waking an agent.
    Mute {
        /// Which agent.
        agent: String,
        /// Where.
        place: ThreadJson,
    },
    /// Takes that back.
    Unmute {
        /// Which agent.
        agent: String,
        /// Where.
        place: ThreadJson,
    },
    /// Mutes a thread by the name that an agent's programs have for it.
    MuteName {
        /// Which agent.
        agent: String,
        /// The programs' name.
        name: String,
        /// What is noted with it.
        note: Option<String>,
    },
    /// Takes that back.
    UnmuteName {
        /// Which agent.
        agent: String,
        /// The programs' name.
        name: String,
    },
    /// Starts an agent again.
    RestartAgent {
        /// Its folder.
        agent: String,
        /// What the next incarnations are told.
        message: Option<String>,
    },
    /// Ends the incarnation of a session, or its wait for a start.
    RestartSession {
        /// Its id, like `se3`.
        session: String,
    },
    /// Makes the session of an agent in a chat or thread.
    OpenSession {
        /// Which agent.
        agent: String,
        /// Where.
        place: ThreadJson,
    },
    /// Lets a session begin anew.
    ResetSession {
        /// Its id, like `se3`.
        session: String,
    },
    /// Lets something else drive a session.
    SetSessionProvider {
        /// Its id, like `se3`.
        session: String,
        /// `echo`, `command` or `claude`; none is what drives its agent.
        provider: Option<String>,
    },
    /// Ends that an agent goes on listening in a thread.
    EndSticky {
        /// Which agent.
        agent: String,
        /// Where.
        place: ThreadJson,
    },
}

/// A chat or a thread of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadJson {
    /// The chat.
    pub chat: PlaceJson,
    /// The thread, as the channel names it; none is the whole chat.
    pub thread: Option<String>,
}

/// A chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceJson {
    /// Channel instance.
    pub channel: String,
    /// Chat, as the channel names it.
    pub platform_id: String,
}

/// Why a change cannot even be tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadChange {
    /// The piece of hearth.toml.
    #[error(transparent)]
    File(#[from] BadFile),
    /// A name in an edit.
    #[error("{0}")]
    Edit(String),
}

impl ChangeRequest {
    /// The input that it asks for; `name` is what messages call the file.
    ///
    /// # Errors
    /// [`BadChange`] with everything that is wrong with the file, or the first wrong edit.
    pub fn configure(&self, name: &str) -> Result<Configure, BadChange> {
        // A file without a word is no file: what wrote it failed, and pruning by it would remove everything.
        let none = self.toml.is_empty() && !self.from_file;
        let mut changes = if none { Vec::new() } else { file::parse(name, &self.toml)?.changes };
        for edit in &self.edits {
            changes.push(edit.change().map_err(BadChange::Edit)?);
        }
        if self.prune {
            changes.push(Change::Prune);
        }
        let origin = if self.from_file { Origin::File } else { Origin::Runtime };
        Ok(Configure { changes, origin, expected: self.expected })
    }
}

impl EditJson {
    fn change(&self) -> Result<Change, String> {
        Ok(match self {
            Self::RemoveAgent { agent } => Change::RemoveAgent(folder(agent)?),
            Self::PurgeAgent { agent } => Change::PurgeAgent(folder(agent)?),
            Self::RemoveUser { user } => Change::RemoveUser(person(user)?),
            Self::RemoveChat(place) => place.names().map(|(channel, id)| Change::RemoveChat(channel, id))?,
            Self::DenyChat(place) => place.names().map(|(channel, id)| Change::DenyChat(channel, id))?,
            Self::AllowChat(place) => place.names().map(|(channel, id)| Change::AllowChat(channel, id))?,
            Self::RemoveWiring { place, agent } => {
                let (channel, id) = place.names()?;
                Change::RemoveWiring(channel, id, folder(agent)?)
            }
            Self::Grant { user, role } => Change::Grant(person(user)?, file::role(role)?),
            Self::Revoke { user, role } => Change::Revoke(person(user)?, file::role(role)?),
            Self::AddMember { agent, user } => Change::AddMember(folder(agent)?, person(user)?),
            Self::RemoveMember { agent, user } => Change::RemoveMember(folder(agent)?, person(user)?),
            Self::AddDestination { agent, name, place } => {
                let (channel, id) = place.names()?;
                Change::AddDestination(folder(agent)?, name.clone(), DestinationSpec::Chat(channel, id))
            }
            Self::AddPeer { agent, name, peer } => {
                Change::AddDestination(folder(agent)?, name.clone(), DestinationSpec::Agent(folder(peer)?))
            }
            Self::RemoveDestination { agent, name } => Change::RemoveDestination(folder(agent)?, name.clone()),
            Self::RemoveChannel { channel } => Change::RemoveChannel(channel_name(channel)?),
            Self::Mute { agent, place } => Change::Mute(folder(agent)?, place.address()?),
            Self::Unmute { agent, place } => Change::Unmute(folder(agent)?, place.address()?),
            Self::MuteName { agent, name, note } => {
                let note = note.as_deref().map(|note| short("the note", note)).transpose()?;
                Change::MuteName(folder(agent)?, short("the name", name)?, note)
            }
            Self::UnmuteName { agent, name } => Change::UnmuteName(folder(agent)?, name.clone()),
            Self::RestartAgent { agent, message } => Change::RestartAgent(folder(agent)?, message.clone()),
            Self::RestartSession { session } => Change::RestartSession(session_id(session)?),
            Self::OpenSession { agent, place } => Change::OpenSession(folder(agent)?, place.address()?),
            Self::ResetSession { session } => Change::ResetSession(session_id(session)?),
            Self::SetSessionProvider { session, provider } => {
                let provider = provider.as_deref().map(driver).transpose()?;
                Change::SetSessionProvider(session_id(session)?, provider)
            }
            Self::EndSticky { agent, place } => Change::EndSticky(folder(agent)?, place.address()?),
        })
    }
}

impl PlaceJson {
    fn names(&self) -> Result<(ChannelName, ForeignId), String> {
        let channel = channel_name(&self.channel)?;
        let id = ForeignId::new("the platform id", self.platform_id.as_str()).map_err(|error| error.to_string())?;
        Ok((channel, id))
    }
}

impl ThreadJson {
    fn address(&self) -> Result<Address, String> {
        let (channel, platform_id) = self.chat.names()?;
        let thread = ForeignId::optional("the thread", self.thread.clone()).map_err(|error| error.to_string())?;
        Ok(Address { channel, platform_id, thread })
    }
}

fn channel_name(text: &str) -> Result<ChannelName, String> {
    ChannelName::new(text).map_err(|error| error.to_string())
}

fn short(what: &'static str, text: &str) -> Result<String, String> {
    let text = ForeignId::optional(what, Some(text.to_owned())).map_err(|error| error.to_string())?;
    text.map(|text| text.as_str().to_owned()).ok_or_else(|| format!("{what} is empty"))
}

fn folder(text: &str) -> Result<Folder, String> {
    Folder::new(text).map_err(|error| error.to_string())
}

fn session_id(text: &str) -> Result<SessionId, String> {
    text.parse().map_err(|_| format!("`{text}` is not a session; write an id like se3"))
}

fn driver(text: &str) -> Result<ProviderKind, String> {
    let mut known = [ProviderKind::Echo, ProviderKind::Command, ProviderKind::Claude].into_iter();
    known
        .find(|kind| kind.as_str() == text)
        .ok_or_else(|| format!("`{text}` is not a provider; use echo, command or claude"))
}

fn person(text: &str) -> Result<UserId, String> {
    UserId::parse(text).map_err(|error| error.to_string())
}
