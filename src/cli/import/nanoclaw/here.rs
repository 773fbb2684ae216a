//! Entities that already exist in the store before an import.

use super::super::super::configuration;
use crate::config::Paths;
use crate::contracts::nanoclaw::plan::Known;
use crate::model::configure::DestinationSpec;
use crate::model::entity::{Destination, Folder};
use crate::model::id::AgentId;
use crate::model::input::InboundEvent;
use crate::model::task::TaskOrigin;
use crate::state::{self, DestinationKey, Read, Reader, SeenKey, Tables};

/// Reads the existing entities and the digest of the configuration; no digest if there is no store.
pub(super) fn read(paths: &Paths) -> Result<(Known, Option<u64>), state::Error> {
    match Reader::open(paths.data()) {
        Ok(reader) => reader.read(collect),
        Err(state::Error::NoStore { .. }) => Ok((Known::default(), None)),
        Err(error) => Err(error),
    }
}

fn collect(db: &Tables, txn: &Read<'_>) -> Result<(Known, Option<u64>), state::Error> {
    let all = configuration::collect(db, txn)?;
    let names = |chat: &configuration::ChatEntry| (chat.spec.channel.clone(), chat.spec.platform_id.clone());
    let known = Known {
        denied: all.chats.iter().filter(|chat| chat.denied.is_some()).map(names).collect(),
        destinations: destinations(db, txn, &all)?,
        tasks: tasks(db, txn)?,
        agents: all.agents.into_iter().map(|agent| (agent.folder, agent.settings)).collect(),
        users: all.users.into_iter().map(|user| user.spec).collect(),
        chats: all.chats.into_iter().map(|chat| chat.spec).collect(),
        channels: all.channels.into_iter().map(|channel| channel.name).collect(),
    };
    Ok((known, all.digest))
}

type Named = (Folder, String, DestinationSpec);

fn destinations(db: &Tables, txn: &Read<'_>, all: &configuration::Configuration) -> Result<Vec<Named>, state::Error> {
    let folder = |id| all.agents.iter().find(|agent| agent.id == id).map(|agent| agent.folder.clone());
    let mut found = Vec::new();
    for row in db.destinations.iter(txn)? {
        let (DestinationKey { agent, name }, to) = row?;
        let to = match to {
            Destination::Chat(id) => all
                .chats
                .iter()
                .find(|chat| chat.id == id)
                .map(|chat| DestinationSpec::Chat(chat.spec.channel.clone(), chat.spec.platform_id.clone())),
            Destination::Agent(id) => folder(id).map(DestinationSpec::Agent),
        };
        if let (Some(agent), Some(to)) = (folder(agent), to) {
            found.push((agent, name.as_str().to_owned(), to));
        }
    }
    Ok(found)
}

fn tasks(db: &Tables, txn: &Read<'_>) -> Result<Vec<TaskOrigin>, state::Error> {
    let mut found = Vec::new();
    for row in db.tasks.iter(txn)? {
        let (_, task) = row?;
        if matches!(task.origin, TaskOrigin::Imported(_)) {
            found.push(task.origin);
        }
    }
    Ok(found)
}

/// Whether an event has already arrived.
pub(super) fn has_seen(paths: &Paths, event: &InboundEvent) -> Result<bool, state::Error> {
    let Some(id) = &event.platform_message else { return Ok(false) };
    let reader = match Reader::open(paths.data()) {
        Ok(reader) => reader,
        Err(state::Error::NoStore { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    reader.read(|db, txn| {
        let seen = db.seen_events.get(txn, &SeenKey::of(&event.source, id))?;
        Ok(seen.is_some_and(|seen| seen.platform_message == *id))
    })
}

pub(super) fn agent_id(paths: &Paths, folder: &Folder) -> Result<Option<AgentId>, state::Error> {
    let all = configuration::read(paths)?;
    Ok(all.agents.iter().find(|agent| agent.folder == *folder).map(|agent| agent.id))
}
