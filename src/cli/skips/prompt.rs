//! Skipped work that people are asked about, as the console shows it.

use std::collections::BTreeSet;

use super::{SkipJson, show};
use crate::console::view::{Choice, Prompt};
use crate::model::card::PromptSubject;
use crate::model::id::SkipId;
use crate::model::skip::{SkipAnswer, SkipState};
use crate::state::{self, Read, Tables};

/// The newest skips, among which those are looked for of which no one could be told. No index has these. They are rare, and
/// `hearth skips list` shows all.
const NEWEST: usize = 100;

/// Skips that wait for an answer, or of which no one could be told, oldest first. The cost is that of the open cards: skips
/// are kept for months after they are over.
pub(in crate::cli) fn asked(db: &Tables, txn: &Read<'_>) -> Result<Vec<SkipId>, state::Error> {
    let mut found = BTreeSet::new();
    // A question has a card, which is open as long as the question is.
    for row in db.open_prompts.iter(txn)? {
        if let (_, PromptSubject::Skip(id)) = row? {
            found.insert(id);
        }
    }
    for (id, skip) in db.skips.collect_last_of(txn, .., NEWEST)? {
        if matches!(skip.state, SkipState::Unsent(..)) {
            found.insert(id);
        }
    }
    Ok(found.into_iter().collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::address::{Address, ChannelName, ForeignId};
    use crate::model::approval::Decider;
    use crate::model::content::BlobId;
    use crate::model::id::{AgentId, OutboundId};
    use crate::model::skip::{SkipFile, SkipKind, SkipReport, SkipStep, SkipSummary};
    use crate::model::time::{Awake, Timestamp};
    use crate::state::{Options, PromptKey, Store, touched};

    const AT: Timestamp = Timestamp::from_millis(0);

    fn skip(state: SkipState) -> SkipSummary {
        let nonce = matches!(state, SkipState::Surfaced(..)).then_some(1);
        let report = SkipReport {
            digest: BlobId::of_digest(&[7; 32]),
            step: SkipStep::Number(3),
            reason: "no answer".to_owned(),
            items: Vec::new(),
            kind: SkipKind::Policy,
            occurred: AT,
        };
        SkipSummary {
            agent: AgentId::new(1),
            skill: "tessl__a".to_owned(),
            session: None,
            report,
            taken: AT,
            noticed: Awake::new(1, 1),
            file: SkipFile::Gone,
            repeats: 1,
            nonce,
            state,
        }
    }

    /// The rows that are read with so many skips that are over, between an open one and one that could not be told.
    fn rows_read(over: u64) -> u64 {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options::new(1)).unwrap();
        let (card, last) = (OutboundId::new(1), SkipId::new(over + 2));
        let platform_id = ForeignId::new("the chat", "5").unwrap();
        let to = Address { channel: ChannelName::new("telegram").unwrap(), platform_id, thread: None };
        let wrote = store.write(|db, txn| {
            db.skips.put(txn, &SkipId::new(1), &skip(SkipState::Surfaced(card, AT)))?;
            db.open_prompts.put(txn, &PromptKey::of(&to, card), &PromptSubject::Skip(SkipId::new(1)))?;
            for number in 2..last.number() {
                let ended = SkipState::Acknowledged { by: Decider::Operator, answer: SkipAnswer::Leave, at: AT };
                db.skips.put(txn, &SkipId::new(number), &skip(ended))?;
            }
            db.skips.put(txn, &last, &skip(SkipState::Unsent("no one".to_owned(), AT)))
        });
        wrote.unwrap();
        let before = touched::rows();
        let found = store.read(asked).unwrap();
        assert_eq!(found, [SkipId::new(1), last]);
        touched::rows() - before
    }

    #[test]
    fn open_skips_are_found_without_reading_all_that_are_over() {
        let (few, many) = (rows_read(200), rows_read(3_000));
        assert!(few > 0 && many == few, "{few} rows with 200 skips, {many} with 3,000");
    }
}
