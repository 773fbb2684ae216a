//! Text answers to cards: the number or the words of an option, or the requested name of a new agent.

use crate::approvals::approvers;
use crate::decisions::{naming, press};
use crate::delivery::notice;
use crate::inbound::cards::{self, Choice};
use crate::model::address::{Address, UserId};
use crate::model::card::{Card, PromptSubject};
use crate::model::delivery::{Act, OutState};
use crate::model::id::{ApprovalId, OutboundId};
use crate::model::input::{InboundEvent, Press};
use crate::model::message::Reason;
use crate::model::report::{Outcome, Reply, RouteReport};
use crate::model::skip::SkipState;
use crate::routing::seen::{EventKey, SeenOutcome};
use crate::rows::{chats, direct, people};
use crate::state::{ChatKey, PersonKey, PromptKey};
use crate::tx::Tx;
use crate::{Result, routing};

/// Number of open cards per address among which a bare number or word is looked for. A text that names a card finds it
/// among all of them.
const CARDS_MAX: usize = 50;

/// Handles a message that answers an open card at its address: a number, an id and a number, the label or value of an
/// option, or a requested name. A message from a sender who may not answer is routed to the agents like any other.
pub(crate) fn answer(tx: &mut Tx<'_, '_>, event: &InboundEvent) -> Result<Option<Reply>> {
    let text = event.content.text.trim();
    let wanted = decide_form(text);
    // Usually no question is open. The number of rows is known without reading any.
    if tx.db.open_prompts.is_empty(tx)? && !matches!(wanted, Form::Named(_)) {
        return Ok(None);
    }
    let Some(by) = people::sender_of(event) else { return Ok(None) };
    let mut meant: Vec<PromptSubject> = match wanted {
        Form::Named(choice) => vec![choice.card],
        Form::Number(_) | Form::Words => Vec::new(),
    };
    meant.extend(tx.db.approvals_naming.get(tx, &PersonKey::of(&by))?.map(PromptSubject::Approval));
    let mut asked = asked_at(tx, &event.source, &meant)?;
    // A person at a terminal is asked at their own address, no matter which agent they talk to.
    if let Some(own) = direct::on_terminal(&by) {
        asked.extend(asked_at(tx, &own, &meant)?);
    }
    asked.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    asked.dedup();
    let taken = respond(tx, &asked, &wanted, &by, text)? || tell_closed(tx, &event.source, &wanted, &by)?;
    if !taken {
        return Ok(None);
    }
    if let Some(event) = EventKey::of(event) {
        event.remember(tx, SeenOutcome::refused(Reason::Answer))?;
    }
    let chat = chats::find(tx, &event.source.channel, &event.source.platform_id)?.map(|(id, _)| id);
    let report =
        RouteReport { outcome: Outcome::Consumed, reason: Some(Reason::Answer), ..routing::blank(event, chat) };
    Ok(Some(Reply::Routed(report)))
}

/// The newest open cards of an address, plus older ones about these subjects.
fn asked_at(tx: &Tx<'_, '_>, place: &Address, meant: &[PromptSubject]) -> Result<Vec<(OutboundId, PromptSubject)>> {
    let chat = ChatKey::of(&place.channel, &place.platform_id);
    let found = tx.db.open_prompts.collect_last(tx, &chat, CARDS_MAX)?;
    let mut found: Vec<(OutboundId, PromptSubject)> =
        found.into_iter().map(|(key, matter)| (key.outbound, matter)).collect();
    for matter in meant {
        let Some(card) = card_of(tx, *matter)?.filter(|card| found.iter().all(|(known, _)| known != card)) else {
            continue;
        };
        if tx.db.open_prompts.get(tx, &PromptKey { chat: chat.clone(), outbound: card })? == Some(*matter) {
            found.push((card, *matter));
        }
    }
    Ok(found)
}

/// The card's message.
fn card_of(tx: &Tx<'_, '_>, matter: PromptSubject) -> Result<Option<OutboundId>> {
    Ok(match matter {
        PromptSubject::Approval(id) => tx.db.approvals.get(tx, &id)?.and_then(|row| row.card),
        PromptSubject::Question(id) => tx.db.questions.get(tx, &id)?.and_then(|row| row.card),
        PromptSubject::Skip(id) => match tx.db.skips.get(tx, &id)?.map(|row| row.state) {
            Some(SkipState::Sending(card, _) | SkipState::Surfaced(card, _)) => Some(card),
            _ => None,
        },
    })
}

