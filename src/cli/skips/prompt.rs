//! Skipped work that people are asked about, as the console shows it.

use super::{SkipJson, show};
use crate::console::view::{Choice, Prompt};
use crate::model::id::SkipId;
use crate::model::skip::{SkipAnswer, SkipState};
use crate::state::{self, Read, Tables};

/// Skips that wait for an answer, or of which no one could be told, oldest first.
pub(in crate::cli) fn asked(db: &Tables, txn: &Read<'_>) -> Result<Vec<SkipId>, state::Error> {
    let mut found = Vec::new();
    for row in db.skips.iter(txn)? {
        let (id, skip) = row?;
        let asks = match skip.state {
            SkipState::Sending(..) | SkipState::Surfaced(..) => skip.nonce.is_some(),
            SkipState::Unsent(..) => true,
            SkipState::Waiting | SkipState::Taken(_) | SkipState::Retried(_) | SkipState::Acknowledged { .. } => false,
        };
        if asks {
            found.push(id);
        }
    }
    Ok(found)
}

/// A skip, and the folder of its agent.
pub(in crate::cli) fn prompt(
    db: &Tables,
    txn: &Read<'_>,
    id: SkipId,
) -> Result<Option<(Prompt, String)>, state::Error> {
    Ok(show(db, txn, id)?.map(|skip| {
        let agent = skip.agent.clone();
        (view(skip), agent)
    }))
}

fn view(skip: SkipJson) -> Prompt {
    let answers = match (skip.open || skip.state == "unsent", &skip.session) {
        (false, _) => &[][..],
        (true, None) => &[("Leave it", SkipAnswer::Leave)][..],
        (true, Some(_)) => &[("Do it now", SkipAnswer::DoNow), ("Leave it", SkipAnswer::Leave)][..],
    };
    let items: String = skip.items.iter().map(|item| format!("\n- {item}")).collect();
    let about = format!("{} skipped step {}: {}{items}", skip.skill, skip.step, skip.reason);
    let answered = skip.answer.zip(skip.by).map(|(answer, by)| format!("{answer} by {by}"));
    let times = (skip.repeats > 1).then(|| skip.repeats.to_string());
    let facts = [
        ("Agent", Some(skip.agent)),
        ("Kind", Some(skip.kind.to_owned())),
        ("In a row", times),
        ("Not reported", skip.why),
        ("Answer", answered),
    ];
    Prompt {
        id: skip.skip,
        kind: "Skipped work",
        state: answers.is_empty().then(|| skip.state.to_owned()),
        about,
        facts: facts.into_iter().filter_map(|(label, text)| Some((label, text?))).collect(),
        created: skip.taken,
        expires: None,
        options: answers.iter().map(choice).collect(),
        held: Vec::new(),
    }
}

fn choice((label, answer): &(&str, SkipAnswer)) -> Choice {
    Choice { label: (*label).to_owned(), value: answer.as_str().to_owned(), asks: None }
}
