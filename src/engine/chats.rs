//! Chats and who listens in them.

use std::borrow::Cow;
use std::sync::Arc;

use super::configure::Aftermath;
use super::{Cx, Result, agents, wirings};
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::effect::Effect;
use crate::model::entity::{Agent, Chat, Origin, UnknownSenders, Wiring};
use crate::model::id::{AgentId, ChatId};
use crate::model::input::InboundEvent;
use crate::state::{ForeignKey, Write};

/// Wirings of one chat are asked one by one; this many are more than anybody has.
const WIRINGS_MAX: usize = 1_000;

/// A chat that is not archived, by its address. The row is compared with the whole id, since a key may hold a digest.
pub(super) fn find(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    channel: &ChannelName,
    platform_id: &ForeignId,
) -> Result<Option<(ChatId, Chat)>> {
    let key = ForeignKey::chat(channel, platform_id);
    let Some(id) = cx.db.chats_by_address.get(txn, &key)? else { return Ok(None) };
    let chat = cx.db.chats.require(txn, &id)?;
    let same = chat.channel == *channel && chat.platform_id == *platform_id;
    Ok(same.then_some((id, chat)))
}

/// As [`find`], for what many messages ask in a row.
pub(super) fn known(cx: &Cx<'_>, txn: &Write<'_>, source: &Address) -> Result<Arc<Option<(ChatId, Chat)>>> {
    let key = ForeignKey::chat(&source.channel, &source.platform_id);
    txn.once(&key, || find(cx, txn, &source.channel, &source.platform_id))
}

/// As [`listeners`], for what many messages ask in a row.
pub(super) fn listening(cx: &Cx<'_>, txn: &Write<'_>, chat: ChatId) -> Result<Arc<Vec<(AgentId, Agent, Wiring)>>> {
    txn.once(&chat, || listeners(cx, txn, chat))
}

/// Makes a chat that the bot was addressed in; nobody listens in it yet.
pub(super) fn discover(cx: &Cx<'_>, txn: &mut Write<'_>, source: &Address, group: bool) -> Result<(ChatId, Chat)> {
    let chat = Chat {
        channel: source.channel.clone(),
        platform_id: source.platform_id.clone(),
        name: None,
        group,
        unknown_senders: UnknownSenders::RequestApproval,
        denied: None,
        origin: Origin::Runtime,
        created: cx.now.wall,
        archived: None,
    };
    let id = insert(cx, txn, &chat)?;
    Ok((id, chat))
}

/// Keeps what is known of a chat current, as adapters say it: its name, and that it is a group. Nobody says of a group that
/// it is none. Agents that write to it by a name see what it is called.
pub(super) fn refresh(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, chat): (ChatId, &mut Cow<'_, Chat>),
    event: &InboundEvent,
) -> Result<Vec<Effect>> {
    let name = event.chat_name.as_ref().filter(|name| !name.is_empty()).or(chat.name.as_ref());
    let group = chat.group || event.group;
    if name == chat.name.as_ref() && group == chat.group {
        return Ok(Vec::new());
    }
    let now = Chat { name: name.cloned(), group, ..Chat::clone(chat) };
    let mut after = Aftermath::default();
    wirings::alter(cx, txn, id, (&**chat, &now), &mut after)?;
    *chat = Cow::Owned(now);
    agents::renew_contexts(cx, txn, &mut after)?;
    Ok(after.effects)
}

/// Stores a new chat.
pub(super) fn insert(cx: &Cx<'_>, txn: &mut Write<'_>, chat: &Chat) -> Result<ChatId> {
    let id = cx.db.allocate(txn)?;
    let key = ForeignKey::chat(&chat.channel, &chat.platform_id);
    cx.db.chats_by_address.put(txn, &key, &id)?;
    cx.db.chats.put(txn, &id, chat)?;
    Ok(id)
}

/// Who listens in a chat, in the order in which they are asked: higher priority first, then older agents.
pub(super) fn listeners(cx: &Cx<'_>, txn: &Write<'_>, chat: ChatId) -> Result<Vec<(AgentId, Agent, Wiring)>> {
    let mut found = Vec::new();
    for ((_, agent_id), wiring) in cx.db.wirings.collect_prefix(txn, &chat, WIRINGS_MAX)? {
        match cx.db.agents.get(txn, &agent_id)? {
            Some(agent) if agent.archived.is_none() => found.push((agent_id, agent, wiring)),
            _ => {}
        }
    }
    found.sort_by_key(|(agent, _, wiring)| (std::cmp::Reverse(wiring.priority), *agent));
    Ok(found)
}
