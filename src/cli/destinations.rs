//! `hearth destinations`: where agents may write.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::listed::{self, Column, Listed};
use super::lookup::{self, ChatRef};
use super::{Done, change, chats, configuration, entity};
use crate::config::Paths;
use crate::model::configure::{Change, DestinationSpec};
use crate::model::entity::Destination;
use crate::model::entity::Folder;
use crate::state::{self, DestinationKey, Read, Reader, Tables};

#[derive(Debug, Subcommand)]
pub(super) enum DestinationsCommand {
    /// List where agents may write
    List {
        /// Only of this agent
        agent: Option<String>,
    },
    /// Let an agent write to a chat or to another agent
    Add {
        /// The agent's folder
        agent: String,
        /// What the agent calls it: lower-case letters, digits and `-`
        name: String,
        #[command(flatten)]
        target: DestinationArg,
    },
    /// Remove a destination
    Remove {
        /// The agent's folder
        agent: String,
        /// What the agent calls it
        name: String,
    },
}

/// What a destination is.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct DestinationArg {
    /// A chat: mg7, or channel/platform-id
    #[arg(long)]
    chat: Option<ChatRef>,
    /// Folder of another agent
    #[arg(long, value_name = "FOLDER")]
    to_agent: Option<String>,
}

/// Lists and changes destinations.
pub(super) fn destinations(paths: &Paths, command: &DestinationsCommand, json: bool) -> Done {
    match command {
        DestinationsCommand::List { agent } => {
            if let Some(agent) = agent {
                entity::known_agent(&configuration::read(paths)?, agent)?;
            }
            let all = Reader::open(paths.data())?.read(|db, txn| collect(db, txn, agent.as_deref()))?;
            listed::list(&all, json, "no destinations")
        }
        DestinationsCommand::Add { agent, name, target } => {
            let to = match (&target.chat, &target.to_agent) {
                (Some(chat), _) => {
                    let at = chats::address(&configuration::read(paths)?, chat)?;
                    DestinationSpec::Chat(at.channel, at.platform_id)
                }
                (None, peer) => DestinationSpec::Agent(Folder::new(peer.as_deref().unwrap_or_default())?),
            };
            change::edit(paths, Change::AddDestination(Folder::new(agent.as_str())?, name.clone(), to), json)
        }
        DestinationsCommand::Remove { agent, name } => {
            change::edit(paths, Change::RemoveDestination(Folder::new(agent.as_str())?, name.clone()), json)
        }
    }
}

/// Where an agent may write.
#[derive(Debug, Serialize)]
struct DestinationEntry {
    agent: String,
    /// `chat` or `agent`.
    kind: &'static str,
    name: String,
    to: String,
}

impl Listed for DestinationEntry {
    const PLURAL: &'static str = "destinations";
    const COLUMNS: &'static [Column<Self>] =
        &[("AGENT", |one| one.agent.clone()), ("NAME", |one| one.name.clone()), ("TO", |one| one.to.clone())];
}

fn collect(db: &Tables, txn: &Read<'_>, wanted: Option<&str>) -> Result<Vec<DestinationEntry>, state::Error> {
    let mut all = Vec::new();
    for row in db.destinations.iter(txn)? {
        let (DestinationKey { agent, name }, destination) = row?;
        let agent = lookup::folder(db, txn, agent)?;
        if wanted.is_some_and(|wanted| wanted != agent) {
            continue;
        }
        let (kind, to) = match destination {
            Destination::Chat(id) => {
                let chat = db.chats.get(txn, &id)?;
                let place = chat.map(|chat| format!("{}/{}", chat.channel, chat.platform_id));
                ("chat", place.unwrap_or_else(|| id.to_string()))
            }
            Destination::Agent(id) => ("agent", lookup::folder(db, txn, id)?),
        };
        all.push(DestinationEntry { agent, kind, name: name.as_str().to_owned(), to });
    }
    Ok(all)
}
