//! Indexes what was said before the store had this index: some rows at a time, beside normal work.
//!
//! Two cursors for each kind of text say how far it is indexed, and where the texts begin that were indexed when they were
//! stored. Without cursors, everything is indexed.

use super::source::{self, SaidText};
use super::{NewText, add};
use crate::error::readable;
use crate::model::Timestamp;
use crate::model::id::{AgentId, BodyId, Counted, MessageId, OutboundId, SkipId};
use crate::model::message::Message;
use crate::model::recall::{RecallScope, SaidId};
use crate::{HeldKey, Number, Read, Result, Tables, Text, Write};

/// The cursors of a kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The last one that is indexed.
    pub at: u64,
    /// The last one that has to be.
    pub end: u64,
}

impl Progress {
    /// Whether a text is not indexed yet.
    #[must_use]
    pub const fn is_missing(self, number: u64) -> bool {
        number > self.at && number <= self.end
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Messages,
    Answers,
    Skips,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Messages, Self::Answers, Self::Skips];

    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Messages => ("recall_messages", "recall_messages_end"),
            Self::Answers => ("recall_answers", "recall_answers_end"),
            Self::Skips => ("recall_skips", "recall_skips_end"),
        }
    }
}

/// Begins to index an older store. Held messages, of which there are few, are indexed at once.
///
/// # Errors
/// Those of reading and writing rows.
pub fn begin(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    for kind in Kind::ALL {
        let end = match kind {
            Kind::Messages => last::<MessageId>(db, txn)?,
            Kind::Answers => last::<OutboundId>(db, txn)?,
            Kind::Skips => last::<SkipId>(db, txn)?,
        };
        if end > 0 {
            let (at_name, end_name) = kind.names();
            db.retention_cursors.put(txn, &Text::new(at_name)?, &Number(0))?;
            db.retention_cursors.put(txn, &Text::new(end_name)?, &Number(end))?;
        }
    }
    let held: Vec<HeldKey> = db.held_messages.iter(txn)?.filter_map(|row| row.ok().map(|(key, _)| key)).collect();
    for HeldKey { approval, body } in held {
        let Some(row) = readable(db.bodies.get(txn, &body))? else { continue };
        if let Some(text) = source::of_body(&row) {
            add(db, txn, RecallScope::Held(approval), SaidId::Held(body), row.said, &text.words())?;
        }
    }
    Ok(())
}

/// Forgets how far an older store is indexed.
pub(super) fn end(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    for name in Kind::ALL.iter().map(|kind| kind.names()).flat_map(|(at, end)| [at, end]) {
        db.retention_cursors.delete(txn, &Text::new(name)?)?;
    }
    Ok(())
}

fn last<I: Counted>(db: &Tables, txn: &Read<'_>) -> Result<u64> {
    db.counter::<I>(txn)
}

/// How far the texts of the kind of an id are indexed.
///
/// # Errors
/// Those of reading rows.
pub fn progress(db: &Tables, txn: &Read<'_>, id: SaidId) -> Result<Option<Progress>> {
    match id {
        SaidId::Message(_) => read(db, txn, Kind::Messages),
        SaidId::Answer(_) => read(db, txn, Kind::Answers),
        SaidId::Skip(_) => read(db, txn, Kind::Skips),
        SaidId::Held(_) => Ok(None),
    }
}

fn read(db: &Tables, txn: &Read<'_>, kind: Kind) -> Result<Option<Progress>> {
    let (at, end) = kind.names();
    let Some(Number(at)) = db.retention_cursors.get(txn, &Text::new(at)?)? else { return Ok(None) };
    let end = db.retention_cursors.get(txn, &Text::new(end)?)?;
    Ok(end.map(|Number(end)| Progress { at, end }))
}

/// Indexes some more rows. Returns whether there may be more.
///
/// # Errors
/// Those of reading and writing rows.
pub fn step(db: &Tables, txn: &mut Write<'_>, limit: usize) -> Result<bool> {
    for kind in Kind::ALL {
        let Some(Progress { at, end }) = read(db, txn, kind)? else { continue };
        let (at_name, end_name) = kind.names();
        let mut position = at;
        for _ in 0..limit {
            let next = next(db, txn, kind, position)?.filter(|number| *number <= end);
            let Some(next) = next else {
                db.retention_cursors.delete(txn, &Text::new(at_name)?)?;
                db.retention_cursors.delete(txn, &Text::new(end_name)?)?;
                return Ok(true);
            };
            index(db, txn, kind, next)?;
            position = next;
        }
        db.retention_cursors.put(txn, &Text::new(at_name)?, &Number(position))?;
        return Ok(true);
    }
    Ok(false)
}

