//! Chats and their wirings, as configured by an operator. Adding a wiring adds a destination for its agent; removing it
//! removes the destination.

use crate::Result;
use crate::entities::change::{ChangeResult, ChangedAgents};
use crate::entities::{change, threads};
use crate::model::address::{ChannelName, ForeignId};
use crate::model::configure::{ChatSpec, WiringSpec};
use crate::model::entity::{Chat, Destination, Engage, Folder, Origin, Wiring, normalize_name};
use crate::model::id::{AgentId, ChatId};
use crate::model::input::InboundEvent;
use crate::model::report::{Action, ChangeReport};
use crate::rows::{agents, chats};
use crate::rules::texts;
use crate::state::{DestinationKey, Owned, Text, WiringKey};
use crate::tx::Tx;
use std::borrow::Cow;

/// Creates or changes a chat and adds or changes these wirings.
pub(crate) fn put_chat(
    tx: &mut Tx<'_, '_>,
    spec: &ChatSpec,
    origin: Origin,
    after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    let (id, action) = match chats::find(tx, &spec.channel, &spec.platform_id)? {
        Some((id, before)) => {
            let now = Chat {
                name: spec.name.clone().or_else(|| before.name.clone()),
                group: spec.group,
                unknown_senders: spec.unknown_senders,
                ..before.clone()
            };
            (id, alter(tx, id, &before, &now, after)?)
        }
        None => (chats::insert(tx, &new_chat(tx, spec, origin))?, Action::Created),
    };
    let place = format!("{}/{}", spec.channel, spec.platform_id);
    let mut reports = vec![change::report(format!("chat {place}"), action)];
    for wiring in &spec.wirings {
        let Some((agent, _)) = agents::find(tx, &wiring.agent)? else {
            return Ok(Err(format!(
                "chat {place} is wired to agent {0}, which does not exist; add it with `hearth agents add {0}`",
                wiring.agent
            )));
        };
        let action = put(tx, id, agent, wiring, origin)?;
        if action != Action::Unchanged {
            after.changed.insert(agent);
        }
        reports.push(change::report(entity(&place, &wiring.agent), action));
    }
    Ok(Ok(reports))
}

/// Stores a chat if it changed. Agents that have it as a destination see its new name.
pub(crate) fn alter(
    tx: &mut Tx<'_, '_>,
    id: ChatId,
    before: &Chat,
    now: &Chat,
    after: &mut ChangedAgents,
) -> Result<Action> {
    if now == before {
        return Ok(Action::Unchanged);
    }
    tx.db.chats.put(tx, &id, now)?;
    after.changed.extend(chats::listeners(tx, id)?.into_iter().map(|(agent, _, _)| agent));
    Ok(Action::Updated)
}

/// Archives a chat and removes its wirings.
pub(crate) fn remove_chat(
    tx: &mut Tx<'_, '_>,
    channel: &ChannelName,
    platform_id: &ForeignId,
    after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    let place = format!("{channel}/{platform_id}");
    let Some((id, mut chat)) = chats::find(tx, channel, platform_id)? else {
        return Ok(Err(texts::missing("chat", place)));
    };
    let mut reports: Vec<ChangeReport> = Vec::new();
    for (agent_id, agent, _) in chats::listeners(tx, id)? {
        unwire(tx, id, agent_id)?;
        after.changed.insert(agent_id);
        reports.push(change::report(entity(&place, &agent.folder), Action::Removed));
    }
    chat.archived = Some(tx.now.wall);
    tx.db.chats.put(tx, &id, &chat)?;
    threads::forget_chat(tx, channel, platform_id)?;
    reports.push(change::report(format!("chat {place}"), Action::Removed));
    Ok(Ok(reports))
}

/// Removes one wiring.
pub(crate) fn remove(
    tx: &mut Tx<'_, '_>,
    channel: &ChannelName,
    platform_id: &ForeignId,
    folder: &Folder,
    after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    let place = format!("{channel}/{platform_id}");
    let chat = chats::find(tx, channel, platform_id)?.map(|(id, _)| id);
    let agent = agents::find(tx, folder)?.map(|(id, _)| id);
    let (Some(chat), Some(agent)) = (chat, agent) else {
        return Ok(Err(no_wiring(&place, folder)));
    };
    if !unwire(tx, chat, agent)? {
        return Ok(Err(no_wiring(&place, folder)));
    }
    after.changed.insert(agent);
    Ok(Ok(vec![change::report(entity(&place, folder), Action::Removed)]))
}