/// Whether the text answered one of the cards, or made Hearth ask back.
fn respond(
    tx: &mut Tx<'_, '_>,
    asked: &[(OutboundId, PromptSubject)],
    wanted: &Form,
    by: &UserId,
    text: &str,
) -> Result<bool> {
    let meant = match *wanted {
        Form::Named(choice) => vec![choice],
        Form::Number(_) | Form::Words => shown_choices(tx, asked, wanted, by, text)?,
    };
    let (choice, is_ambiguous) = (meant.first().copied(), meant.len() > 1);
    for (id, matter) in asked {
        let outbound = tx.db.outbound.require(tx, id)?;
        let Some(to) = outbound.to else { continue };
        match (&outbound.act, choice.filter(|choice| choice.card == *matter)) {
            (Act::Ask(_), Some(_)) if is_ambiguous => {
                notice::say_to(tx, to, None, cards::which(&meant))?;
                return Ok(true);
            }
            (Act::Ask(card), Some(choice)) => return Ok(choose(tx, card, choice.option, by, to)?.is_some()),
            (Act::Ask(_), None) => {}
            (_, _) => {
                if let (PromptSubject::Approval(approval), Form::Number(_) | Form::Words) = (matter, wanted)
                    && name(tx, *approval, by, text)?.is_some()
                {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// The options of shown cards that a text may mean and this person may choose, the newest card first. A card that was
/// not shown yet can only be answered by its id.
fn shown_choices(
    tx: &Tx<'_, '_>,
    asked: &[(OutboundId, PromptSubject)],
    wanted: &Form,
    by: &UserId,
    text: &str,
) -> Result<Vec<Choice>> {
    let mut meant = Vec::new();
    for (id, matter) in asked {
        let outbound = tx.db.outbound.require(tx, id)?;
        let (Act::Ask(card), OutState::Delivered { .. }) = (&outbound.act, &outbound.state) else { continue };
        let options = match *wanted {
            Form::Number(option) => vec![option],
            Form::Words => cards::options_called(card, text),
            Form::Named(_) => Vec::new(),
        };
        for option in options {
            if cards::may_choose(tx, card, option, by)? {
                meant.push(Choice { card: *matter, option });
            }
        }
    }
    Ok(meant)
}

/// Tells a person that the card they name is closed. Otherwise their answer would go to an agent.
fn tell_closed(tx: &mut Tx<'_, '_>, source: &Address, wanted: &Form, by: &UserId) -> Result<bool> {
    let Form::Named(choice) = wanted else { return Ok(false) };
    let Some(text) = cards::closed(tx, choice.card, by, source)? else { return Ok(false) };
    let place = direct::on_terminal(by).unwrap_or_else(|| source.clone());
    notice::say_to(tx, place, None, text)?;
    Ok(true)
}

/// Presses the button of an option on behalf of a person, if they may.
fn choose(tx: &mut Tx<'_, '_>, card: &Card, option: usize, by: &UserId, at: Address) -> Result<Option<Reply>> {
    let position = option.checked_sub(1).filter(|at| *at < card.options.len());
    let Some(position) = position.and_then(|at| u32::try_from(at).ok()) else { return Ok(None) };
    if let PromptSubject::Approval(id) = card.matter {
        let Some(approval) = press::decidable(tx, id)? else { return Ok(None) };
        let scope = approvers::scope(tx, &approval.about)?;
        if !approvers::may_decide(tx, by, &scope)? {
            return Ok(None);
        }
    }
    let press = Press { by: by.clone(), at, button: card.button(position) };
    let answered = press::pressed(tx, &press)?;
    if let (PromptSubject::Approval(id), Reply::Answered { decided: false, text }) = (card.matter, &answered)
        && press::decidable(tx, id)?.is_some()
    {
        // A button press shows its sender why nothing was decided; a text answer gets a message.
        notice::say_to(tx, press.at, None, text.clone())?;
    }
    let taken = match (card.matter, &answered) {
        // An approver's answer is consumed even if there was nothing left to decide.
        (PromptSubject::Approval(_), _) => true,
        (PromptSubject::Question(_) | PromptSubject::Skip(_), Reply::Answered { decided, .. }) => *decided,
        (PromptSubject::Question(_) | PromptSubject::Skip(_), _) => false,
    };
    Ok(taken.then_some(answered))
}

/// Uses a text as the name of a new agent, if this person was asked for it here.
fn name(tx: &mut Tx<'_, '_>, id: ApprovalId, by: &UserId, text: &str) -> Result<Option<Reply>> {
    let Some(approval) = press::decidable(tx, id)? else { return Ok(None) };
    // They may have lost the role since they chose.
    if !naming::is_owed_by(&approval, by) || !approvers::may_decide(tx, by, &approvers::scope(tx, &approval.about)?)? {
        return Ok(None);
    }
    naming::named(tx, id, &approval, by, text)?;
    Ok(Some(Reply::Done))
}

/// The form of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// The number of an option on a named card.
    Named(Choice),
    /// The number of an option.
    Number(usize),
    /// Anything else: possibly the words of an option, or a name.
    Words,
}

fn decide_form(text: &str) -> Form {
    let number = |text: &str| text.parse::<usize>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    match words.as_slice() {
        [one] => number(one).map_or(Form::Words, Form::Number),
        [id, option] => match (id.parse(), number(option)) {
            (Ok(card), Some(option)) => Form::Named(Choice { card, option }),
            _ => Form::Words,
        },
        _ => Form::Words,
    }
}

#[cfg(test)]
mod tests {
    use crate::inbound::answer::*;

    #[test]
    fn only_exact_answers_are_answers() {
        let approval = PromptSubject::Approval(ApprovalId::new(3));
        for (text, form) in [
            ("1", Form::Number(1)),
            (" 2 ", Form::Number(2)),
            ("ap3 1", Form::Named(Choice { card: approval, option: 1 })),
            ("ap3", Form::Words),
            ("ap03 1", Form::Words),
            ("+1", Form::Words),
            ("1.", Form::Words),
            ("1 2", Form::Words),
            ("I take 1", Form::Words),
            ("", Form::Words),
            ("99999999999999999999999", Form::Words),
        ] {
            assert_eq!(decide_form(text), form, "{text:?}");
        }
    }
}
