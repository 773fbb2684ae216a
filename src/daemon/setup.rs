//! First-run setup for terminal conversations: creates a missing owner, agent and wired chat.

use crate::channel::terminal;
use crate::config::nearest;
use crate::model::address::{BadName, ForeignId, UserId};
use crate::model::configure::{Change, ChatSpec, Configure, RoleSpec, UserSpec, WiringSpec};
use crate::model::entity::{
    AgentSettings, Engage, Folder, Ignored, Origin, Role, SenderScope, SessionMode, Trust, UnknownSenders,
};
use crate::model::id::AgentId;
use crate::state::{self, ChatKey, GrantKey, PersonKey, Read, RoleHolderKey, Tables, Text, WiringKey};

/// Folder of the agent that is created if none exists.
const FIRST_AGENT: &str = "main";

/// Why a terminal conversation cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are several agents and none is the default.
    #[error("there are several agents: choose one with --agent ({0}), or set default_agent in hearth.toml")]
    WhichAgent(String),
    /// The agent that was asked for does not exist.
    #[error("agent {0} not found; {1}")]
    NoSuchAgent(String, String),
    /// The name cannot be an agent's.
    #[error(transparent)]
    Folder(#[from] crate::model::folder::BadFolder),
    /// One of Hearth's own names.
    #[error(transparent)]
    Name(#[from] BadName),
    #[error(transparent)]
    State(#[from] state::Error),
}

/// The agent to talk to, and the changes that are needed first.
#[derive(Debug)]
pub struct Plan {
    /// The agent's folder.
    pub agent: Folder,
    /// Creates missing entities; none if nothing is missing.
    pub configure: Option<Configure>,
}

/// Finds the agent that a terminal talks to: the requested, the only, or the default one. If none exists, plans a new
/// one.
///
/// # Errors
/// [`Error`] if it is not clear which.
pub fn plan(db: &Tables, txn: &Read<'_>, asked: Option<&str>, uid: u32) -> Result<Plan, Error> {
    let agents = agents(db, txn)?;
    let mut changes = Vec::new();
    let agent = match (asked, agents.as_slice()) {
        (None, []) => {
            let folder = Folder::new(FIRST_AGENT)?;
            changes.push(Change::PutAgent(folder.clone(), first_agent()));
            folder
        }
        (None, [(_, only)]) => only.clone(),
        (None, several) => default_agent(db, txn)?.ok_or_else(|| Error::WhichAgent(names(several)))?,
        (Some(asked), known) => {
            let found = known.iter().find(|(_, folder)| folder.as_str() == asked);
            let (_, folder) = found.ok_or_else(|| Error::NoSuchAgent(asked.to_owned(), advice(asked, known)))?;
            folder.clone()
        }
    };
    let id = agents.iter().find(|(_, folder)| *folder == agent).map(|(id, _)| *id);
    changes.extend(owner(db, txn, uid)?);
    changes.extend(chat(db, txn, &agent, id)?);
    let configure = (!changes.is_empty()).then_some(Configure::new(changes, Origin::Runtime));
    Ok(Plan { agent, configure })
}

/// The provider of an agent; empty if it does not exist.
///
/// # Errors
/// A damaged or unreadable store.
pub fn provider(db: &Tables, txn: &Read<'_>, agent: &Folder) -> Result<String, state::Error> {
    let Some(id) = db.agents_by_folder.get(txn, &Text::new(agent.as_str())?)? else { return Ok(String::new()) };
    Ok(db.agents.require(txn, &id)?.settings.provider.as_str().to_owned())
}

/// Ids of all owners, in the order of their grants.
///
/// # Errors
/// A damaged or unreadable store.
pub fn owners(db: &Tables, txn: &Read<'_>) -> Result<Vec<String>, state::Error> {
    let mut owners = Vec::new();
    for (RoleHolderKey { role, person, .. }, ()) in db.roles_by_grant.collect_prefix(txn, &Role::Owner, usize::MAX)? {
        owners.push(db.roles.require(txn, &GrantKey { person, role })?.user.to_string());
    }
    Ok(owners)
}

/// The person at a terminal.
///
/// # Errors
/// Never for a number.
pub fn user(uid: u32) -> Result<UserId, BadName> {
    let channel = crate::model::address::ChannelName::new(terminal::NAME)?;
    Ok(UserId::new(channel, ForeignId::new("the user's id", uid.to_string())?))
}

/// Whether an installation still has to get its first owner: it has neither users nor agents.
///
/// # Errors
/// A damaged or unreadable store.
pub fn lacks_first_owner(db: &Tables, txn: &Read<'_>) -> Result<bool, state::Error> {
    Ok(db.users.len(txn)? == 0 && db.agents.len(txn)? == 0)
}

/// Makes a person at a terminal owner.
///
/// # Errors
/// Never for a number.
pub fn grant_owner(uid: u32) -> Result<Change, BadName> {
    Ok(Change::Grant(user(uid)?, RoleSpec::Owner))
}

fn agents(db: &Tables, txn: &Read<'_>) -> Result<Vec<(AgentId, Folder)>, state::Error> {
    let mut agents = Vec::new();
    for row in db.agents.iter(txn)? {
        let (id, agent) = row?;
        if agent.archived.is_none() {
            agents.push((id, agent.folder));
        }
    }
    Ok(agents)
}

fn default_agent(db: &Tables, txn: &Read<'_>) -> Result<Option<Folder>, state::Error> {
    let default = db.settings.get(txn, &())?.and_then(|settings| settings.default_agent);
    match default {
        Some(folder) if db.agents_by_folder.contains(txn, &Text::from(&folder))? => Ok(Some(folder)),
        _ => Ok(None),
    }
}

fn names(agents: &[(AgentId, Folder)]) -> String {
    agents.iter().map(|(_, folder)| folder.as_str()).collect::<Vec<_>>().join(", ")
}

fn advice(asked: &str, agents: &[(AgentId, Folder)]) -> String {
    match nearest(asked, agents.iter().map(|(_, folder)| folder.as_str())) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if agents.is_empty() => "there are none yet, and `hearth up` without --agent creates one".to_owned(),
        None => format!("choose one of {}", names(agents)),
    }
}

pub(super) fn first_agent() -> AgentSettings {
    let settings = AgentSettings { trust: Trust::Main, ..AgentSettings::named(FIRST_AGENT.to_owned()) };
    AgentSettings { network: settings.default_network(), ..settings }
}

/// The user who owns the data directory becomes the owner of the installation. An existing row is kept.
fn owner(db: &Tables, txn: &Read<'_>, uid: u32) -> Result<Option<Change>, Error> {
    let id = user(uid)?;
    if db.users.contains(txn, &PersonKey::of(&id))? {
        return Ok(None);
    }
    Ok(Some(Change::PutUser(UserSpec { id, name: None, roles: vec![RoleSpec::Owner], member_of: Vec::new() })))
}

fn chat(db: &Tables, txn: &Read<'_>, agent: &Folder, id: Option<AgentId>) -> Result<Option<Change>, Error> {
    let address = terminal::address(agent)?;
    let known = db.chats_by_address.get(txn, &ChatKey::of(&address.channel, &address.platform_id))?;
    if let (Some(chat), Some(agent)) = (known, id)
        && db.wirings.contains(txn, &WiringKey { chat, agent })?
    {
        return Ok(None);
    }
    let wiring = WiringSpec {
        agent: agent.clone(),
        engage: Engage::Pattern(".".to_owned()),
        senders: SenderScope::All,
        ignored: Ignored::Drop,
        session: SessionMode::Shared,
        priority: 0,
        context_from: None,
    };
    Ok(Some(Change::PutChat(ChatSpec {
        channel: address.channel,
        platform_id: address.platform_id,
        name: Some("terminal".to_owned()),
        group: false,
        unknown_senders: UnknownSenders::Strict,
        wirings: vec![wiring],
    })))
}
