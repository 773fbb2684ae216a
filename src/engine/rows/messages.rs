//! The only writer of messages: a row changes together with the backlog of its agent.

use crate::Result;
use crate::model::address::Address;
use crate::model::content::{BlobId, FileBytes};
use crate::model::effect::{Effect, Settled};
use crate::model::id::{AgentId, BodyId, ChatId, MessageId, OutboundId, SessionId};
use crate::model::message::{Body, Due, Hop, Message, MessageState, Reason};
use crate::model::task::Occurrence;
use crate::model::time::Awake;
use crate::rows::{budgets, recall, session_files, transcripts};
use crate::state::indexed::Updated;
use crate::state::{InboxKey, Text, WireKey};
use crate::tx::{Hook, Tx};
use std::collections::BTreeSet;

/// When each of the session's claimed messages was claimed.
pub(crate) fn claims_of(tx: &Tx<'_, '_>, session: SessionId) -> Result<Vec<Awake>> {
    let mut claims = Vec::new();
    for (_, id) in tx.db.claimed_messages.collect_prefix(tx, &session, tx.policy.rows_per_input)? {
        if let MessageState::Claimed { since, .. } = tx.db.messages.require(tx, &id)?.state {
            claims.push(since);
        }
    }
    Ok(claims)
}

/// A message that is not stored yet.
pub(crate) struct NewMessage {
    /// The session it goes to.
    pub(crate) session: SessionId,
    /// The session's agent.
    pub(crate) agent: AgentId,
    /// Its position in the session.
    pub(crate) seq: u64,
    pub(crate) body: BodyId,
    /// Whether it requests a turn.
    pub(crate) trigger: bool,
    /// The reply address.
    pub(crate) reply: Option<Address>,
    /// The sending session, if an agent sent it.
    pub(crate) from: Option<Hop>,
    /// The slot of a task that it belongs to.
    pub(crate) slot: Option<Occurrence>,
    /// The chat that it was said in, if it is not the session's.
    pub(crate) chat: Option<ChatId>,
}

/// Stores the body of a message.
pub(crate) fn insert_body(tx: &mut Tx<'_, '_>, body: &Body) -> Result<BodyId> {
    let id = tx.db.allocate(tx)?;
    tx.db.bodies.append(tx, &id, body)?;
    recall::body_stored(tx, id, body);
    Ok(id)
}

/// Stores files of a body that were fetched after the body was stored.
pub(crate) fn put_files(tx: &mut Tx<'_, '_>, id: BodyId, body: &Body) -> Result<()> {
    tx.db.bodies.put(tx, &id, body)
}

/// Removes a body's files, and the body itself if `with` says so. Returns the files that no body needs any more.
pub(crate) fn remove_files(tx: &mut Tx<'_, '_>, id: BodyId, mut body: Body, with: Removed) -> Result<Vec<BlobId>> {
    tx.db.fetches.delete(tx, &id)?;
    session_files::forget_body(tx, id)?;
    let files = blobs_of(&body);
    match with {
        Removed::Body => {
            recall::body_removed(tx, id, &body)?;
            tx.db.bodies.delete(tx, &id)?;
            tx.db.transcripts.delete(tx, &id)?;
        }
        Removed::FilesOnly(reason) => {
            let kept = body.attachments.iter_mut().filter(|file| !matches!(file.blob, FileBytes::Missing(_)));
            kept.for_each(|file| file.blob = FileBytes::Missing(reason.to_owned()));
            tx.db.bodies.put(tx, &id, &body)?;
            transcripts::give_up(tx, id, reason)?;
        }
    }
    let mut unneeded = Vec::new();
    for blob in files {
        if tx.db.bodies_by_file.first_in(tx, &Text::new(blob.as_str())?)?.is_none() {
            unneeded.push(blob);
        }
    }
    Ok(unneeded)
}

/// What is removed together with the files of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    Body,
    /// Nothing. The body then states why the files are missing.
    FilesOnly(&'static str),
}

/// The files that a body needs, without duplicates.
fn blobs_of(body: &Body) -> BTreeSet<BlobId> {
    body.attachments.iter().filter_map(|file| file.blob.stored().cloned()).collect()
}

/// Stores a message that is ready for its agent.
pub(crate) fn insert(tx: &mut Tx<'_, '_>, new: NewMessage) -> Result<MessageId> {
    let id: MessageId = tx.db.allocate(tx)?;
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
        stored: tx.now.wall,
    };
    tx.db.messages.append(tx, &id, &message)?;
    count(tx, None, &message)?;
    recall::message_stored(tx, id, &message, new.chat)?;
    Ok(id)
}

