//! The one writer of messages: a row and all indexes that follow from its state change together.

use super::{Cx, Result};
use crate::model::address::Address;
use crate::model::effect::{Effect, Settled};
use crate::model::id::{AgentId, BodyId, MessageId, OutboundId, SessionId};
use crate::model::message::{Body, Due, Hop, Message, MessageState};
use crate::state::{Text, Write};

/// A message that is not stored yet.
pub(super) struct NewMessage {
    /// Session it goes to.
    pub(super) session: SessionId,
    /// The session's agent.
    pub(super) agent: AgentId,
    /// Its position.
    pub(super) seq: u64,
    /// What it says.
    pub(super) body: BodyId,
    /// Whether it asks for a turn.
    pub(super) trigger: bool,
    /// Where an answer goes.
    pub(super) reply: Option<Address>,
    /// Where it comes from, if an agent said it.
    pub(super) from: Option<Hop>,
}

/// Stores what an event says.
pub(super) fn insert_body(cx: &Cx<'_>, txn: &mut Write<'_>, body: &Body) -> Result<BodyId> {
    let id = cx.db.allocate(txn)?;
    cx.db.bodies.put(txn, &id, body)?;
    Ok(id)
}

/// Removes what an event said: nobody has it, and nobody waits for it.
pub(super) fn remove_body(cx: &Cx<'_>, txn: &mut Write<'_>, id: BodyId) -> Result<()> {
    let Some(body) = cx.db.bodies.get(txn, &id)? else { return Ok(()) };
    for attachment in &body.attachments {
        if let Ok(blob) = &attachment.blob {
            cx.db.blobs.delete(txn, &(Text::new(blob.as_str())?, id))?;
        }
    }
    cx.db.bodies.delete(txn, &id).map(drop)
}

/// Stores a message that may go to its agent now.
pub(super) fn insert(cx: &Cx<'_>, txn: &mut Write<'_>, new: NewMessage) -> Result<MessageId> {
    let id: MessageId = cx.db.allocate(txn)?;
    let message = Message {
        session: new.session,
        agent: new.agent,
        seq: new.seq,
        body: new.body,
        trigger: new.trigger,
        reply: new.reply,
        from: new.from,
        state: MessageState::Pending(Due::Now),
        tries: 0,
        stored: cx.now.wall,
    };
    cx.db.messages_by_session.put(txn, &(message.session, message.seq), &id)?;
    index(cx, txn, id, &message, Row::Add)?;
    cx.db.messages.put(txn, &id, &message)?;
    Ok(id)
}

/// Changes a stored message: `change` sees the row and alters it, the indexes follow.
pub(super) fn update(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: MessageId,
    change: impl FnOnce(&mut Message),
) -> Result<Message> {
    let mut message = cx.db.messages.require(txn, &id)?;
    index(cx, txn, id, &message, Row::Remove)?;
    change(&mut message);
    index(cx, txn, id, &message, Row::Add)?;
    cx.db.messages.put(txn, &id, &message)?;
    Ok(message)
}

/// Ends a message and tells its source, together with what was said about it.
pub(super) fn end(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: MessageId,
    (state, answers): (MessageState, Vec<OutboundId>),
    effects: &mut Vec<Effect>,
) -> Result<Message> {
    let message = update(cx, txn, id, |message| message.state = state.clone())?;
    if let Some(source) = cx.db.bodies.require(txn, &message.body)?.source {
        effects.push(Effect::Settled(Settled { message: id, source, state, answers }));
    }
    Ok(message)
}

/// The message at a position of a session.
pub(super) fn at(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId, seq: u64) -> Result<Option<(MessageId, Message)>> {
    let Some(id) = cx.db.messages_by_session.get(txn, &(session, seq))? else { return Ok(None) };
    Ok(Some((id, cx.db.messages.require(txn, &id)?)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Add,
    Remove,
}

/// Adds or removes the index row that follows from a message's state, and its share of the agent's backlog.
fn index(cx: &Cx<'_>, txn: &mut Write<'_>, id: MessageId, message: &Message, row: Row) -> Result<()> {
    let place = (message.session, message.seq);
    let by_place = match (&message.state, message.trigger) {
        (MessageState::Pending(Due::Now), true) => Some(&cx.db.ready),
        (MessageState::Pending(_), false) => Some(&cx.db.context),
        (MessageState::Claimed { .. }, _) => Some(&cx.db.claims),
        _ => None,
    };
    if let Some(table) = by_place {
        match row {
            Row::Add => table.put(txn, &place, &id)?,
            Row::Remove => {
                table.delete(txn, &place)?;
            }
        }
    }
    match (&message.state, message.trigger, row) {
        (MessageState::Pending(Due::At(time)), true, Row::Add) => cx.db.later.put(txn, &(*time, id), &())?,
        (MessageState::Pending(Due::At(time)), true, Row::Remove) => {
            cx.db.later.delete(txn, &(*time, id))?;
        }
        (MessageState::Pending(Due::Retry(until)), true, Row::Add) => cx.db.retries.put(txn, &(*until, id), &())?,
        (MessageState::Pending(Due::Retry(until)), true, Row::Remove) => {
            cx.db.retries.delete(txn, &(*until, id))?;
        }
        _ => {}
    }
    if message.trigger && matches!(message.state, MessageState::Pending(_) | MessageState::Claimed { .. }) {
        count_backlog(cx, txn, message.agent, row)?;
    }
    Ok(())
}

fn count_backlog(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, row: Row) -> Result<()> {
    let before = backlog(cx, txn, agent)?;
    match row {
        Row::Add => cx.db.backlog.put(txn, &agent, &before.saturating_add(1)),
        Row::Remove if before <= 1 => cx.db.backlog.delete(txn, &agent).map(drop),
        Row::Remove => cx.db.backlog.put(txn, &agent, &(before - 1)),
    }
}

/// How many triggering messages of an agent are pending or claimed.
pub(super) fn backlog(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<u64> {
    Ok(cx.db.backlog.get(txn, &agent)?.unwrap_or(0))
}
