//! Chats and their wirings, as an operator describes them. A wiring gives its agent a destination, and takes it away.

use super::configure::{Aftermath, Made, missing, report};
use super::{Cx, Result, agents, chats, threads};
use crate::model::address::{ChannelName, ForeignId};
use crate::model::configure::{ChatSpec, WiringSpec};
use crate::model::entity::{Chat, Destination, Engage, Folder, Origin, Wiring, normalize_name};
use crate::model::id::{AgentId, ChatId};
use crate::model::report::{Action, ChangeReport};
use crate::state::{ForeignKey, Text, Write};

/// Makes a chat be like this and have at least these wirings.
pub(super) fn put_chat(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    spec: &ChatSpec,
    origin: Origin,
    after: &mut Aftermath,
) -> Result<Made> {
    let (id, action) = match chats::find(cx, txn, &spec.channel, &spec.platform_id)? {
        Some((id, before)) => {
            let now = Chat {
                name: spec.name.clone().or_else(|| before.name.clone()),
                group: spec.group,
                unknown_senders: spec.unknown_senders,
                ..before.clone()
            };
            (id, alter(cx, txn, id, (&before, &now), after)?)
        }
        None => (chats::insert(cx, txn, &new_chat(cx, spec, origin))?, Action::Created),
    };
    let place = format!("{}/{}", spec.channel, spec.platform_id);
    let mut reports = vec![report(format!("chat {place}"), action)];
    for wiring in &spec.wirings {
        let Some((agent, _)) = agents::find(cx, txn, &wiring.agent)? else {
            return Ok(Err(format!(
                "chat {place} is wired to {0}, and there is no such agent; add it with `hearth agents add {0}`",
                wiring.agent
            )));
        };
        let action = put(cx, txn, (id, agent), wiring, origin)?;
        if action != Action::Unchanged {
            after.changed.insert(agent);
        }
        reports.push(report(entity(&place, &wiring.agent), action));
    }
    Ok(Ok(reports))
}

/// Stores a chat that may have changed; agents that write to it by a name see what it is called.
pub(super) fn alter(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: ChatId,
    (before, now): (&Chat, &Chat),
    after: &mut Aftermath,
) -> Result<Action> {
    if now == before {
        return Ok(Action::Unchanged);
    }
    cx.db.chats.put(txn, &id, now)?;
    after.changed.extend(chats::listeners(cx, txn, id)?.into_iter().map(|(agent, _, _)| agent));
    Ok(Action::Updated)
}

/// Archives a chat and removes its wirings.
pub(super) fn remove_chat(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (channel, platform_id): (&ChannelName, &ForeignId),
    after: &mut Aftermath,
) -> Result<Made> {
    let place = format!("{channel}/{platform_id}");
    let Some((id, mut chat)) = chats::find(cx, txn, channel, platform_id)? else {
        return Ok(Err(missing("chat", place)));
    };
    let mut reports: Vec<ChangeReport> = Vec::new();
    for (agent_id, agent, _) in chats::listeners(cx, txn, id)? {
        unwire(cx, txn, (id, agent_id))?;
        after.changed.insert(agent_id);
        reports.push(report(entity(&place, &agent.folder), Action::Removed));
    }
    chat.archived = Some(cx.now.wall);
    cx.db.chats.put(txn, &id, &chat)?;
    cx.db.chats_by_address.delete(txn, &ForeignKey::chat(channel, platform_id))?;
    threads::forget_chat(cx, txn, (channel, platform_id))?;
    reports.push(report(format!("chat {place}"), Action::Removed));
    Ok(Ok(reports))
}

/// Removes one wiring.
pub(super) fn remove(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (channel, platform_id): (&ChannelName, &ForeignId),
    folder: &Folder,
    after: &mut Aftermath,
) -> Result<Made> {
    let place = format!("{channel}/{platform_id}");
    let chat = chats::find(cx, txn, channel, platform_id)?.map(|(id, _)| id);
    let agent = agents::find(cx, txn, folder)?.map(|(id, _)| id);
    let (Some(chat), Some(agent)) = (chat, agent) else {
        return Ok(Err(no_wiring(&place, folder)));
    };
    if !unwire(cx, txn, (chat, agent))? {
        return Ok(Err(no_wiring(&place, folder)));
    }
    after.changed.insert(agent);
    Ok(Ok(vec![report(entity(&place, folder), Action::Removed)]))
}

