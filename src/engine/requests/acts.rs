//! Edits and reactions: a number that an agent uses becomes a message, if there is one it may touch.

use crate::engine::{Cx, Result, messages, outbox};
use crate::model::address::{Address, ForeignId};
use crate::model::delivery::{Act, Author, OutState, Outbound, Said};
use crate::model::id::{OutboundId, SessionId};
use crate::model::session::ChatSession;
use crate::state::Write;

/// What is done to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum To {
    /// Its text is replaced.
    Edit,
    /// It gets an emoji.
    React,
}

/// The message with a number, where it lies and what to do to it; or why that cannot be done.
pub(in crate::engine) fn resolve(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    (id, session): (SessionId, &ChatSession),
    (to, number): (To, u64),
) -> Result<std::result::Result<(Address, Act), String>> {
    let found = match cx.db.outbound_by_number.get(txn, &(id, number))? {
        Some(outbound) => ours(outbound, &cx.db.outbound.require(txn, &outbound)?, (to, number)),
        None => match messages::at(cx, txn, id, number)? {
            Some((_, message)) => {
                let body = cx.db.bodies.get(txn, &message.body)?;
                theirs(body.and_then(|body| body.source.zip(body.platform_message)), (to, number))
            }
            None => Err(format!("Message #{number} not found")),
        },
    };
    let (address, act) = match found {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let allowed = is_home(session, &address) || outbox::may_write_to(cx, txn, session.agent, &address)?;
    let refusal = || format!("Message #{number} is in a chat that the agent may not write to");
    Ok(if allowed { Ok((address, act)) } else { Err(refusal()) })
}

/// Whether an address is in the chat that the session is about.
fn is_home(session: &ChatSession, address: &Address) -> bool {
    let same = |reply: &Address| reply.channel == address.channel && reply.platform_id == address.platform_id;
    session.reply.as_ref().is_some_and(same)
}

fn ours(id: OutboundId, outbound: &Outbound, (to, number): (To, u64)) -> std::result::Result<(Address, Act), String> {
    let Some(address) = outbound.to.clone().filter(|_| matches!(outbound.author, Author::Agent { .. })) else {
        return Err(format!("Cannot determine destination for message #{number}"));
    };
    if let OutState::Failed { error, .. } = &outbound.state {
        return Err(format!("Message #{number} was never delivered: {error}"));
    }
    match (&outbound.act, to) {
        (Act::Say, To::Edit) => Ok((address, Act::Edit(Said::Ours(id)))),
        (Act::Say | Act::Ask(_), To::React) => Ok((address, Act::React(Said::Ours(id)))),
        (Act::Ask(_), To::Edit) => Err(format!("Message #{number} is a card, which cannot be edited")),
        (Act::Edit(_) | Act::React(_), _) => Err(format!("Message #{number} is itself a change of another message")),
    }
}

fn theirs(found: Option<(Address, ForeignId)>, (to, number): (To, u64)) -> std::result::Result<(Address, Act), String> {
    match (found, to) {
        (Some(_), To::Edit) => Err(format!("Message #{number} is somebody else's: it can be reacted to, not edited")),
        (Some((address, id)), To::React) => Ok((address, Act::React(Said::Theirs(id)))),
        (None, _) => Err(format!("Message #{number} is not in a chat")),
    }
}
