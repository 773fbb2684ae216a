//! Keeps the index of what was said in step with the rows that say it.

use crate::Result;
use crate::model::delivery::Outbound;
use crate::model::id::{ApprovalId, BodyId, ChatId, MessageId, OutboundId, SkipId};
use crate::model::message::{Body, Message};
use crate::model::recall::{RecallScope, SaidId};
use crate::model::skip::SkipSummary;
use crate::model::time::Timestamp;
use crate::rows::sessions;
use crate::search::Words;
use crate::state::Owned;
use crate::state::recall::{self, source};
use crate::tx::Tx;
use std::sync::Arc;

/// Keeps the words of a body for the messages that are made of it.
pub(crate) fn body_stored(tx: &mut Tx<'_, '_>, id: BodyId, body: &Body) {
    let words = source::of_body(body).map_or_else(nothing, |text| tx.cx.counted.get(&text));
    tx.said = Some((id, words));
}

fn nothing() -> Arc<Words> {
    Arc::new(Words::from_bytes(Vec::new()))
}

fn words_of(tx: &Tx<'_, '_>, id: BodyId) -> Result<Arc<Words>> {
    if let Some((_, words)) = tx.said.as_ref().filter(|(known, _)| *known == id) {
        return Ok(Arc::clone(words));
    }
    let body = tx.db.bodies.get(tx, &id)?;
    let text = body.map(|body| source::of_stored(tx.db, tx, id, &body)).transpose()?.flatten();
    Ok(text.map_or_else(nothing, |text| tx.cx.counted.get(&text)))
}

/// A message was stored. `chat` is the chat that it was said in, if the caller knows it.
pub(crate) fn message_stored(tx: &mut Tx<'_, '_>, id: MessageId, row: &Message, chat: Option<ChatId>) -> Result<()> {
    let words = words_of(tx, row.body)?;
    if words.is_empty() {
        return Ok(());
    }
    let scope = match chat {
        Some(_) => RecallScope::Chat(row.agent, chat),
        None => source::scope_in(tx.db, tx, row.agent, Some(row.session))?,
    };
    recall::add(tx.db, tx, scope, SaidId::Message(id), row.stored, &words)
}

/// A message is held for an approval.
pub(crate) fn held(tx: &mut Tx<'_, '_>, approval: ApprovalId, id: BodyId, body: &Body) -> Result<()> {
    let words = words_of(tx, id)?;
    recall::add(tx.db, tx, RecallScope::Held(approval), SaidId::Held(id), body.said, &words)
}

/// A message is not held any more.
pub(crate) fn let_go(tx: &mut Tx<'_, '_>, approval: ApprovalId, id: BodyId, body: &Body) -> Result<()> {
    let Some(text) = source::of_body(body) else { return Ok(()) };
    recall::remove(tx.db, tx, RecallScope::Held(approval), SaidId::Held(id), &text.words()).map(drop)
}

/// The text of messages is removed.
pub(crate) fn body_removed(tx: &mut Tx<'_, '_>, id: BodyId, body: &Body) -> Result<()> {
    let Some(text) = source::of_stored(tx.db, tx, id, body)? else { return Ok(()) };
    let words = text.words();
    for FoundMessage { id, likely, .. } in messages_of(tx, id, body)? {
        recall::remove_of(tx.db, tx, likely, SaidId::Message(id), &words)?;
    }
    Ok(())
}

/// Runs `change`, which stores the transcript of a body's audio files, and reindexes the body's messages.
pub(crate) fn body_heard(
    tx: &mut Tx<'_, '_>,
    id: BodyId,
    change: impl FnOnce(&mut Tx<'_, '_>) -> Result<()>,
) -> Result<()> {
    let body = tx.db.bodies.require(tx, &id)?;
    let before = source::of_stored(tx.db, tx, id, &body)?;
    change(tx)?;
    let after = source::of_stored(tx.db, tx, id, &body)?;
    let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
    let (before, after) = (before.words(), after.words());
    if before == after {
        return Ok(());
    }
    for message in messages_of(tx, id, &body)? {
        // What is not indexed yet will be.
        let said = SaidId::Message(message.id);
        let of_nothing = message.scope.filter(|_| before.is_empty());
        if let Some(scope) = recall::remove_of(tx.db, tx, message.likely, said, &before)?.or(of_nothing) {
            recall::add(tx.db, tx, scope, said, message.stored, &after)?;
        }
    }
    Ok(())
}

/// A message and where it is found.
struct FoundMessage {
    id: MessageId,
    /// None if its chat was removed.
    scope: Option<RecallScope>,
    /// Where its words are, as a rule.
    likely: RecallScope,
    stored: Timestamp,
}

fn messages_of(tx: &Tx<'_, '_>, id: BodyId, body: &Body) -> Result<Vec<FoundMessage>> {
    let mut found = Vec::new();
    for (Owned { id, .. }, ()) in tx.db.messages_by_body.collect_prefix(tx, &id, usize::MAX)? {
        let Some(row) = crate::readable(tx.db.messages.get(tx, &id))? else { continue };
        let Some(session) = source::session(tx.db, tx, row.session)? else { continue };
        let scope = source::scope(tx.db, tx, &session, body.source.as_ref(), Some(row.stored))?;
        let likely = scope.unwrap_or(RecallScope::Chat(session.agent, None));
        found.push(FoundMessage { id, scope, likely, stored: row.stored });
    }
    Ok(found)
}

/// An agent's message was stored.
pub(crate) fn answer_stored(tx: &mut Tx<'_, '_>, id: OutboundId, row: &Outbound) -> Result<()> {
    let Some((session, text)) = source::of_outbound(row) else { return Ok(()) };
    let Some(session) = sessions::load(tx, session)? else { return Ok(()) };
    let Some(scope) = source::scope(tx.db, tx, &session, row.to.as_ref(), None)? else { return Ok(()) };
    let words = tx.cx.counted.get(&text);
    recall::add(tx.db, tx, scope, SaidId::Answer(id), row.stored, &words)
}

/// An agent's message is removed, or will not be sent. `row` is what it was before.
pub(crate) fn answer_removed(tx: &mut Tx<'_, '_>, id: OutboundId, row: &Outbound) -> Result<()> {
    let Some((session, text)) = source::of_outbound(row) else { return Ok(()) };
    let Some(session) = sessions::load(tx, session)? else { return Ok(()) };
    let scope = source::scope(tx.db, tx, &session, row.to.as_ref(), Some(row.stored))?;
    let likely = scope.unwrap_or(RecallScope::Chat(session.agent, None));
    recall::remove_of(tx.db, tx, likely, SaidId::Answer(id), &text.words()).map(drop)
}

pub(crate) fn skip_stored(tx: &mut Tx<'_, '_>, id: SkipId, row: &SkipSummary) -> Result<()> {
    let scope = source::scope_in(tx.db, tx, row.agent, row.session)?;
    recall::add(tx.db, tx, scope, SaidId::Skip(id), row.taken, &source::of_skip(row).words())
}

pub(crate) fn skip_removed(tx: &mut Tx<'_, '_>, id: SkipId, row: &SkipSummary) -> Result<()> {
    let scope = source::scope_in(tx.db, tx, row.agent, row.session)?;
    recall::remove_of(tx.db, tx, scope, SaidId::Skip(id), &source::of_skip(row).words()).map(drop)
}
