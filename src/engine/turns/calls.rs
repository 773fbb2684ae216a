//! Calls of models that the gateway counted.

use crate::Result;
use crate::lifecycle::{budget, caps};
use crate::model::gateway::ModelCall;
use crate::model::id::{MessageId, SessionId};
use crate::model::incarnation::IncarnationId;
use crate::model::journal::Event;
use crate::model::message::MessageState;
use crate::model::report::Reply;
use crate::model::time::{Millis, Timestamp};
use crate::rows::{journal, messages, spend};
use crate::tx::Tx;

/// Turns and waiting messages that are looked at to find the turn of a call.
const LOOK_BACK: usize = 100;
/// An acknowledgement is stored within this time after the agent wrote it. A call that begins in it may be the first one
/// of the next turn.
const ACK_DELAY: Millis = Millis::new(250);

/// Where and when in a run a call began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct During {
    pub(crate) session: SessionId,
    pub(crate) incarnation: u32,
    pub(crate) began: Timestamp,
}

/// Stores what a call used, or ends the turn of one that was refused. A call belongs to the turn that was under way when the request came.
pub(crate) fn ended(tx: &mut Tx<'_, '_>, call: &ModelCall) -> Result<Reply> {
    let run = IncarnationId::new(call.session, call.incarnation);
    if call.over.is_some() {
        caps::refused(tx, call)?;
        return Ok(Reply::Done);
    }
    if tx.db.incarnations.contains(tx, &run)?
        && let Some(message) = message_of(tx, During::of(call))?
    {
        spend::called(tx, message, call)?;
        if let Some(message) = tx.db.messages.get(tx, &message)? {
            budget::watch(tx, &message)?;
        }
    }
    Ok(Reply::Done)
}

impl During {
    const fn of(call: &ModelCall) -> Self {
        Self { session: call.session, incarnation: call.incarnation, began: call.began }
    }
}

/// The message that the agent worked on when the request came. A turn that has ended is known by its last message.
pub(super) fn message_of(tx: &Tx<'_, '_>, call: During) -> Result<Option<MessageId>> {
    let claimed = claimed(tx, call)?;
    if let Some((message, since)) = claimed
        && call.began >= since
    {
        return Ok(Some(message));
    }
    let newest = tx.db.messages_by_session.collect_last(tx, &call.session, LOOK_BACK)?;
    let (mut turn, mut before) = (None, None);
    for (_, message) in &newest {
        match spend::turn_ended_at(tx, *message, call.incarnation)? {
            Some(end) if end >= call.began => turn = Some((*message, end)),
            Some(_) => {
                before = Some(*message);
                break;
            }
            None => {}
        }
    }
    match (turn, claimed) {
        (Some((_, end)), Some((next, _))) if end.since(call.began) < ACK_DELAY => Ok(Some(next)),
        (Some((message, _)), _) | (None, Some((message, _))) => Ok(Some(message)),
        (None, None) if before.is_some() => Ok(before),
        // The run ended before its turn did.
        (None, None) => {
            for (_, message) in newest {
                if journal::last_of_message(tx, message)?.contains(&Event::Claimed(call.incarnation)) {
                    return Ok(Some(message));
                }
            }
            Ok(None)
        }
    }
}

/// The message that the run works on, and since when.
fn claimed(tx: &Tx<'_, '_>, call: During) -> Result<Option<(MessageId, Timestamp)>> {
    let Some((_, message)) = tx.db.claimed_messages.last_in(tx, &call.session)? else { return Ok(None) };
    Ok(match tx.db.messages.require(tx, &message)?.state {
        MessageState::Claimed { incarnation, since } if incarnation == call.incarnation => {
            Some((message, tx.now.wall.minus(tx.now.awake.since(since))))
        }
        _ => None,
    })
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
