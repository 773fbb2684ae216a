//! Answers to agents' requests. Their rows and files exist as long as the incarnation that asked lives.

use crate::model::approval::HostReply;
use crate::model::content::RawJson;
use crate::model::effect::{Effect, Export, ExportedReply};
use crate::model::id::{QuestionId, SessionId};
use crate::model::incarnation::{IncarnationId, Phase};
use crate::rows::questions;
use crate::state::{ReplyKey, Text};
use crate::tx::Tx;
use crate::{Result, readable};

/// Maximum number of answers kept per incarnation. Beyond it, the answer to the oldest request is removed; it was read
/// long ago.
const REPLIES_MAX: usize = 100;

/// The request of an incarnation that an answer belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) session: SessionId,
    pub(crate) incarnation: u32,
    /// The agent's number for the request.
    pub(crate) number: u64,
    /// The name of the answer.
    pub(crate) request: String,
}

/// Answers a request. Returns false if the incarnation that asked is gone and cannot read the answer.
pub(crate) fn answer(tx: &mut Tx<'_, '_>, asker: &Asker, answer: std::result::Result<RawJson, String>) -> Result<bool> {
    put(tx, asker, answer, None)
}

/// Answers a turn that waits for a person. Returns false if the incarnation that asked is gone or has ended its turn.
pub(crate) fn answer_question(
    tx: &mut Tx<'_, '_>,
    asker: &Asker,
    answer: RawJson,
    question: QuestionId,
) -> Result<bool> {
    match tx.db.claimed_messages.first_in(tx, &asker.session)? {
        Some(_) => put(tx, asker, Ok(answer), Some(question)),
        None => Ok(false),
    }
}

fn put(
    tx: &mut Tx<'_, '_>,
    asker: &Asker,
    answer: std::result::Result<RawJson, String>,
    question: Option<QuestionId>,
) -> Result<bool> {
    let Asker { session, incarnation, number, .. } = *asker;
    if !reads(tx, IncarnationId { session, number: incarnation })? {
        return Ok(false);
    }
    let Ok(name) = Text::new(asker.request.as_str()) else { return Ok(false) };
    let there = tx.db.replies.collect_prefix(tx, &session, REPLIES_MAX)?;
    if there.len() >= REPLIES_MAX
        && let Some((oldest, _)) = there.into_iter().min_by_key(|(_, reply)| reply.number)
    {
        tx.db.replies.delete(tx, &oldest)?;
    }
    tx.db.replies.put(
        tx,
        &ReplyKey { session, request: name },
        &HostReply { incarnation, number, question, answer },
    )?;
    export(tx, session).map(|()| true)
}

/// All answers that a session's mailbox has to contain.
pub(crate) fn of(tx: &Tx<'_, '_>, session: SessionId, live: Option<u32>) -> Result<Vec<ExportedReply>> {
    let rows = tx.db.replies.collect_prefix(tx, &session, REPLIES_MAX)?;
    let mine = rows.into_iter().filter(|(_, reply)| live == Some(reply.incarnation));
    Ok(mine
        .map(|(key, reply)| ExportedReply { request: key.request.as_str().to_owned(), answer: reply.answer })
        .collect())
}

/// Marks people's answers as read, after a turn ended for good and no other one is in progress.
pub(crate) fn read(tx: &mut Tx<'_, '_>, session: SessionId) -> Result<()> {
    if tx.db.claimed_messages.first_in(tx, &session)?.is_some() {
        return Ok(());
    }
    for (key, reply) in tx.db.replies.collect_prefix(tx, &session, REPLIES_MAX)? {
        if reply.question.is_some() {
            tx.db.replies.put(tx, &key, &HostReply { question: None, ..reply })?;
        }
    }
    Ok(())
}

/// Removes the answers to an incarnation that is gone, with their files. People's answers from an unfinished turn are
/// left for the next incarnation to read.
pub(crate) fn forget(tx: &mut Tx<'_, '_>, session: SessionId) -> Result<()> {
    let rows = tx.db.replies.collect_prefix(tx, &session, tx.policy.rows_per_input)?;
    if rows.is_empty() {
        return Ok(());
    }
    for (key, reply) in rows {
        tx.db.replies.delete(tx, &key)?;
        if let Some(question) = reply.question {
            questions::leave_answer(tx, question)?;
        }
    }
    export(tx, session)
}

/// Exports answers for live incarnations again. Their export is never confirmed, so it may have been lost.
pub(crate) fn again(tx: &mut Tx<'_, '_>) -> Result<()> {
    let mut found = Vec::new();
    let first = |session| Text::new("").map(|request| ReplyKey { session, request });
    let mut from = first(SessionId::new(0))?;
    while let Some((ReplyKey { session, .. }, reply)) = tx.db.replies.first(tx, from..)? {
        found.push(IncarnationId { session, number: reply.incarnation });
        if found.len() >= tx.policy.rows_per_input {
            break;
        }
        from = first(SessionId::new(session.number().saturating_add(1)))?;
    }
    for id in found {
        tx.isolated(|tx| if reads(tx, id)? { export(tx, id.session) } else { Ok(()) })?;
    }
    Ok(())
}

/// Whether an incarnation can still read an answer.
fn reads(tx: &Tx<'_, '_>, id: IncarnationId) -> Result<bool> {
    if tx.db.live_incarnations.get(tx, &id.session)? != Some(id.number) {
        return Ok(false);
    }
    let row = readable(tx.db.incarnations.get(tx, &id))?;
    Ok(row.is_some_and(|row| matches!(row.phase, Phase::Starting | Phase::Running)))
}

/// Exports the answers alone. Messages in the mailbox stay.
fn export(tx: &mut Tx<'_, '_>, session: SessionId) -> Result<()> {
    let live = tx.db.live_incarnations.get(tx, &session)?;
    let replies = Some(of(tx, session, live)?);
    tx.effects.push(Effect::Export(Box::new(Export {
        session,
        context: None,
        messages: vec![],
        replies,
        exact: false,
        files: Vec::new(),
    })));
    Ok(())
}
