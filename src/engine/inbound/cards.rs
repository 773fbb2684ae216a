//! Cards that a text answer may mean: the open ones that a person may answer, and one that is closed already.

use crate::Result;
use crate::approvals::approvers;
use crate::decisions::press;
use crate::model::address::{Address, UserId};
use crate::model::approval::{ApprovalState, QuestionState};
use crate::model::card::{Card, PromptSubject};
use crate::model::skip::SkipState;
use crate::requests::questions;
use crate::tx::Tx;

/// Number of cards that the answer to an ambiguous number names.
const NAMED_MAX: usize = 5;

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

/// The question back to a person whose bare number may mean several cards, the newest first.
pub(super) fn which(cards: &[PromptSubject], option: usize) -> String {
    let named: Vec<String> = cards.iter().take(NAMED_MAX).map(|card| format!("`{card} {option}`")).collect();
    format!("{} cards are open here. Say {}.", cards.len(), named.join(" or "))
}

/// What to tell a person who answers a card that is closed, if they could have answered it at this address.
pub(super) fn closed(tx: &Tx<'_, '_>, card: PromptSubject, by: &UserId, at: &Address) -> Result<Option<String>> {
    Ok(match card {
        PromptSubject::Approval(id) => {
            let Some(approval) = tx.db.approvals.get(tx, &id)? else { return Ok(None) };
            let how = match &approval.state {
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
