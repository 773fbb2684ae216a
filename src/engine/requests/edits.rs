//! Edits and reactions: resolves the number that an agent uses to a message that it may change.

use crate::Result;
use crate::model::address::{Address, ForeignId};
use crate::model::delivery::{Act, Author, MessageRef, OutState, Outbound};
use crate::model::id::{OutboundId, SessionId};
use crate::model::session::ChatSession;
use crate::rows::{destinations, messages};
use crate::state::SentKey;
use crate::tx::Tx;

/// The action on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    /// Its text is replaced.
    Edit,
    /// It gets an emoji.
    React,
}

/// The address and action for the message with this number, or why it is not allowed.
pub(crate) fn resolve(
    tx: &Tx<'_, '_>,
    id: SessionId,
    session: &ChatSession,
    to: To,
    number: u64,
) -> Result<std::result::Result<(Address, Act), String>> {
    let found = match tx.db.outbound_by_number.get(tx, &SentKey { session: id, number })? {
        Some(outbound) => ours(outbound, &tx.db.outbound.require(tx, &outbound)?, to, number),
        None => match messages::at(tx, id, number)? {
            Some((_, message)) => {
                let body = tx.db.bodies.get(tx, &message.body)?;
                theirs(body.and_then(|body| body.source.zip(body.platform_message)), to, number)
            }
            None => Err(format!("Message #{number} not found")),
        },
    };
    let (address, act) = match found {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let allowed = is_home(session, &address) || destinations::may_write_to(tx, session.agent, &address)?;
    let refusal = || format!("Message #{number} is in a chat that the agent may not write to");
    Ok(if allowed { Ok((address, act)) } else { Err(refusal()) })
}

/// Whether an address is in the session's own chat.
fn is_home(session: &ChatSession, address: &Address) -> bool {
    let same = |reply: &Address| reply.channel == address.channel && reply.platform_id == address.platform_id;
    session.reply.as_ref().is_some_and(same)
}

fn ours(id: OutboundId, outbound: &Outbound, to: To, number: u64) -> std::result::Result<(Address, Act), String> {
    let Some(address) = outbound.to.clone().filter(|_| matches!(outbound.author, Author::Agent { .. })) else {
        return Err(format!("Cannot determine destination for message #{number}"));
    };
    if let OutState::Failed { error, .. } = &outbound.state {
        return Err(format!("Message #{number} was never delivered: {error}"));
    }
    match (&outbound.act, to) {
        (Act::Say, To::Edit) => Ok((address, Act::Edit(MessageRef::Ours(id)))),
        (Act::Say | Act::Ask(_), To::React) => Ok((address, Act::React(MessageRef::Ours(id)))),
        (Act::Ask(_), To::Edit) => Err(format!("Message #{number} is a card, which cannot be edited")),
        (Act::Edit(_) | Act::React(_), _) => Err(format!("Message #{number} is itself a change of another message")),
    }
}

fn theirs(found: Option<(Address, ForeignId)>, to: To, number: u64) -> std::result::Result<(Address, Act), String> {
    match (found, to) {
        (Some(_), To::Edit) => {
            Err(format!("Message #{number} was sent by someone else: it can be reacted to, not edited"))
        }
        (Some((address, id)), To::React) => Ok((address, Act::React(MessageRef::Theirs(id)))),
        (None, _) => Err(format!("Message #{number} is not in a chat")),
    }
}
