//! Chats and the agents that listen in them.

use crate::Result;
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::entity::{Agent, Chat, Origin, UnknownSenders, Wiring};
use crate::model::id::{AgentId, ChatId};
use crate::state::{Basis, ChatKey, WiringKey};
use crate::tx::Tx;
use std::sync::Arc;

/// Maximum number of wirings of one chat, more than any installation has.
const WIRINGS_MAX: usize = 1_000;

/// A chat that is not archived, by its address. The full id in the row is compared, since a key may hold a digest.
pub(crate) fn find(tx: &Tx<'_, '_>, channel: &ChannelName, platform_id: &ForeignId) -> Result<Option<(ChatId, Chat)>> {
    let key = ChatKey::of(channel, platform_id);
    let Some(id) = tx.db.chats_by_address.get(tx, &key)? else { return Ok(None) };
    let chat = tx.db.chats.require(tx, &id)?;
    let same = chat.channel == *channel && chat.platform_id == *platform_id;
    Ok(same.then_some((id, chat)))
}

/// Like [`find`], computed once for inputs that are committed together.
pub(crate) fn known(
    tx: &Tx<'_, '_>,
    channel: &ChannelName,
    platform_id: &ForeignId,
) -> Result<Arc<Option<(ChatId, Chat)>>> {
    tx.once(Basis::Decisions, &ChatKey::of(channel, platform_id), || find(tx, channel, platform_id))
}

/// The id of such a chat.
pub(crate) fn id_of(tx: &Tx<'_, '_>, channel: &ChannelName, platform_id: &ForeignId) -> Result<Option<ChatId>> {
    Ok(known(tx, channel, platform_id)?.as_ref().as_ref().map(|(chat, _)| *chat))
}

/// Like [`listeners`], computed once for inputs that are committed together.
pub(crate) fn listening(tx: &Tx<'_, '_>, chat: ChatId) -> Result<Arc<Vec<(AgentId, Agent, Wiring)>>> {
    tx.once(Basis::Decisions, &chat, || listeners(tx, chat))
}

/// Creates the chat in which the bot was addressed. It has no agent yet.
pub(crate) fn discover(tx: &mut Tx<'_, '_>, source: &Address, group: bool) -> Result<(ChatId, Chat)> {
    let chat = Chat {
        channel: source.channel.clone(),
        platform_id: source.platform_id.clone(),
        name: None,
        group,
        unknown_senders: UnknownSenders::RequestApproval,
        denied: None,
        origin: Origin::Runtime,
        created: tx.now.wall,
        archived: None,
    };
    let id = insert(tx, &chat)?;
    Ok((id, chat))
}

/// Stores a new chat.
pub(crate) fn insert(tx: &mut Tx<'_, '_>, chat: &Chat) -> Result<ChatId> {
    let id = tx.db.allocate(tx)?;
    tx.db.chats.put(tx, &id, chat)?;
    Ok(id)
}

/// The agents that listen in a chat, in the order in which they decide: higher priority first, then older agents.
pub(crate) fn listeners(tx: &Tx<'_, '_>, chat: ChatId) -> Result<Vec<(AgentId, Agent, Wiring)>> {
    let mut found = Vec::new();
    for (WiringKey { agent: agent_id, .. }, wiring) in tx.db.wirings.collect_prefix(tx, &chat, WIRINGS_MAX)? {
        match tx.db.agents.get(tx, &agent_id)? {
            Some(agent) if agent.archived.is_none() => found.push((agent_id, agent, wiring)),
            _ => {}
        }
    }
    found.sort_by_key(|(agent, _, wiring)| (std::cmp::Reverse(wiring.priority), *agent));
    Ok(found)
}
