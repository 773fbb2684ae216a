//! A question as the console shows it.

use super::{QuestionJson, show};
use crate::console::view::{Choice, Prompt};
use crate::model::id::QuestionId;
use crate::state::{self, Read, Tables};

/// A question, and the folder of the agent that asks.
pub(in crate::cli) fn prompt(
    db: &Tables,
    txn: &Read<'_>,
    id: QuestionId,
) -> Result<Option<(Prompt, String)>, state::Error> {
    Ok(show(db, txn, id)?.map(|question| {
        let agent = question.agent.clone();
        (view(question), agent)
    }))
}

fn view(question: QuestionJson) -> Prompt {
    let open = question.state == "open";
    let answered = question.by.map(|by| format!("{} by {by}", question.state));
    let state = answered.or(question.why).unwrap_or_else(|| question.state.to_owned());
    let chosen = question.value.map(|value| ("Answer", value));
    let facts = [("Agent", question.agent), ("Chat", question.chat)].into_iter().chain(chosen);
    let options = question.options.into_iter().filter(|_| open);
    Prompt {
        id: question.question,
        kind: "Question",
        state: (!open).then_some(state),
        about: format!("{}\n\n{}", question.title, question.body),
        facts: facts.collect(),
        created: question.created,
        expires: Some(question.expires),
        options: options.map(|option| Choice { label: option.label, value: option.value, asks: None }).collect(),
        held: Vec::new(),
    }
}
