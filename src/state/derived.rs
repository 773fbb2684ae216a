//! Parts of derived index rows that need more than a line in the schema, and the counts of held files.

use std::collections::BTreeSet;

use super::error::readable;
use super::indexed;
use super::keys::{HeldKey, HolderKey, PersonKey, QueueKey, SenderKey, SessionKey, ThreadKey};
use super::text_key::Text;
use super::{Result, Tables, Write};
use crate::model::approval::{Approval, ApprovalSubject, QuestionState, Waitlist};
use crate::model::content::BlobId;
use crate::model::delivery::{OutState, Outbound};
use crate::model::id::{AgentId, BodyId, ChatId, OutboundId, SessionId};
use crate::model::message::{Body, Drop, Reason};
use crate::model::policy::Policy;
use crate::model::session::Session;
use crate::model::{Awake, Turn};

/// Key of an undelivered message in its outgoing queue.
#[must_use]
pub fn lane(id: OutboundId, outbound: &Outbound) -> Option<QueueKey> {
    let undelivered = matches!(outbound.state, OutState::Waiting { .. } | OutState::Attempting { .. });
    let to = ThreadKey::of(outbound.to.as_ref().filter(|_| undelivered)?);
    Some(QueueKey { to, turn: outbound.turn(), outbound: id })
}

/// The time of the next action for a message, if it is the head of its queue. The limit of an attempt is a constant: if
/// it changed from one transaction to the next, old rows would not be found.
#[must_use]
pub const fn head_due(outbound: &Outbound) -> Option<Awake> {
    match &outbound.state {
        OutState::Attempting { since } => Some(since.plus(Policy::STANDARD.attempt_max)),
        OutState::Waiting { until, .. } => *until,
        _ => None,
    }
}

/// Keys of a body in the index of files.
pub(super) fn blobs(id: BodyId, body: &Body) -> Vec<((Text, BodyId), ())> {
    let blobs: BTreeSet<&BlobId> = body.attachments.iter().filter_map(|file| file.blob.stored()).collect();
    blobs.into_iter().filter_map(|blob| Some(((Text::new(blob.as_str()).ok()?, id), ()))).collect()
}

/// The chat and the sender that an open approval is about.
pub(super) fn sender_asked_about(approval: &Approval) -> Option<SenderKey> {
    match &approval.about {
        ApprovalSubject::Sender { chat, sender, .. } if approval.state.is_open() => {
            Some(SenderKey { chat: *chat, sender: PersonKey::of(sender) })
        }
        _ => None,
    }
}

/// The chat without a wired agent that an approval is about.
pub(super) const fn unwired_chat(approval: &Approval) -> Option<ChatId> {
    match &approval.about {
        ApprovalSubject::Channel { chat, .. } => Some(*chat),
        _ => None,
    }
}

/// The session that asked for an open approval.
pub(super) const fn asking_session(approval: &Approval) -> Option<SessionId> {
    match &approval.about {
        ApprovalSubject::Packages { session, .. }
        | ApprovalSubject::McpServer { session, .. }
        | ApprovalSubject::CreateAgent { session, .. }
            if approval.state.is_open() =>
        {
            Some(*session)
        }
        _ => None,
    }
}

/// Bytes of the files of a message.
#[must_use]
pub fn file_bytes(body: &Body) -> u64 {
    body.attachments
        .iter()
        .filter(|file| file.blob.stored().is_some())
        .fold(0, |bytes, file| bytes.saturating_add(file.size))
}

/// The owner of a held message's file quota: its sender, or its chat if the sender is not known.
#[must_use]
pub fn holder(body: &Body) -> Option<HolderKey> {
    let chat = || body.source.as_ref().map(|source| HolderKey::chat(&source.channel, &source.platform_id));
    body.sender.as_ref().map(HolderKey::person).or_else(chat)
}

