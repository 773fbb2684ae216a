//! Answers to what agents ask of Hearth: rows as long as the incarnation that asked lives, and with them files.

use super::questions;
use crate::engine::{Cx, Result, readable};
use crate::model::approval::HostReply;
use crate::model::content::RawJson;
use crate::model::effect::{Effect, Export, ExportedReply};
use crate::model::id::{QuestionId, SessionId};
use crate::model::incarnation::Phase;
use crate::state::{Text, Write};

/// Answers of one incarnation that are kept; of more, those to its oldest requests have long been read.
const REPLIES_MAX: usize = 100;

/// Who waits for an answer, and under which name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::engine) struct Asker {
    /// Its session.
    pub(in crate::engine) session: SessionId,
    /// Its incarnation.
    pub(in crate::engine) incarnation: u32,
    /// Its number of the request.
    pub(in crate::engine) number: u64,
    /// Name of the answer.
    pub(in crate::engine) request: String,
}

/// Answers a request. False if nobody can read it any more: the incarnation that asked is gone.
pub(in crate::engine) fn answer(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    asker: &Asker,
    answer: std::result::Result<RawJson, String>,
    effects: &mut Vec<Effect>,
) -> Result<bool> {
    put(cx, txn, asker, (answer, None), effects)
}

/// Gives a person's answer to a turn that waits for it. False if none does: the incarnation that asked is gone, or has
/// ended its turn.
pub(in crate::engine) fn answer_question(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    asker: &Asker,
    (answer, question): (RawJson, QuestionId),
    effects: &mut Vec<Effect>,
) -> Result<bool> {
    match cx.db.claims.first_in(txn, &asker.session)? {
        Some(_) => put(cx, txn, asker, (Ok(answer), Some(question)), effects),
        None => Ok(false),
    }
}

fn put(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    asker: &Asker,
    (answer, question): (std::result::Result<RawJson, String>, Option<QuestionId>),
    effects: &mut Vec<Effect>,
) -> Result<bool> {
    let Asker { session, incarnation, number, .. } = *asker;
    if !reads(cx, txn, session, incarnation)? {
        return Ok(false);
    }
    let Ok(name) = Text::new(asker.request.as_str()) else { return Ok(false) };
    let there = cx.db.replies.collect_prefix(txn, &session, REPLIES_MAX)?;
    if there.len() >= REPLIES_MAX
        && let Some((oldest, _)) = there.into_iter().min_by_key(|(_, reply)| reply.number)
    {
        cx.db.replies.delete(txn, &oldest)?;
    }
    cx.db.replies.put(txn, &(session, name), &HostReply { incarnation, number, question, answer })?;
    export(cx, txn, session, effects).map(|()| true)
}

/// What the mailbox of a session has to hold of answers: exactly these.
pub(in crate::engine) fn of(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    session: SessionId,
    live: Option<u32>,
) -> Result<Vec<ExportedReply>> {
    let rows = cx.db.replies.collect_prefix(txn, &session, REPLIES_MAX)?;
    let mine = rows.into_iter().filter(|(_, reply)| live == Some(reply.incarnation));
    Ok(mine
        .map(|((_, name), reply)| ExportedReply { request: name.as_str().to_owned(), answer: reply.answer })
        .collect())
}

/// A turn has ended for good, and no other is under way: what people answered until now was read in it.
pub(in crate::engine) fn read(cx: &Cx<'_>, txn: &mut Write<'_>, session: SessionId) -> Result<()> {
    if cx.db.claims.first_in(txn, &session)?.is_some() {
        return Ok(());
    }
    for (key, reply) in cx.db.replies.collect_prefix(txn, &session, REPLIES_MAX)? {
        if reply.question.is_some() {
            cx.db.replies.put(txn, &key, &HostReply { question: None, ..reply })?;
        }
    }
    Ok(())
}

/// Forgets the answers to an incarnation that is gone, and removes their files. What people answered in a turn that did
/// not end is left for the next one to read.
pub(in crate::engine) fn forget(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    session: SessionId,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let rows = cx.db.replies.collect_prefix(txn, &session, cx.policy.rows_per_input)?;
    if rows.is_empty() {
        return Ok(());
    }
    for (key, reply) in rows {
        cx.db.replies.delete(txn, &key)?;
        if let Some(question) = reply.question {
            questions::leave_answer(cx, txn, question)?;
        }
    }
    export(cx, txn, session, effects)
}

/// Asks again for the files of answers that wait for a live incarnation: nobody says whether they are there.
pub(in crate::engine) fn again(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let mut found = Vec::new();
    let mut from = (SessionId::new(0), Text::new("")?);
    while let Some(((session, _), reply)) = cx.db.replies.first(txn, from..)? {
        found.push((session, reply.incarnation));
        if found.len() >= cx.policy.rows_per_input {
            break;
        }
        from = (SessionId::new(session.number().saturating_add(1)), Text::new("")?);
    }
    for (session, incarnation) in found {
        cx.apart(txn, effects, |txn, effects| {
            if reads(cx, txn, session, incarnation)? { export(cx, txn, session, effects) } else { Ok(()) }
        })?;
    }
    Ok(())
}

/// Whether an incarnation can still read an answer.
fn reads(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId, incarnation: u32) -> Result<bool> {
    if cx.db.live.get(txn, &session)? != Some(incarnation) {
        return Ok(false);
    }
    let row = readable(cx.db.incarnations.get(txn, &(session, incarnation)))?;
    Ok(row.is_some_and(|row| matches!(row.phase, Phase::Starting | Phase::Running)))
}

/// Answers without messages: those that lie in the mailbox stay.
fn export(cx: &Cx<'_>, txn: &mut Write<'_>, session: SessionId, effects: &mut Vec<Effect>) -> Result<()> {
    let live = cx.db.live.get(txn, &session)?;
    let replies = Some(of(cx, txn, session, live)?);
    effects.push(Effect::Export(Box::new(Export { session, context: None, messages: vec![], replies, exact: false })));
    Ok(())
}
