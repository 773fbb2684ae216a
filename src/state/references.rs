//! Files and commands that a store causes the daemon's user to read and run when its agents and channels start. Before
//! a foreign store is accepted, the operator must confirm them.

use super::Read;
use super::error::Result;
use super::meta::Meta;
use super::reader::Reader;
use super::schema::Tables;
use crate::model::approval::ApprovalSubject;
use crate::model::entity::{AgentSettings, EnvValue, McpServer};

/// A store that is about to be put in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The id of its installation.
    pub install: u64,
    /// Files it reads and commands it runs.
    pub references: Vec<Reference>,
}

/// A file that is read or a command that is run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Reference {
    /// Its location, like `agent main, API_KEY`.
    pub place: String,
    /// `file:PATH`, `cmd:COMMAND LINE`, or the program of an agent that is not confined.
    pub reference: String,
}

/// Decides whether a store may be put in place. The error is the reason.
pub type Agree<'a> = &'a dyn Fn(&Incoming) -> std::result::Result<(), String>;

impl Incoming {
    /// Collects the references of a store.
    pub(crate) fn of(reader: &Reader) -> Result<Self> {
        reader.read(|db, txn| {
            let Meta { install, .. } = db.meta.require(txn, &())?;
            Ok(Self { install, references: references(db, txn)? })
        })
    }
}

/// All references, in the order of the tables. An unreadable row is skipped: it cannot take effect either.
fn references(db: &Tables, txn: &Read<'_>) -> Result<Vec<Reference>> {
    let mut found = Vec::new();
    for (_, channel) in db.channels.iter(txn)?.flatten() {
        for (key, text) in [("token", &channel.token), ("secret", &channel.secret)] {
            add(&mut found, &format!("channel {}, {key}", channel.name), text.as_deref());
        }
    }
    for (_, agent) in db.agents.iter(txn)?.flatten() {
        of_agent(&mut found, &format!("agent {}", agent.folder), &agent.settings);
    }
    for (id, approval) in db.approvals.iter(txn)?.flatten() {
        if let ApprovalSubject::McpServer { server, .. } = &approval.about {
            of_server(&mut found, &format!("approval {id}"), server);
        }
    }
    Ok(found)
}

fn of_agent(found: &mut Vec<Reference>, place: &str, settings: &AgentSettings) {
    if settings.unconfined && !settings.command.is_empty() {
        found.push(Reference { place: format!("{place}, unconfined"), reference: settings.command.join(" ") });
    }
    of_env(found, place, &settings.env);
    settings.mcp_servers.iter().for_each(|server| of_server(found, place, server));
}

fn of_server(found: &mut Vec<Reference>, place: &str, server: &McpServer) {
    of_env(found, &format!("{place}, MCP server {}", server.name), &server.env);
}

fn of_env(found: &mut Vec<Reference>, place: &str, env: &[(String, EnvValue)]) {
    for (name, value) in env {
        if let EnvValue::Reference(text) = value {
            add(found, &format!("{place}, {name}"), Some(text));
        }
    }
}

/// Skips `env:` references: a variable is neither a file nor a command.
fn add(found: &mut Vec<Reference>, place: &str, text: Option<&str>) {
    if let Some(text) = text.filter(|text| !text.starts_with("env:")) {
        found.push(Reference { place: place.to_owned(), reference: text.to_owned() });
    }
}
