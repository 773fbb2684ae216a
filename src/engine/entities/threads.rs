//! State of one thread for one agent: muted, or followed after an engagement.
//!
//! Following is stored separately and does not depend on the existence of a session. Only an engagement starts it. It
//! ends when it expires, with a mute, by command, and with its wiring.

use crate::entities::change::ChangeResult;
use crate::entities::{change, mutes};
use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::content::RawJson;
use crate::model::effect::Effect;
use crate::model::entity::Folder;
use crate::model::group::FieldName;
use crate::model::id::AgentId;
use crate::model::report::Action;
use crate::model::thread::Mute;
use crate::rows::{agents, channels, chats, threads};
use crate::rules::texts;
use crate::state::{ChatKey, Timed};
use crate::state_file::own;
use crate::tx::Tx;
use crate::{Result, readable};

/// Mutes a thread or a whole chat for an agent, and stops following it. Messages that already wait are not affected.
pub(crate) fn mute(tx: &mut Tx<'_, '_>, folder: &Folder, address: &Address) -> Result<ChangeResult> {
    let agent = match find(tx, folder, address)? {
        Ok(agent) => agent,
        Err(reason) => return Ok(Err(reason)),
    };
    threads::end_all(tx, agent, address)?;
    let key = threads::key(agent, address);
    if tx.db.mutes.get(tx, &key)?.is_some_and(|mute| mute.address == *address) {
        return Ok(Ok(vec![change::report(entity("mute", folder, address), Action::Unchanged)]));
    }
    let mute = Mute { address: address.clone(), note: RawJson::trusted("null".to_owned()), since: tx.now.wall };
    tx.db.mutes.put(tx, &key, &mute)?;
    Ok(Ok(vec![change::report(entity("mute", folder, address), Action::Created)]))
}

/// Unmutes a thread, no matter whether an operator or a program of the agent's group muted it.
pub(crate) fn unmute(tx: &mut Tx<'_, '_>, folder: &Folder, address: &Address) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    let key = threads::key(agent, address);
    let known = tx.db.mutes.get(tx, &key)?.is_some_and(|mute| mute.address == *address);
    let mut ended = Vec::new();
    if known && tx.db.mutes.delete(tx, &key)? {
        ended.push(change::report(entity("mute", folder, address), Action::Removed));
    }
    for name in threads::spellings(address) {
        if own::unmute(tx, agent, &FieldName::of(&name))? {
            ended.push(change::report(mutes::entity(folder, &name), Action::Removed));
        }
    }
    if ended.is_empty() {
        let place = threads::place(address);
        return Ok(Err(format!("{place} is not muted for {folder}; `hearth mutes list` shows what is")));
    }
    Ok(Ok(ended))
}

/// Stops following a thread. Without a thread, stops following all threads of the chat.
pub(crate) fn end_sticky(tx: &mut Tx<'_, '_>, folder: &Folder, address: &Address) -> Result<ChangeResult> {
    let agent = match find(tx, folder, address)? {
        Ok(agent) => agent,
        Err(reason) => return Ok(Err(reason)),
    };
    if threads::end_all(tx, agent, address)? == 0 {
        let place = threads::place(address);
        return Ok(Err(format!("{folder} is not following {place}; `hearth sticky list` shows what it follows")));
    }
    Ok(Ok(vec![change::report(entity("sticky", folder, address), Action::Removed)]))
}

/// Stops following a chat whose wiring was removed or has another engage mode.
pub(crate) fn end_in_chat(
    tx: &mut Tx<'_, '_>,
    agent: AgentId,
    channel: &ChannelName,
    platform_id: &ForeignId,
) -> Result<()> {
    let chat = Address { channel: channel.clone(), platform_id: platform_id.clone(), thread: None };
    threads::end_all(tx, agent, &chat).map(drop)
}

/// Removes the mutes of a removed chat. One look-up per agent: agents are few.
pub(crate) fn forget_chat(tx: &mut Tx<'_, '_>, channel: &ChannelName, platform_id: &ForeignId) -> Result<()> {
    if tx.db.mutes.is_empty(tx)? {
        return Ok(());
    }
    let chat = ChatKey::of(channel, platform_id);
    for (agent, _) in tx.db.agents.collect_range(tx, .., usize::MAX)? {
        let prefix = (agent, chat.clone());
        for (key, mute) in tx.db.mutes.collect_prefix(tx, &prefix, usize::MAX)? {
            if mute.address.channel == *channel && mute.address.platform_id == *platform_id {
                tx.db.mutes.delete(tx, &key)?;
            }
        }
    }
    Ok(())
}

/// Removes the mutes of a removed agent.
pub(crate) fn forget_agent(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<()> {
    for (key, _) in tx.db.mutes.collect_prefix(tx, &agent, usize::MAX)? {
        tx.db.mutes.delete(tx, &key)?;
    }
    Ok(())
}

/// Removes expired rows. The cost depends only on how many those are.
pub(crate) fn expire(tx: &mut Tx<'_, '_>) -> Result<()> {
    let limit = tx.policy.rows_per_input / 4;
    let mut lapsed = Vec::new();
    for row in tx.db.thread_follows_by_expiry.iter(tx)?.take(limit) {
        let (entry, ()) = row?;
        if tx.now.wall < entry.at {
            break;
        }
        lapsed.push(entry);
    }
    for entry in lapsed {
        let row = readable(tx.db.thread_follows.get(tx, &entry.id))?;
        if row.is_none_or(|sticky| sticky.until == entry.at) {
            tx.db.thread_follows.delete(tx, &entry.id)?;
        }
        tx.db.thread_follows_by_expiry.discard_leftover(tx, &entry)?;
    }
    Ok(())
}

/// Requests the messages of a channel's followed threads: its new connection does not know what an earlier one was told.
pub(crate) fn subscribe_again(tx: &mut Tx<'_, '_>, channel: &ChannelName) -> Result<()> {
    if !channels::capabilities(tx, channel)?.is_some_and(|can| can.threads) {
        return Ok(());
    }
    let mut wanted: Vec<Address> = Vec::new();
    for row in tx.db.thread_follows_by_expiry.iter(tx)?.take(tx.policy.rows_per_input) {
        let (Timed { at, id }, ()) = row?;
        let Some(sticky) = readable(tx.db.thread_follows.get(tx, &id))? else { continue };
        let address = &sticky.address;
        let is_here = address.channel == *channel && address.thread.is_some();
        if tx.now.wall < at && is_here && !wanted.contains(address) {
            wanted.push(sticky.address);
        }
    }
    tx.effects.extend(wanted.into_iter().map(Effect::Subscribe));
    Ok(())
}

/// The agent, if agent and chat exist and the channel has threads where one is named.
fn find(tx: &Tx<'_, '_>, folder: &Folder, address: &Address) -> Result<std::result::Result<AgentId, String>> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    let Address { channel, platform_id, thread } = address;
    if chats::find(tx, channel, platform_id)?.is_none() {
        return Ok(Err(texts::missing("chat", format_args!("{channel}/{platform_id}"))));
    }
    let threads = channels::capabilities(tx, channel)?.is_none_or(|can| can.threads);
    if thread.is_some() && !threads {
        return Ok(Err(format!("chats of {channel} have no threads; leave the thread out")));
    }
    Ok(Ok(agent))
}

fn entity(what: &str, folder: &Folder, address: &Address) -> String {
    format!("{what} {} of {folder}", threads::place(address))
}