/// Changes a stored message.
pub(crate) fn update(tx: &mut Tx<'_, '_>, id: MessageId, change: impl FnOnce(&mut Message)) -> Result<Message> {
    update_from(tx, id, change).map(|updated| updated.after)
}

fn update_from(tx: &mut Tx<'_, '_>, id: MessageId, change: impl FnOnce(&mut Message)) -> Result<Updated<Message>> {
    let updated = tx.db.messages.update(tx, &id, change)?;
    count(tx, Some(&updated.before), &updated.after)?;
    budgets::message_changed(tx, &updated.before, &updated.after)?;
    Ok(updated)
}

/// Makes a message wait for the files of its body. The time stored only determines when the sweep checks it again.
pub(crate) fn park(tx: &mut Tx<'_, '_>, id: MessageId) -> Result<()> {
    let at = tx.now.wall.plus(tx.policy.fetch_max);
    update(tx, id, |message| message.state = MessageState::Pending(Due::At(at))).map(drop)
}

/// Whether a message waits for the files of its body.
pub(crate) fn is_awaited(tx: &Tx<'_, '_>, id: MessageId) -> Result<bool> {
    // Usually nothing is being fetched. The number of rows is known without reading any.
    if tx.db.fetches.is_empty(tx)? {
        return Ok(false);
    }
    tx.db.fetches.contains(tx, &tx.db.messages.require(tx, &id)?.body)
}

/// Ends a message and reports this to its source, together with the answers.
pub(crate) fn end(
    tx: &mut Tx<'_, '_>,
    id: MessageId,
    state: MessageState,
    answers: Vec<OutboundId>,
) -> Result<Message> {
    let Updated { before, after: message } = update_from(tx, id, |message| message.state = state.clone())?;
    let body = tx.db.bodies.require(tx, &message.body)?;
    session_files::message_ended(tx, &before, &state, &body)?;
    if let Some(source) = body.source {
        let answers = answers.into_iter().map(|answer| tx.db.outgoing(tx, answer)).collect::<Result<Vec<_>>>()?;
        tx.effects.push(Effect::Settled(Settled { message: id, source, state, answers }));
    }
    if let Some(slot) = message.slot {
        tx.call(Hook::TaskRunEnded { slot, message: id, state: &message.state })?;
    }
    // Usually nothing is asked. The number of rows is known without reading any.
    if !tx.db.approvals_by_session.is_empty(tx)? {
        tx.call(Hook::MessageEnded { session: message.session, message: id })?;
    }
    Ok(message)
}

/// The message at a position of a session.
pub(crate) fn at(tx: &Tx<'_, '_>, session: SessionId, seq: u64) -> Result<Option<(MessageId, Message)>> {
    let Some(id) = tx.db.messages_by_session.get(tx, &InboxKey { session, seq })? else { return Ok(None) };
    Ok(Some((id, tx.db.messages.require(tx, &id)?)))
}

/// Updates the backlog of a message's agent.
fn count(tx: &mut Tx<'_, '_>, before: Option<&Message>, after: &Message) -> Result<()> {
    match (before.is_some_and(Message::is_backlog), after.is_backlog()) {
        (false, true) => tx.db.change_waiting(tx, after.agent, |count| count.saturating_add(1)),
        (true, false) => tx.db.change_waiting(tx, after.agent, |count| count.saturating_sub(1)),
        _ => Ok(()),
    }
}

/// Whether an agent takes another message: neither its backlog nor the number of messages that wait for budgets is at its
/// limit.
pub(crate) fn has_place(tx: &Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    let most = tx.policy.backlog_max;
    Ok(tx.db.waiting(tx, agent)? < most && tx.db.budget_waits.len(tx)? < most.saturating_mul(BUDGET_WAITS))
}

/// Messages of all agents that may wait for budgets, in backlogs of one agent.
const BUDGET_WAITS: u64 = 10;

/// Drops a message of a removed agent.
pub(crate) fn drop_message(tx: &mut Tx<'_, '_>, id: MessageId) -> Result<()> {
    let dropped = MessageState::Dropped { reason: Reason::AgentRemoved, at: tx.now.wall };
    end(tx, id, dropped, vec![]).map(drop)
}

/// Whether the session's output with this id is already stored. An id that is too long for a key is not.
pub(crate) fn is_known(tx: &Tx<'_, '_>, session: SessionId, wire_id: &str) -> Result<bool> {
    let Ok(wire_id) = Text::new(wire_id) else { return Ok(false) };
    Ok(tx.db.outbound_by_wire.get(tx, &WireKey { session, id: wire_id })?.is_some())
}

/// Whether a message is still open.
pub(crate) const fn is_open(message: &Message) -> bool {
    matches!(message.state, MessageState::Pending(_) | MessageState::Claimed { .. })
}
