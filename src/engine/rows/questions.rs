//! Agents' questions and their answers, as text for the agent.

use crate::Result;
use crate::model::approval::{Decider, Question, QuestionState};
use crate::model::id::QuestionId;
use crate::rows::{agents, notes, sessions};
use crate::tx::Tx;

/// Adds an answer that may not have been read to the context of the next turn.
pub(crate) fn leave_answer(tx: &mut Tx<'_, '_>, id: QuestionId) -> Result<()> {
    match tx.db.questions.get(tx, &id)? {
        Some(question) if talks(tx, &question)? => notes::tell_agent(tx, question.session, &told(&question)),
        _ => Ok(()),
    }
}

/// Question and answer as text.
pub(crate) fn told(question: &Question) -> String {
    let QuestionState::Answered { by, value, .. } = &question.state else { return quoted(question) };
    let label = question.options.iter().find(|option| option.value == *value).map_or("", |option| &option.label);
    let meant = if value == label { String::new() } else { format!(" ({value})") };
    format!("{}\nThe answer of {}: {label}{meant}", quoted(question), name(by))
}

pub(crate) fn name(by: &Decider) -> String {
    match by {
        Decider::Person(user) => user.to_string(),
        Decider::Operator => "operator".to_owned(),
    }
}

pub(crate) fn quoted(question: &Question) -> String {
    format!("You asked: {}\n{}", question.title, question.body)
}

/// Whether the agent that asked still exists.
pub(crate) fn talks(tx: &Tx<'_, '_>, question: &Question) -> Result<bool> {
    match sessions::load(tx, question.session)? {
        Some(session) => agents::is_removed(tx, session.agent).map(|removed| !removed),
        None => Ok(false),
    }
}
