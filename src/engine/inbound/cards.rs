//! Cards that a text answer may mean: the open ones that a person may answer, and one that is closed already.

use crate::Result;
use crate::approvals::approvers;
use crate::decisions::press;
use crate::model::address::{Address, UserId};
use crate::model::approval::{ApprovalState, QuestionState};
use crate::model::card::{Card, CardOption, PromptSubject};
use crate::model::skip::SkipState;
use crate::requests::questions;
use crate::tx::Tx;

/// Number of options that the answer to an ambiguous text names.
const NAMED_MAX: usize = 5;
/// Maximum length of a text that may be the label or value of an option, in characters.
const CALLED_CHARS: usize = 200;

/// An option of a card, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) card: PromptSubject,
    pub(super) option: usize,
}

/// Whether a person may answer an open card with the option of this number, counted from 1.
pub(super) fn may_choose(tx: &Tx<'_, '_>, card: &Card, option: usize, by: &UserId) -> Result<bool> {
    if option == 0 || option > card.options.len() {
        return Ok(false);
    }
    Ok(match card.matter {
        PromptSubject::Approval(id) => match press::decidable(tx, id)? {
            Some(approval) => approvers::may_decide(tx, by, &approvers::scope(tx, &approval.about)?)?,
            None => false,
        },
        PromptSubject::Question(id) => match tx.db.questions.get(tx, &id)? {
            Some(question) => question.state == QuestionState::Open && questions::may_answer(tx, &question, by)?,
            None => false,
        },
        PromptSubject::Skip(id) => match tx.db.skips.get(tx, &id)? {
            Some(skip) => approvers::administers(tx, by, skip.agent)?,
            None => false,
        },
    })
}

/// The options of a card with this text as their label or, if no label is the same, as their value, counted from 1.
/// Letter case does not count.
pub(super) fn options_called(card: &Card, text: &str) -> Vec<usize> {
    let text = text.trim();
    if text.is_empty() || text.chars().nth(CALLED_CHARS).is_some() {
        return Vec::new();
    }
    let text = folded(text);
    let called = |name: fn(&CardOption) -> &str| -> Vec<usize> {
        let is_same = |(_, option): &(usize, &CardOption)| folded(name(option).trim()) == text;
        (1..).zip(&card.options).filter(is_same).map(|(place, _)| place).collect()
    };
    let by_label = called(|option| &option.label);
    if by_label.is_empty() { called(|option| &option.value) } else { by_label }
}

/// A text without differences of letter case.
fn folded(text: &str) -> String {
    text.to_uppercase().to_lowercase()
}

/// The question back to a person whose text may mean several options, the newest card first.
pub(super) fn which(meant: &[Choice]) -> String {
    let named = meant.iter().take(NAMED_MAX).map(|Choice { card, option }| format!("`{card} {option}`"));
    let named = named.collect::<Vec<_>>().join(" or ");
    match meant.chunk_by(|one, next| one.card == next.card).count() {
        1 => format!("{} options are called so. Say {named}.", meant.len()),
        cards => format!("{cards} cards are open here. Say {named}."),
    }
}

/// What to tell a person who answers a card that is closed, if they could have answered it at this address.
pub(super) fn closed(tx: &Tx<'_, '_>, card: PromptSubject, by: &UserId, at: &Address) -> Result<Option<String>> {
    Ok(match card {
        PromptSubject::Approval(id) => {
            let Some(approval) = tx.db.approvals.get(tx, &id)? else { return Ok(None) };
            let how = match &approval.state {
                // The next sweep closes it.
                ApprovalState::Unsent { .. } | ApprovalState::Pending | ApprovalState::Naming { .. }
                    if approval.expires <= tx.now.wall =>
                {
                    "has expired"
                }
                ApprovalState::Unsent { .. } | ApprovalState::Pending | ApprovalState::Naming { .. } => {
                    return Ok(None);
                }
                ApprovalState::Approved { .. } => "was already approved",
                ApprovalState::Rejected { .. } => "was already rejected",
                ApprovalState::Expired { .. } => "has expired",
                ApprovalState::Superseded { .. } => "is no longer needed",
            };
            let may = approvers::may_decide(tx, by, &approvers::scope(tx, &approval.about)?)?;
            may.then(|| format!("{id} {how}."))
        }
        PromptSubject::Question(id) => {
            let Some(question) = tx.db.questions.get(tx, &id)? else { return Ok(None) };
            let how = match &question.state {
                QuestionState::Open if question.expires <= tx.now.wall => "has expired",
                QuestionState::Open => return Ok(None),
                QuestionState::Answered { .. } => "was already answered",
                QuestionState::Expired { .. } => "has expired",
            };
            let here = question.to.channel == at.channel && question.to.platform_id == at.platform_id;
            (here && questions::may_answer(tx, &question, by)?).then(|| format!("{id} {how}."))
        }
        PromptSubject::Skip(id) => {
            let Some(skip) = tx.db.skips.get(tx, &id)? else { return Ok(None) };
            let closed =
                matches!(skip.state, SkipState::Acknowledged { .. }) && approvers::administers(tx, by, skip.agent)?;
            closed.then(|| format!("{id} was already answered."))
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::inbound::cards::*;
    use crate::model::id::QuestionId;

    /// Labels and values of a card's options, separated by `=`.
    fn card(options: &[&str]) -> Card {
        let option = |option: &&str| {
            let (label, value) = option.split_once('=').unwrap();
            CardOption { label: label.to_owned(), chosen: String::new(), value: value.to_owned() }
        };
        let matter = PromptSubject::Question(QuestionId::new(1));
        let options = options.iter().map(option).collect();
        Card { matter, nonce: 1, title: String::new(), body: String::new(), options }
    }

    #[test]
    fn a_text_means_the_options_with_its_label_or_else_its_value() {
        let card = card(&["Yes=y", "Größe M=NO", "no=never", "ΣΑΣ=x", "Same=1", "same=2", "=hidden", " Two words =w"]);
        for (text, expected) in [
            ("yes", &[1][..]),
            (" YES ", &[1]),
            ("Y", &[1]),
            ("GRÖSSE m", &[2]),
            ("no", &[3]),
            ("NEVER", &[3]),
            ("σας", &[4]),
            ("same", &[5, 6]),
            ("hidden", &[7]),
            ("two words", &[8]),
            ("", &[]),
            (" ", &[]),
            ("yes please", &[]),
            ("ye", &[]),
        ] {
            assert_eq!(options_called(&card, text), expected, "{text:?}");
        }
        assert_eq!(options_called(&card, &"y".repeat(1_000_000)), [0; 0]);
    }
}
