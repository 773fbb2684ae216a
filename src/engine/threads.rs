//! What holds for one thread of a chat and one agent: muted, or listened to after an engagement.
//!
//! Stickiness is a fact of its own, never the existence of a session: nothing but an engagement makes it, and it ends by
//! its time, by a mute, by command, and with its wiring.

use super::configure::{Made, missing, report};
use super::engage::Heard;
use super::{Cx, Result, agents, channels, chats, group, mute_name, readable};
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::content::RawJson;
use crate::model::effect::Effect;
use crate::model::entity::{Engage, Folder, Wiring};
use crate::model::group::FieldName;
use crate::model::id::AgentId;
use crate::model::input::InboundEvent;
use crate::model::report::Action;
use crate::model::thread::{Mute, Sticky};
use crate::state::{ForeignKey, Write};

/// A thread and an agent, as tables have them.
type Key = (AgentId, ForeignKey, ForeignKey, Option<ForeignKey>);

/// Keeps a thread, or a whole chat, from waking an agent, and ends that the agent goes on listening there. What waits
/// already is left alone.
pub(super) fn mute(cx: &Cx<'_>, txn: &mut Write<'_>, folder: &Folder, address: &Address) -> Result<Made> {
    let agent = match find(cx, txn, folder, address)? {
        Ok(agent) => agent,
        Err(reason) => return Ok(Err(reason)),
    };
    end_all(cx, txn, agent, address)?;
    let key = key(agent, address);
    if cx.db.mutes.get(txn, &key)?.is_some_and(|mute| mute.address == *address) {
        return Ok(Ok(vec![report(entity("mute", folder, address), Action::Unchanged)]));
    }
    let mute = Mute { address: address.clone(), note: RawJson::trusted("null".to_owned()), since: cx.now.wall };
    cx.db.mutes.put(txn, &key, &mute)?;
    Ok(Ok(vec![report(entity("mute", folder, address), Action::Created)]))
}

/// Lets a thread wake an agent again, whether an operator muted it or a program within the agent's group.
pub(super) fn unmute(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (folder, address): (&Folder, &Address),
    effects: &mut Vec<Effect>,
) -> Result<Made> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(agents::missing(folder))) };
    let key = key(agent, address);
    let known = cx.db.mutes.get(txn, &key)?.is_some_and(|mute| mute.address == *address);
    let mut ended = Vec::new();
    if known && cx.db.mutes.delete(txn, &key)? {
        ended.push(report(entity("mute", folder, address), Action::Removed));
    }
    for name in spellings(address) {
        if group::unmute(cx, txn, (agent, &FieldName::of(&name)), effects)? {
            ended.push(report(mute_name::entity(folder, &name), Action::Removed));
        }
    }
    if ended.is_empty() {
        let place = place(address);
        return Ok(Err(format!("{place} is not muted for {folder}; `hearth mutes list` shows what is")));
    }
    Ok(Ok(ended))
}

/// Ends that an agent goes on listening in a thread; without a thread, in all of the chat.
pub(super) fn end_sticky(cx: &Cx<'_>, txn: &mut Write<'_>, folder: &Folder, address: &Address) -> Result<Made> {
    let agent = match find(cx, txn, folder, address)? {
        Ok(agent) => agent,
        Err(reason) => return Ok(Err(reason)),
    };
    if end_all(cx, txn, agent, address)? == 0 {
        let place = place(address);
        return Ok(Err(format!(
            "{folder} does not go on listening in {place}; `hearth sticky list` shows where it does"
        )));
    }
    Ok(Ok(vec![report(entity("sticky", folder, address), Action::Removed)]))
}

/// Ends that an agent goes on listening in a chat: its wiring is gone, or wants it no more.
pub(super) fn end_in_chat(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agent: AgentId,
    (channel, platform_id): (&ChannelName, &ForeignId),
) -> Result<()> {
    let chat = Address { channel: channel.clone(), platform_id: platform_id.clone(), thread: None };
    end_all(cx, txn, agent, &chat).map(drop)
}

/// Forgets the mutes of a chat that was removed. One look-up per agent: agents are few.
pub(super) fn forget_chat(cx: &Cx<'_>, txn: &mut Write<'_>, chat: (&ChannelName, &ForeignId)) -> Result<()> {
    if cx.db.mutes.is_empty(txn)? {
        return Ok(());
    }
    let (channel, platform_id) = ForeignKey::chat(chat.0, chat.1);
    for (agent, _) in cx.db.agents.collect_range(txn, .., usize::MAX)? {
        let prefix = (agent, channel.clone(), platform_id.clone());
        for (key, mute) in cx.db.mutes.collect_prefix(txn, &prefix, usize::MAX)? {
            if (&mute.address.channel, &mute.address.platform_id) == chat {
                cx.db.mutes.delete(txn, &key)?;
            }
        }
    }
    Ok(())
}