/// Removes every wiring of an agent.
pub(crate) fn remove_all_of(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<()> {
    for (Owned { id: chat, .. }, ()) in tx.db.wirings_by_agent.collect_prefix(tx, &agent, usize::MAX)? {
        unwire(tx, chat, agent)?;
    }
    Ok(())
}

fn no_wiring(place: &str, folder: &Folder) -> String {
    texts::missing("wiring", format_args!("{place} -> {folder}"))
}

fn entity(place: &str, folder: &Folder) -> String {
    format!("wiring {place} -> {folder}")
}

fn new_chat(tx: &Tx<'_, '_>, spec: &ChatSpec, origin: Origin) -> Chat {
    Chat {
        channel: spec.channel.clone(),
        platform_id: spec.platform_id.clone(),
        name: spec.name.clone(),
        group: spec.group,
        unknown_senders: spec.unknown_senders,
        denied: None,
        origin,
        created: tx.now.wall,
        archived: None,
    }
}

/// Creates or changes a wiring.
pub(crate) fn put(
    tx: &mut Tx<'_, '_>,
    chat: ChatId,
    agent: AgentId,
    spec: &WiringSpec,
    origin: Origin,
) -> Result<Action> {
    let before = tx.db.wirings.get(tx, &WiringKey { chat, agent })?;
    let wiring = Wiring {
        engage: spec.engage.clone(),
        senders: spec.senders,
        ignored: spec.ignored,
        session: spec.session,
        priority: spec.priority,
        context_from: spec.context_from,
        origin: before.as_ref().map_or(origin, |wiring| wiring.origin),
        created: before.as_ref().map_or(tx.now.wall, |wiring| wiring.created),
    };
    tx.db.wirings.put(tx, &WiringKey { chat, agent }, &wiring)?;
    let Some(before) = before else {
        add_destination(tx, chat, agent)?;
        return Ok(Action::Created);
    };
    if before.engage == Engage::MentionSticky && wiring.engage != before.engage {
        let row = tx.db.chats.require(tx, &chat)?;
        threads::end_in_chat(tx, agent, &row.channel, &row.platform_id)?;
    }
    Ok(if before == wiring { Action::Unchanged } else { Action::Updated })
}

fn unwire(tx: &mut Tx<'_, '_>, chat: ChatId, agent: AgentId) -> Result<bool> {
    let row = tx.db.chats.require(tx, &chat)?;
    threads::end_in_chat(tx, agent, &row.channel, &row.platform_id)?;
    for (key, destination) in tx.db.destinations.collect_prefix(tx, &agent, usize::MAX)? {
        if destination == Destination::Chat(chat) {
            tx.db.destinations.delete(tx, &key)?;
        }
    }
    tx.db.wirings.delete(tx, &WiringKey { chat, agent })
}

/// Adds the chat to the agent's destinations, named after the chat or else the channel. `-2`, `-3` … are tried until
/// the name is free.
fn add_destination(tx: &mut Tx<'_, '_>, chat: ChatId, agent: AgentId) -> Result<()> {
    let row = tx.db.chats.require(tx, &chat)?;
    let known = tx.db.destinations.collect_prefix(tx, &agent, usize::MAX)?;
    if known.iter().any(|(_, destination)| *destination == Destination::Chat(chat)) {
        return Ok(());
    }
    let base = normalize_name(&row.name.unwrap_or_else(|| format!("{}-{chat}", row.channel)));
    let base: String = base.chars().take(NAME_MAX).collect();
    let taken = |name: &str| known.iter().any(|(known, _)| known.name.as_str() == name);
    let free = (1_u32..).map(|n| if n == 1 { base.clone() } else { format!("{base}-{n}") }).find(|name| !taken(name));
    let Some(name) = free else { return Ok(()) };
    tx.db.destinations.put(tx, &DestinationKey { agent, name: Text::new(name)? }, &Destination::Chat(chat))
}

/// Maximum length of a destination's name in characters, without its number.
const NAME_MAX: usize = 64;

/// Updates a chat's name and group flag from an event. The flag is only ever set, because adapters do not report that a
/// chat is no group. Agents that have the chat as a destination see its new name.
pub(crate) fn refresh(tx: &mut Tx<'_, '_>, id: ChatId, chat: &mut Cow<'_, Chat>, event: &InboundEvent) -> Result<()> {
    let name = event.chat_name.as_ref().filter(|name| !name.is_empty()).or(chat.name.as_ref());
    let group = chat.group || event.group;
    if name == chat.name.as_ref() && group == chat.group {
        return Ok(());
    }
    let now = Chat { name: name.cloned(), group, ..Chat::clone(chat) };
    let mut after = ChangedAgents::default();
    alter(tx, id, chat, &now, &mut after)?;
    *chat = Cow::Owned(now);
    change::renew_contexts(tx, &mut after)
}
