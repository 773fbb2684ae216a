//! Thread state during routing: followed threads and muted threads.

use crate::model::address::Address;
use crate::model::effect::Effect;
use crate::model::entity::{Engage, Wiring};
use crate::model::group::FieldName;
use crate::model::id::AgentId;
use crate::model::input::InboundEvent;
use crate::model::thread::Sticky;
use crate::routing::weigh::InboundContext;
use crate::rows::{channels, threads};
use crate::state::{Basis, ForeignKey, Read, Tables};
use crate::state_file::own;
use crate::tx::Tx;
use crate::{Result, readable};

/// Records an engagement: in a group, a sticky wiring makes the agent follow the thread. The thread's messages are
/// requested once per event, however many agents it engages.
pub(crate) fn engaged(tx: &mut Tx<'_, '_>, agent: AgentId, wiring: &Wiring, heard: InboundContext<'_>) -> Result<()> {
    let address = &heard.event.source;
    if wiring.engage != Engage::MentionSticky || !heard.chat.group {
        return Ok(());
    }
    let key = threads::key(agent, address);
    let now = tx.now.wall;
    let before = readable(tx.db.thread_follows.get(tx, &key))?.filter(|sticky| sticky.address == *address);
    let since = before.filter(|sticky| now < sticky.until).map_or(now, |sticky| sticky.since);
    threads::end(tx, &key)?;
    let until = now.plus(tx.policy.sticky_lifetime);
    tx.db.thread_follows.put(tx, &key, &Sticky { address: address.clone(), since, until })?;
    let subscribe = Effect::Subscribe(address.clone());
    if heard.threads == Some(true) && address.thread.is_some() && !tx.effects.contains(&subscribe) {
        tx.effects.push(subscribe);
    }
    Ok(())
}

/// Whether an agent follows a thread.
pub(crate) fn sticks(tx: &Tx<'_, '_>, agent: AgentId, address: &Address) -> Result<bool> {
    let sticky = readable(tx.db.thread_follows.get(tx, &threads::key(agent, address)))?;
    Ok(sticky.is_some_and(|sticky| sticky.address == *address && tx.now.wall < sticky.until))
}

/// Whether a thread or its chat is muted for an agent.
pub(crate) fn is_muted(tx: &Tx<'_, '_>, agent: AgentId, address: &Address) -> Result<bool> {
    // Mutes are rare. The number of rows is known without reading any.
    if tx.db.state_mutes.is_empty(tx)? && tx.db.mutes.is_empty(tx)? {
        return Ok(false);
    }
    Ok(!muted_places(tx.db, tx, agent, address)?.is_empty())
}

/// The thread of an address and its chat, as far as they are muted for an agent: by an operator, or by a program within
/// the agent's group in the agent's session state.
///
/// # Errors
/// Faults of the store.
pub fn muted_places(db: &Tables, txn: &Read<'_>, agent: AgentId, address: &Address) -> Result<Vec<Address>> {
    let thread = address.thread.is_some().then(|| address.clone());
    let chat = Address { thread: None, ..address.clone() };
    let mut muted = Vec::new();
    for place in thread.into_iter().chain([chat]) {
        let mute = readable(db.mutes.get(txn, &threads::key(agent, &place)))?;
        if mute.is_some_and(|mute| mute.address == place) || is_muted_within(db, txn, agent, &place)? {
            muted.push(place);
        }
    }
    Ok(muted)
}

/// Whether a program within the agent's group muted a thread or a chat.
fn is_muted_within(db: &Tables, txn: &Read<'_>, agent: AgentId, place: &Address) -> Result<bool> {
    if db.state_mutes.is_empty(txn)? {
        return Ok(false);
    }
    for spelling in threads::spellings(place) {
        if own::muted(db, txn, agent, &FieldName::of(&spelling))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the event's channel has threads: as its adapter reports, otherwise by the kind of channel; none if unknown.
pub(crate) fn known(tx: &Tx<'_, '_>, event: &InboundEvent) -> Result<Option<bool>> {
    if event.threads.is_some() {
        return Ok(event.threads);
    }
    let channel = &event.source.channel;
    let can = tx.once(Basis::Decisions, &ForeignKey::of(channel), || channels::capabilities(tx, channel));
    Ok(readable(can.map(|can| *can))?.map(|can| can.threads))
}

/// The event without its thread, for chats that have no threads.
pub(crate) fn without(event: &InboundEvent) -> InboundEvent {
    let source = Address { thread: None, ..event.source.clone() };
    InboundEvent { source, ..event.clone() }
}