/// Removes every wiring of an agent.
pub(super) fn remove_all_of(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId) -> Result<()> {
    for ((_, chat), ()) in cx.db.wirings_by_agent.collect_prefix(txn, &agent, usize::MAX)? {
        unwire(cx, txn, (chat, agent))?;
    }
    Ok(())
}

fn no_wiring(place: &str, folder: &Folder) -> String {
    missing("wiring", format_args!("{place} -> {folder}"))
}

fn entity(place: &str, folder: &Folder) -> String {
    format!("wiring {place} -> {folder}")
}

fn new_chat(cx: &Cx<'_>, spec: &ChatSpec, origin: Origin) -> Chat {
    Chat {
        channel: spec.channel.clone(),
        platform_id: spec.platform_id.clone(),
        name: spec.name.clone(),
        group: spec.group,
        unknown_senders: spec.unknown_senders,
        denied: None,
        origin,
        created: cx.now.wall,
        archived: None,
    }
}

/// Makes an agent listen in a chat, or do so in another way.
pub(super) fn put(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (chat, agent): (ChatId, AgentId),
    spec: &WiringSpec,
    origin: Origin,
) -> Result<Action> {
    let before = cx.db.wirings.get(txn, &(chat, agent))?;
    let wiring = Wiring {
        engage: spec.engage.clone(),
        senders: spec.senders,
        ignored: spec.ignored,
        session: spec.session,
        priority: spec.priority,
        origin: before.as_ref().map_or(origin, |wiring| wiring.origin),
        created: before.as_ref().map_or(cx.now.wall, |wiring| wiring.created),
    };
    cx.db.wirings.put(txn, &(chat, agent), &wiring)?;
    cx.db.wirings_by_agent.put(txn, &(agent, chat), &())?;
    let Some(before) = before else {
        add_destination(cx, txn, (chat, agent))?;
        return Ok(Action::Created);
    };
    if before.engage == Engage::MentionSticky && wiring.engage != before.engage {
        let row = cx.db.chats.require(txn, &chat)?;
        threads::end_in_chat(cx, txn, agent, (&row.channel, &row.platform_id))?;
    }
    Ok(if before == wiring { Action::Unchanged } else { Action::Updated })
}

fn unwire(cx: &Cx<'_>, txn: &mut Write<'_>, (chat, agent): (ChatId, AgentId)) -> Result<bool> {
    cx.db.wirings_by_agent.delete(txn, &(agent, chat))?;
    let row = cx.db.chats.require(txn, &chat)?;
    threads::end_in_chat(cx, txn, agent, (&row.channel, &row.platform_id))?;
    for ((_, name), destination) in cx.db.destinations.collect_prefix(txn, &agent, usize::MAX)? {
        if destination == Destination::Chat(chat) {
            cx.db.destinations.delete(txn, &(agent, name))?;
        }
    }
    cx.db.wirings.delete(txn, &(chat, agent))
}

/// Names the chat for the agent: after the chat, else after the channel; `-2`, `-3` … until the name is free.
fn add_destination(cx: &Cx<'_>, txn: &mut Write<'_>, (chat, agent): (ChatId, AgentId)) -> Result<()> {
    let row = cx.db.chats.require(txn, &chat)?;
    let known = cx.db.destinations.collect_prefix(txn, &agent, usize::MAX)?;
    if known.iter().any(|(_, destination)| *destination == Destination::Chat(chat)) {
        return Ok(());
    }
    let base = normalize_name(&row.name.unwrap_or_else(|| format!("{}-{chat}", row.channel)));
    let base: String = base.chars().take(NAME_MAX).collect();
    let taken = |name: &str| known.iter().any(|((_, known), _)| known.as_str() == name);
    let free = (1_u32..).map(|n| if n == 1 { base.clone() } else { format!("{base}-{n}") }).find(|name| !taken(name));
    let Some(name) = free else { return Ok(()) };
    cx.db.destinations.put(txn, &(agent, Text::new(name)?), &Destination::Chat(chat))
}

/// Characters of a destination's name before its number.
const NAME_MAX: usize = 64;