/// Forgets the mutes of an agent that was removed.
pub(super) fn forget_agent(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId) -> Result<()> {
    for (key, _) in cx.db.mutes.collect_prefix(txn, &agent, usize::MAX)? {
        cx.db.mutes.delete(txn, &key)?;
    }
    Ok(())
}

/// An agent was engaged: in a group, by a wiring that sticks, it goes on listening in the thread. Further messages of a
/// thread are asked for once per event, however many agents it engages.
pub(super) fn engaged(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (agent, wiring): (AgentId, &Wiring),
    heard: Heard<'_>,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let address = &heard.event.source;
    if wiring.engage != Engage::MentionSticky || !heard.chat.group {
        return Ok(());
    }
    let key = key(agent, address);
    let now = cx.now.wall;
    let before = readable(cx.db.sticky.get(txn, &key))?.filter(|sticky| sticky.address == *address);
    let since = before.filter(|sticky| now < sticky.until).map_or(now, |sticky| sticky.since);
    end(cx, txn, &key)?;
    let until = now.plus(cx.policy.sticky_lifetime);
    cx.db.sticky.put(txn, &key, &Sticky { address: address.clone(), since, until })?;
    cx.db.sticky_by_time.put(txn, &(until, key), &())?;
    let subscribe = Effect::Subscribe(address.clone());
    if heard.threads == Some(true) && address.thread.is_some() && !effects.contains(&subscribe) {
        effects.push(subscribe);
    }
    Ok(())
}

/// Whether an agent goes on listening in a thread.
pub(super) fn sticks(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, address: &Address) -> Result<bool> {
    let sticky = readable(cx.db.sticky.get(txn, &key(agent, address)))?;
    Ok(sticky.is_some_and(|sticky| sticky.address == *address && cx.now.wall < sticky.until))
}