/// Updates the byte counts when a message becomes held or stops being held.
///
/// # Errors
/// Those of reading and writing rows.
pub fn count_held(db: &Tables, txn: &mut Write<'_>, body: &Body, change: impl Fn(u64) -> u64) -> Result<()> {
    let write = |bytes| if bytes == 0 { None } else { Some(bytes) };
    if let Some(holder) = holder(body) {
        match write(change(db.held_bytes_by_person.get(txn, &holder)?.unwrap_or(0))) {
            Some(bytes) => db.held_bytes_by_person.put(txn, &holder, &bytes)?,
            None => drop(db.held_bytes_by_person.delete(txn, &holder)?),
        }
    }
    match write(change(db.held_bytes.get(txn, &())?.unwrap_or(0))) {
        Some(bytes) => db.held_bytes.put(txn, &(), &bytes),
        None => db.held_bytes.delete(txn, &()).map(drop),
    }
}

/// Recounts the files of a held message after some were fetched for another agent that has the message.
///
/// # Errors
/// Those of reading and writing rows.
pub fn recount_held(db: &Tables, txn: &mut Write<'_>, id: BodyId, body: &Body) -> Result<()> {
    let bytes = file_bytes(body);
    for ((_, approval), before) in db.held_messages_by_body.collect_prefix(txn, &id, usize::MAX)? {
        count_held(db, txn, body, |held| held.saturating_sub(before).saturating_add(bytes))?;
        db.held_messages_by_body.put(txn, &(id, approval), &bytes)?;
    }
    Ok(())
}

/// The key of a dropped event in `dropped_for_backlog`, if it belongs there.
#[must_use]
pub fn refused_for_backlog(drop: &Drop) -> Option<(AgentId, ChatId)> {
    drop.agent.zip(drop.chat).filter(|_| drop.reason == Reason::Backlog)
}

/// Fills the index tables that are new in format 2, and moves the rows of `lanes` to their new keys. Skips records that
/// cannot be read; `check` reports them.
///
/// # Errors
/// Those of reading and writing rows.
pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    indexed::rebuild(&db.outbound, txn)?;
    indexed::rebuild(&db.approvals, txn)?;
    let approvals = readable_rows(db.approvals.iter(txn)?)?;
    for (_, approval) in approvals {
        let waits = approval.state.is_open() && approval.turn() == Turn::Later;
        if let Some(user) = approval.approver.as_ref().filter(|_| waits) {
            let key = PersonKey::of(user);
            let waits = db.waitlists.get(txn, &key)?.map_or(0, |list| list.waits).saturating_add(1);
            db.waitlists.put(txn, &key, &Waitlist { user: user.clone(), waits, digest: None })?;
        }
    }
    let held = readable_rows(db.held_messages.iter(txn)?)?;
    for (HeldKey { approval: id, body }, _) in held {
        let row = readable(db.bodies.get(txn, &body))?;
        let bytes = row.as_ref().map_or(0, file_bytes);
        db.held_messages_by_body.put(txn, &(body, id), &bytes)?;
        if let Some(row) = row {
            count_held(db, txn, &row, |held| held.saturating_add(bytes))?;
        }
    }
    let dropped = readable_rows(db.dropped_events.iter(txn)?)?;
    for (id, drop) in dropped {
        if let Some(key) = refused_for_backlog(&drop) {
            db.dropped_for_backlog.put(txn, &key, &id)?;
        }
    }
    let questions = readable_rows(db.questions.iter(txn)?)?;
    for (id, question) in questions {
        let session = db.sessions_by_id.get(txn, &question.session)?;
        let Some(workspace) = session.filter(|_| question.state == QuestionState::Open) else {
            continue;
        };
        let session = readable(db.sessions.get(txn, &SessionKey { workspace, session: question.session }))?;
        if let Some(agent) = session.as_ref().and_then(Session::as_chat).map(|session| session.agent) {
            db.questions_by_agent.put(txn, &(agent, id), &())?;
        }
    }
    Ok(())
}

/// The rows that can be read.
fn readable_rows<T>(rows: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    rows.filter_map(|row| readable(row.map(Some)).transpose()).collect()
}
