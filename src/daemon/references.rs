//! The references to secrets in the configuration. Their values are not read here.

use std::ffi::OsString;

use crate::config::env;
use crate::model::address::ChannelName;
use crate::model::channel::ChannelInstance;
use crate::model::entity::{Agent, EnvValue, Folder};
use crate::model::voice::SpeechTool;
use crate::runtime::process::{SecretError, resolve_reference};
use crate::state::{self, Read, Tables};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReferenceUser {
    /// A variable of an agent, or of one of its MCP servers.
    Agent(Folder),
    /// A bound secret.
    Secret(String),
    /// The token or the secret of a channel.
    Channel(ChannelName),
    /// The key of a server for speech, by the name of its section.
    Voice(&'static str),
}

impl std::fmt::Display for ReferenceUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Agent(folder) => write!(f, "agent {folder}"),
            Self::Secret(name) => write!(f, "secret {name}"),
            Self::Channel(name) => write!(f, "channel {name}"),
            Self::Voice(section) => f.write_str(section),
        }
    }
}

/// A reference, and where it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretReference {
    /// The reference: `env:NAME`, `file:PATH` or `cmd:…`.
    pub reference: String,
    /// What uses it.
    pub user: ReferenceUser,
}

/// All references of agents, bound secrets and channels, in the order of their rows.
///
/// # Errors
/// A damaged or unreadable store.
pub fn references(db: &Tables, txn: &Read<'_>) -> Result<Vec<SecretReference>, state::Error> {
    let mut found = Vec::new();
    for row in db.agents.iter(txn)? {
        let (_, agent) = row?;
        if agent.archived.is_none() {
            of_agent(&agent, &mut found);
        }
    }
    let settings = db.settings.get(txn, &())?.unwrap_or_default();
    for secret in settings.secrets {
        found.push(SecretReference { reference: secret.value, user: ReferenceUser::Secret(secret.name) });
    }
    for row in db.channels.iter(txn)? {
        let (_, channel) = row?;
        of_channel(&channel, &mut found);
    }
    let voice = settings.voice.unwrap_or_default();
    let tools =
        [("voice.transcribe", voice.transcribe.map(|by| by.tool)), ("voice.speak", voice.speak.map(|by| by.tool))];
    for (section, tool) in tools {
        if let Some(key) = tool.as_ref().and_then(SpeechTool::key) {
            found.push(SecretReference { reference: key.clone(), user: ReferenceUser::Voice(section) });
        }
    }
    Ok(found)
}

/// The value of a reference, resolved by this process. Blocks while a `cmd:` reference runs, for at most ten seconds.
///
/// # Errors
///
/// [`SecretError`], which names the reference and never a value.
pub fn resolve(reference: &str) -> Result<OsString, SecretError> {
    resolve_reference(reference, &super::runtime::lookup(), &|| false)
}

fn of_agent(agent: &Agent, found: &mut Vec<SecretReference>) {
    let servers = agent.settings.mcp_servers.iter().flat_map(|server| &server.env);
    for (_, value) in agent.settings.env.iter().chain(servers) {
        if let EnvValue::Reference(reference) = value {
            let user = ReferenceUser::Agent(agent.folder.clone());
            found.push(SecretReference { reference: reference.clone(), user });
        }
    }
}

fn of_channel(channel: &ChannelInstance, found: &mut Vec<SecretReference>) {
    for reference in [&channel.token, &channel.secret].into_iter().flatten() {
        let user = ReferenceUser::Channel(channel.name.clone());
        found.push(SecretReference { reference: reference.clone(), user });
    }
}

/// Names of the variables that `env:` references name and that this process does not have.
///
/// # Errors
/// A damaged or unreadable store.
pub fn unset_variables(db: &Tables, txn: &Read<'_>) -> Result<Vec<String>, state::Error> {
    let found = references(db, txn)?;
    let names = found.iter().filter_map(|one| one.reference.strip_prefix("env:"));
    let mut unset: Vec<String> = names.filter(|name| env::env_lookup(name).is_none()).map(str::to_owned).collect();
    unset.sort();
    unset.dedup();
    Ok(unset)
}
