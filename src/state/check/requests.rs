//! Checks agents' questions, replies to their requests, and messages between agents.

use super::Check;
use crate::model::approval::QuestionState;
use crate::model::delivery::OutState;
use crate::model::id::SessionId;
use crate::{Owned, Result, SessionKey};

/// Open questions lead to cards, and answers to incarnations that can read them.
pub(super) fn references(check: &mut Check<'_, '_>) -> Result<()> {
    let (db, txn) = (*check.db, check.txn);
    let agent_of = |session: SessionId| {
        let workspace = db.sessions_by_id.get(txn, &session).ok()??;
        let session = db.sessions.get(txn, &SessionKey { workspace, session }).ok()??;
        session.as_chat().map(|session| session.agent)
    };
    check.agree(
        &db.questions,
        &db.questions_by_agent,
        |id, question| {
            let open = question.state == QuestionState::Open;
            Some((Owned { owner: agent_of(question.session).filter(|_| open)?, id: *id }, ()))
        },
        |key| key.id,
    )?;
    check.each(&db.questions, |check, id, question| match question.card {
        Some(card) if question.state == QuestionState::Open => check.refers(&db.questions, &id, &db.outbound, &card),
        _ => Ok(()),
    })?;
    check.each(&db.replies, |check, key, reply| {
        if check.look_up(&db.live_incarnations, &key.session)? != Some(reply.incarnation) {
            check.report(&db.replies, &key, format!("for incarnation {}, which is not live", reply.incarnation));
        }
        Ok(())
    })
}

/// Messages between agents lead to the session that sent them, and to the message that they became.
pub(super) fn between_agents(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.messages, |check, id, message| {
        let Some(hop) = message.from else { return Ok(()) };
        if hop.count == 0 {
            check.report(&db.messages, &id, "comes from an agent, but its count of messages between agents is 0");
        }
        check.refers(&db.messages, &id, &db.sessions_by_id, &hop.session)
    })?;
    check.each(&db.outbound, |check, id, outbound| {
        let OutState::Carried { message, .. } = outbound.state else { return Ok(()) };
        if outbound.to.is_some() {
            check.report(&db.outbound, &id, "was passed to another agent, but has an address on a channel");
        }
        match message {
            Some(message) => check.refers(&db.outbound, &id, &db.messages, &message),
            None => Ok(()),
        }
    })
}