/// Whether a thread, or the chat it is in, is muted for an agent.
pub(super) fn is_muted(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, address: &Address) -> Result<bool> {
    // Almost nobody mutes anything: the number of rows is known without a look at them.
    if !cx.db.state_mutes.is_empty(txn)? && is_muted_within(cx, txn, agent, address)? {
        return Ok(true);
    }
    if cx.db.mutes.is_empty(txn)? {
        return Ok(false);
    }
    let chat = Address { thread: None, ..address.clone() };
    for place in [address, &chat] {
        let mute = readable(cx.db.mutes.get(txn, &key(agent, place)))?;
        if mute.is_some_and(|mute| mute.address == *place) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The same by the agent's session state, where a program within its group muted it.
fn is_muted_within(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId, address: &Address) -> Result<bool> {
    let chat = Address { thread: None, ..address.clone() };
    let of_chat = address.thread.is_some().then(|| spellings(&chat));
    for spelling in spellings(address).into_iter().chain(of_chat.into_iter().flatten()) {
        if group::muted(cx, txn, agent, &FieldName::of(&spelling))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How programs within agent groups may call a thread, or a chat with all its threads: by its id alone, or after its chat
/// and that one's channel; `:` and `/` both part them.
fn spellings(address: &Address) -> Vec<String> {
    let (channel, chat) = (address.channel.as_str(), address.platform_id.as_str());
    let Some(thread) = address.thread.as_ref().map(ForeignId::as_str) else {
        return vec![chat.to_owned(), format!("{channel}:{chat}"), format!("{channel}/{chat}")];
    };
    let mut all = vec![thread.to_owned(), format!("{chat}:{thread}"), format!("{chat}/{thread}")];
    all.extend([format!("{channel}:{chat}:{thread}"), format!("{channel}/{chat}/{thread}")]);
    all
}

/// Removes what has lapsed; the cost is that of what there is to remove.
pub(super) fn expire(cx: &Cx<'_>, txn: &mut Write<'_>, _: &mut Vec<Effect>) -> Result<()> {
    let limit = cx.policy.rows_per_input / 4;
    let mut lapsed = Vec::new();
    for row in cx.db.sticky_by_time.iter(txn)?.take(limit) {
        let ((until, key), ()) = row?;
        if cx.now.wall < until {
            break;
        }
        lapsed.push((until, key));
    }
    for (until, key) in lapsed {
        let row = readable(cx.db.sticky.get(txn, &key))?;
        if row.is_none_or(|sticky| sticky.until == until) {
            cx.db.sticky.delete(txn, &key)?;
        }
        cx.db.sticky_by_time.delete(txn, &(until, key))?;
    }
    Ok(())
}

/// Asks for the messages of threads in which agents go on listening: an earlier run may have ended before it could.
pub(super) fn subscribe_again(cx: &Cx<'_>, txn: &Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let mut wanted: Vec<Address> = Vec::new();
    for row in cx.db.sticky_by_time.iter(txn)?.take(cx.policy.rows_per_input) {
        let ((until, key), ()) = row?;
        let Some(sticky) = readable(cx.db.sticky.get(txn, &key))? else { continue };
        if cx.now.wall < until && sticky.address.thread.is_some() && !wanted.contains(&sticky.address) {
            wanted.push(sticky.address);
        }
    }
    for address in wanted {
        if readable(channels::capabilities(cx, txn, &address.channel))?.is_some_and(|can| can.threads) {
            effects.push(Effect::Subscribe(address));
        }
    }
    Ok(())
}

/// Whether the chats of an event's channel have threads: as its adapter says, else as the channel's kind does; none when
/// nobody knows.
pub(super) fn known(cx: &Cx<'_>, txn: &Write<'_>, event: &InboundEvent) -> Result<Option<bool>> {
    if event.threads.is_some() {
        return Ok(event.threads);
    }
    let channel = &event.source.channel;
    let can = txn.once(&ForeignKey::of(channel), || channels::capabilities(cx, txn, channel));
    Ok(readable(can.map(|can| *can))?.map(|can| can.threads))
}

/// The event as it is where chats have no threads.
pub(super) fn without(event: &InboundEvent) -> InboundEvent {
    let source = Address { thread: None, ..event.source.clone() };
    InboundEvent { source, ..event.clone() }
}

/// The agent, if agent and chat are there and the chat may have such a thread.
fn find(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    folder: &Folder,
    address: &Address,
) -> Result<std::result::Result<AgentId, String>> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(agents::missing(folder))) };
    let Address { channel, platform_id, thread } = address;
    if chats::find(cx, txn, channel, platform_id)?.is_none() {
        return Ok(Err(missing("chat", format_args!("{channel}/{platform_id}"))));
    }
    let threads = channels::capabilities(cx, txn, channel)?.is_none_or(|can| can.threads);
    if thread.is_some() && !threads {
        return Ok(Err(format!("chats of {channel} have no threads; leave the thread out")));
    }
    Ok(Ok(agent))
}

/// Ends every stickiness at an address: of its thread, or without one of the whole chat. Returns how many there were.
fn end_all(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, address: &Address) -> Result<usize> {
    let (channel, chat, thread) = ForeignKey::place(address);
    let keys: Vec<Key> = match thread {
        Some(_) => vec![(agent, channel, chat, thread)],
        None => {
            let rows = cx.db.sticky.prefix(txn, &(agent, channel, chat))?;
            rows.map(|row| row.map(|(key, _)| key)).collect::<Result<_>>()?
        }
    };
    let mut ended = 0;
    for key in keys {
        ended += usize::from(end(cx, txn, &key)?);
    }
    Ok(ended)
}

/// Ends one stickiness; tells whether there was one.
fn end(cx: &Cx<'_>, txn: &mut Write<'_>, key: &Key) -> Result<bool> {
    if let Some(sticky) = readable(cx.db.sticky.get(txn, key))? {
        cx.db.sticky_by_time.delete(txn, &(sticky.until, key.clone()))?;
    }
    cx.db.sticky.delete(txn, key)
}

fn key(agent: AgentId, address: &Address) -> Key {
    let (channel, chat, thread) = ForeignKey::place(address);
    (agent, channel, chat, thread)
}

fn place(Address { channel, platform_id, thread }: &Address) -> String {
    let thread = thread.as_ref().map(|thread| format!(" (thread {thread})")).unwrap_or_default();
    format!("{channel}/{platform_id}{thread}")
}

fn entity(what: &str, folder: &Folder, address: &Address) -> String {
    format!("{what} {} of {folder}", place(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_several_names() {
        let address = |thread: Option<&str>| Address {
            channel: ChannelName::new("telegram").unwrap(),
            platform_id: ForeignId::new("chat", "-100:5").unwrap(),
            thread: thread.map(|thread| ForeignId::new("thread", thread).unwrap()),
        };
        assert_eq!(spellings(&address(None)), ["-100:5", "telegram:-100:5", "telegram/-100:5"]);
        let names = ["42", "-100:5:42", "-100:5/42", "telegram:-100:5:42", "telegram/-100:5/42"];
        assert_eq!(spellings(&address(Some("42"))), names);
    }
}
