//! Calls of models that the gateway counted.

use crate::Result;
use crate::model::gateway::ModelCall;
use crate::model::id::{MessageId, SessionId};
use crate::model::incarnation::IncarnationId;
use crate::model::report::Reply;
use crate::rows::{messages, spend};
use crate::tx::Tx;

/// Stores what a call used. It belongs to the message that the agent works on, or worked on last.
pub(crate) fn ended(tx: &mut Tx<'_, '_>, call: &ModelCall) -> Result<Reply> {
    let run = IncarnationId::new(call.session, call.incarnation);
    if let Some(message) = message_of(tx, call.session)?
        && tx.db.incarnations.contains(tx, &run)?
    {
        spend::called(tx, message, call)?;
    }
    Ok(Reply::Done)
}

fn message_of(tx: &Tx<'_, '_>, session: SessionId) -> Result<Option<MessageId>> {
    if let Some((_, claimed)) = tx.db.claimed_messages.last_in(tx, &session)? {
        return Ok(Some(claimed));
    }
    Ok(tx.db.messages_by_session.last_in(tx, &session)?.map(|(_, message)| message))
}

/// Whether the gateway counted calls of the turn that ends with this message.
pub(super) fn were_counted(
    tx: &Tx<'_, '_>,
    session: SessionId,
    incarnation: u32,
    id: MessageId,
    also: &[u64],
) -> Result<bool> {
    if spend::has_calls(tx, id, incarnation)? {
        return Ok(true);
    }
    for seq in also {
        if let Some((other, _)) = messages::at(tx, session, *seq)?
            && spend::has_calls(tx, other, incarnation)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
