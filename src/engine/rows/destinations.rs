//! Destinations of agents.

use crate::Result;
use crate::model::address::Address;
use crate::model::entity::Destination;
use crate::model::id::AgentId;
use crate::model::message::Body;
use crate::rows::chats;
use crate::tx::Tx;

/// Whether an agent has a destination in the chat of an address.
pub(crate) fn may_write_to(tx: &Tx<'_, '_>, agent: AgentId, address: &Address) -> Result<bool> {
    let Some((chat, _)) = chats::find(tx, &address.channel, &address.platform_id)? else { return Ok(false) };
    let destinations = tx.db.destinations.collect_prefix(tx, &agent, tx.policy.rows_per_input)?;
    Ok(destinations.iter().any(|(_, destination)| *destination == Destination::Chat(chat)))
}

/// The channel name of agents as senders. No channel instance has this name.
pub(crate) const CHANNEL: &str = "agent";

/// The reply address of another agent's message. Agents see it and may write to it.
pub(crate) fn address(from_agent: bool, body: &Body) -> Option<Address> {
    let speaker = body.sender.as_ref().filter(|_| from_agent)?;
    Some(Address { channel: speaker.channel().clone(), platform_id: speaker.handle().clone(), thread: None })
}
