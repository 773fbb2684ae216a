//! The one writer of messages: a row and all indexes that follow from its state change together.

use std::collections::BTreeSet;

use super::{Cx, Result, schedule};
use crate::model::address::Address;
use crate::model::content::BlobId;
use crate::model::effect::{Effect, Settled};
use crate::model::id::{AgentId, BodyId, MessageId, OutboundId, SessionId};
use crate::model::message::{Body, Due, Hop, Message, MessageState};
use crate::model::task::Slot;
use crate::model::time::{Awake, Timestamp};
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
    /// The occurrence of a task that it is.
    pub(super) slot: Option<Slot>,
}

/// Stores what an event says.
pub(super) fn insert_body(cx: &Cx<'_>, txn: &mut Write<'_>, body: &Body) -> Result<BodyId> {
    let id = cx.db.allocate(txn)?;
    cx.db.bodies.append(txn, &id, body)?;
    for blob in blobs_of(body) {
        cx.db.blobs.put(txn, &(Text::new(blob.as_str())?, id), &())?;
    }
    Ok(id)
}

/// Lets go of a body's files, and of the body itself if `with` says so; returns files that nobody needs any more.
pub(super) fn remove_files(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, mut body): (BodyId, Body),
    with: Removed,
) -> Result<Vec<BlobId>> {
    let mut unneeded = Vec::new();
    for blob in blobs_of(&body) {
        let key = Text::new(blob.as_str())?;
        cx.db.blobs.delete(txn, &(key.clone(), id))?;
        if cx.db.blobs.first_in(txn, &key)?.is_none() {
            unneeded.push(blob);
        }
    }
    match with {
        Removed::Body => drop(cx.db.bodies.delete(txn, &id)?),
        Removed::FilesOnly(reason) => {
            let kept = body.attachments.iter_mut().filter(|file| file.blob.is_ok());
            kept.for_each(|file| file.blob = Err(reason.to_owned()));
            cx.db.bodies.put(txn, &id, &body)?;
        }
    }
    Ok(unneeded)
}

/// What goes with the files of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removed {
    /// The body.
    Body,
    /// Nothing: the body says from then on why it has them not.
    FilesOnly(&'static str),
}

/// The files that a body needs, each once.
fn blobs_of(body: &Body) -> BTreeSet<BlobId> {
    body.attachments.iter().filter_map(|file| file.blob.as_ref().ok().cloned()).collect()
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
        slot: new.slot,
        state: MessageState::Pending(Due::Now),
        tries: 0,
        failed_in: 0,
        told_to_wait: false,
        stored: cx.now.wall,
    };
    cx.db.messages_by_session.put(txn, &(message.session, message.seq), &id)?;
    cx.db.messages_by_body.append(txn, &(message.body, id), &())?;
    index(cx, txn, id, (None, Some(&message)))?;
    cx.db.messages.append(txn, &id, &message)?;
    Ok(id)
}

/// Changes a stored message: `change` sees the row and alters it, the indexes follow.
pub(super) fn update(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: MessageId,
    change: impl FnOnce(&mut Message),
) -> Result<Message> {
    let (after, before) = cx.db.messages.update(txn, &id, |message| {
        let before = message.clone();
        change(message);
        before
    })?;
    index(cx, txn, id, (Some(&before), Some(&after)))?;
    Ok(after)
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
    if let Some(slot) = message.slot {
        schedule::over(cx, txn, (slot, id, &message.state), effects)?;
    }
    Ok(message)
}

/// The message at a position of a session.
pub(super) fn at(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId, seq: u64) -> Result<Option<(MessageId, Message)>> {
    let Some(id) = cx.db.messages_by_session.get(txn, &(session, seq))? else { return Ok(None) };
    Ok(Some((id, cx.db.messages.require(txn, &id)?)))
}

/// Makes the index rows that follow from a message's state fit, and its share of the agent's backlog.
fn index(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: MessageId,
    (before, after): (Option<&Message>, Option<&Message>),
) -> Result<()> {
    let (waited, waits) = (before.and_then(wait_of), after.and_then(wait_of));
    if waited != waits {
        if let Some(waited) = waited {
            remove_wait(cx, txn, id, waited)?;
        }
        if let Some(waits) = waits {
            add_wait(cx, txn, id, waits)?;
        }
    }
    let of = |message: Option<&Message>| message.filter(|message| counts(message)).map(|message| message.agent);
    match (of(before), of(after)) {
        (None, Some(agent)) => cx.db.change_waiting(txn, agent, |count| count.saturating_add(1)),
        (Some(agent), None) => cx.db.change_waiting(txn, agent, |count| count.saturating_sub(1)),
        _ => Ok(()),
    }
}

/// Whether a message is part of its agent's backlog.
fn counts(message: &Message) -> bool {
    message.trigger && matches!(message.state, MessageState::Pending(_) | MessageState::Claimed { .. })
}

/// The one row by which an open message is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    Ready((SessionId, u64)),
    Context((SessionId, u64)),
    Claimed((SessionId, u64)),
    Later(Timestamp),
    Retry(Awake),
}

fn wait_of(message: &Message) -> Option<Wait> {
    let place = (message.session, message.seq);
    match (&message.state, message.trigger) {
        (MessageState::Pending(Due::Now), true) => Some(Wait::Ready(place)),
        (MessageState::Pending(Due::At(time)), true) => Some(Wait::Later(*time)),
        (MessageState::Pending(Due::Retry(until)), true) => Some(Wait::Retry(*until)),
        (MessageState::Pending(_), false) => Some(Wait::Context(place)),
        (MessageState::Claimed { .. }, _) => Some(Wait::Claimed(place)),
        _ => None,
    }
}

fn add_wait(cx: &Cx<'_>, txn: &mut Write<'_>, id: MessageId, wait: Wait) -> Result<()> {
    match wait {
        Wait::Ready(place) => cx.db.ready.put(txn, &place, &id),
        Wait::Context(place) => cx.db.context.put(txn, &place, &id),
        Wait::Claimed(place) => cx.db.claims.put(txn, &place, &id),
        Wait::Later(time) => cx.db.later.put(txn, &(time, id), &()),
        Wait::Retry(until) => cx.db.retries.put(txn, &(until, id), &()),
    }
}

fn remove_wait(cx: &Cx<'_>, txn: &mut Write<'_>, id: MessageId, wait: Wait) -> Result<()> {
    match wait {
        Wait::Ready(place) => cx.db.ready.delete(txn, &place),
        Wait::Context(place) => cx.db.context.delete(txn, &place),
        Wait::Claimed(place) => cx.db.claims.delete(txn, &place),
        Wait::Later(time) => cx.db.later.delete(txn, &(time, id)),
        Wait::Retry(until) => cx.db.retries.delete(txn, &(until, id)),
    }
    .map(drop)
}

/// How many triggering messages of an agent are pending or claimed.
pub(super) fn backlog(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<u64> {
    cx.db.waiting(txn, agent)
}