fn next(db: &Tables, txn: &Read<'_>, kind: Kind, after: u64) -> Result<Option<u64>> {
    Ok(match kind {
        Kind::Messages => db.messages.next_key(txn, &MessageId::new(after))?.map(MessageId::number),
        Kind::Answers => db.outbound.next_key(txn, &OutboundId::new(after))?.map(OutboundId::number),
        Kind::Skips => db.skips.next_key(txn, &SkipId::new(after))?.map(SkipId::number),
    })
}

fn index(db: &Tables, txn: &mut Write<'_>, kind: Kind, number: u64) -> Result<()> {
    let text = match kind {
        Kind::Messages => message(db, txn, MessageId::new(number))?,
        Kind::Answers => answer(db, txn, OutboundId::new(number))?,
        Kind::Skips => skip(db, txn, SkipId::new(number))?,
    };
    let Some(Indexed { scope: Some(scope), id, at, text, .. }) = text else { return Ok(()) };
    add(db, txn, scope, id, at, &text.words())
}

/// A text as it has to be in the index.
pub(crate) struct Indexed {
    pub(crate) agent: AgentId,
    /// None if its chat was removed.
    pub(crate) scope: Option<RecallScope>,
    pub(crate) id: SaidId,
    pub(crate) at: Timestamp,
    pub(crate) text: SaidText,
}

/// A message; none if its text is gone, or no person or agent said it.
pub(crate) fn message(db: &Tables, txn: &Read<'_>, id: MessageId) -> Result<Option<Indexed>> {
    let Some(row) = readable(db.messages.get(txn, &id))? else { return Ok(None) };
    let Message { session, body, stored, .. } = row;
    let number = body;
    let Some(body) = readable(db.bodies.get(txn, &number))? else { return Ok(None) };
    let text = source::of_stored(db, txn, number, &body)?;
    let (Some(text), Some(session)) = (text, source::session(db, txn, session)?) else { return Ok(None) };
    let scope = source::scope(db, txn, &session, body.source.as_ref(), Some(stored))?;
    Ok(Some(Indexed { agent: session.agent, scope, id: SaidId::Message(id), at: stored, text }))
}

/// What an agent said; none if it may not be found.
pub(crate) fn answer(db: &Tables, txn: &Read<'_>, id: OutboundId) -> Result<Option<Indexed>> {
    let Some(row) = readable(db.outbound.get(txn, &id))? else { return Ok(None) };
    let Some((session, text)) = source::of_outbound(&row) else { return Ok(None) };
    let Some(session) = source::session(db, txn, session)? else { return Ok(None) };
    let scope = source::scope(db, txn, &session, row.to.as_ref(), Some(row.stored))?;
    Ok(Some(Indexed { agent: session.agent, scope, id: SaidId::Answer(id), at: row.stored, text }))
}

pub(crate) fn skip(db: &Tables, txn: &Read<'_>, id: SkipId) -> Result<Option<Indexed>> {
    let Some(row) = readable(db.skips.get(txn, &id))? else { return Ok(None) };
    let scope = Some(source::scope_in(db, txn, row.agent, row.session)?);
    let (id, at, text) = (SaidId::Skip(id), row.taken, source::of_skip(&row));
    Ok(Some(Indexed { agent: row.agent, scope, id, at, text }))
}

/// The words of a new text, for checks.
pub(crate) fn new_words(bytes: &[u8]) -> crate::search::Words {
    NewText::of(bytes).words
}

/// A held message.
pub(crate) fn held(db: &Tables, txn: &Read<'_>, key: HeldKey) -> Result<Option<SaidText>> {
    let HeldKey { body, .. } = key;
    let body: BodyId = body;
    Ok(readable(db.bodies.get(txn, &body))?.as_ref().and_then(source::of_body))
}
