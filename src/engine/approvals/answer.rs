//! Answers in words: the number of an option, or the name of a new agent, where that was asked for.

use super::press::decidable;
use super::{approvers, direct, naming, press};
use crate::engine::duplicate::{End, Remembered};
use crate::engine::route::{blank, sender_of};
use crate::engine::{Applied, Cx, Result, chats};
use crate::model::address::{Address, UserId};
use crate::model::card::{Card, Matter};
use crate::model::delivery::{Act, OutState};
use crate::model::id::{ApprovalId, OutboundId};
use crate::model::input::{InboundEvent, Press};
use crate::model::message::Reason;
use crate::model::report::{Outcome, Reply, RouteReport};
use crate::state::{ForeignKey, Write};

/// Open cards of one place that a text may be an answer to, the newest first.
const CARDS_MAX: usize = 50;

/// A message that is the answer to an open card at its address: a number, an id and a number, or the name that somebody
/// owes. Whoever may not answer is not answering: their message goes on to the agents like any other.
pub(in crate::engine) fn answer(cx: &Cx<'_>, txn: &mut Write<'_>, event: &InboundEvent) -> Result<Option<Applied>> {
    // Mostly nobody is asked anything: the number of rows is known without a look at them.
    if cx.db.asked.is_empty(txn)? {
        return Ok(None);
    }
    let Some(by) = sender_of(event) else { return Ok(None) };
    let mut asked = asked_at(cx, txn, &event.source)?;
    // A person at a terminal is asked as a person, whichever agent they talk to.
    if let Some(own) = direct::on_terminal(&by) {
        asked.extend(asked_at(cx, txn, &own)?);
        asked.sort_by_key(|(id, _)| std::cmp::Reverse(*id));
    }
    if asked.is_empty() {
        return Ok(None);
    }
    let text = event.content.text.trim();
    let Some(answered) = respond(cx, txn, &asked, (&by, text))? else { return Ok(None) };
    if let Some(event) = Remembered::of(event) {
        event.remember(cx, txn, End::refused(Reason::Answer))?;
    }
    let chat = chats::find(cx, txn, &event.source.channel, &event.source.platform_id)?.map(|(id, _)| id);
    let report = RouteReport { outcome: Outcome::Consumed, reason: Some(Reason::Answer), ..blank(event, chat) };
    Ok(Some(Applied::new(Reply::Routed(report), answered.effects)))
}

/// What is asked at a place, the newest first.
fn asked_at(cx: &Cx<'_>, txn: &Write<'_>, place: &Address) -> Result<Vec<(OutboundId, Matter)>> {
    let found = cx.db.asked.collect_last(txn, &ForeignKey::chat(&place.channel, &place.platform_id), CARDS_MAX)?;
    Ok(found.into_iter().map(|((_, _, id), matter)| (id, matter)).collect())
}

fn respond(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    asked: &[(OutboundId, Matter)],
    (by, text): (&UserId, &str),
) -> Result<Option<Applied>> {
    let wanted = decide_form(text);
    for (id, matter) in asked {
        let outbound = cx.db.outbound.require(txn, id)?;
        let Some(to) = outbound.to else { continue };
        // What nobody has seen yet is answered by its id only.
        let shown = matches!(outbound.state, OutState::Delivered { .. });
        match (&outbound.act, &wanted) {
            (Act::Ask(card), Form::Option(named, option)) if named.map_or(shown, |named| named == *matter) => {
                return choose(cx, txn, card, *option, (by, to));
            }
            (Act::Ask(_), _) | (_, Form::Option(Some(_), _)) => {}
            (_, Form::Option(None, _) | Form::Other) => {
                if let Matter::Approval(approval) = matter
                    && let Some(answered) = name(cx, txn, *approval, (by, text))?
                {
                    return Ok(Some(answered));
                }
            }
        }
    }
    Ok(None)
}

/// Presses the button of an option for somebody, if they may.
fn choose(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    card: &Card,
    option: usize,
    (by, at): (&UserId, Address),
) -> Result<Option<Applied>> {
    let position = option.checked_sub(1).filter(|at| *at < card.options.len());
    let Some(position) = position.and_then(|at| u32::try_from(at).ok()) else { return Ok(None) };
    if let Matter::Approval(id) = card.matter {
        let Some(approval) = decidable(cx, txn, id)? else { return Ok(None) };
        let scope = approvers::scope(cx, txn, &approval.about)?;
        if !approvers::may_decide(cx, txn, by, &scope)? {
            return Ok(None);
        }
    }
    let press = Press { by: by.clone(), at, button: card.button(position) };
    let answered = press::pressed(cx, txn, &press)?;
    let taken = match (card.matter, &answered.reply) {
        // Whoever may decide has answered, also when there was nothing left to decide.
        (Matter::Approval(_), _) => true,
        (Matter::Question(_) | Matter::Skip(_), Reply::Answered { decided, .. }) => *decided,
        (Matter::Question(_) | Matter::Skip(_), _) => false,
    };
    Ok(taken.then_some(answered))
}

/// Takes a text for the name of a new agent, if it is this person who owes it here.
fn name(cx: &Cx<'_>, txn: &mut Write<'_>, id: ApprovalId, (by, text): (&UserId, &str)) -> Result<Option<Applied>> {
    let Some(approval) = decidable(cx, txn, id)? else { return Ok(None) };
    // They may have lost the right to since they chose.
    if !naming::is_owed_by(&approval, by)
        || !approvers::may_decide(cx, txn, by, &approvers::scope(cx, txn, &approval.about)?)?
    {
        return Ok(None);
    }
    let mut effects = Vec::new();
    naming::named(cx, txn, (id, &approval), (by, text), &mut effects)?;
    Ok(Some(Applied::done(effects)))
}

/// What a text looks like.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// The number of an option, of a certain card or of the newest.
    Option(Option<Matter>, usize),
    /// Something else: perhaps a name.
    Other,
}

fn decide_form(text: &str) -> Form {
    let number = |text: &str| text.parse::<usize>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    match words.as_slice() {
        [one] => number(one).map_or(Form::Other, |option| Form::Option(None, option)),
        [id, option] => match (id.parse(), number(option)) {
            (Ok(matter), Some(option)) => Form::Option(Some(matter), option),
            _ => Form::Other,
        },
        _ => Form::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_answers_are_answers() {
        let approval = Matter::Approval(ApprovalId::new(3));
        for (text, form) in [
            ("1", Form::Option(None, 1)),
            (" 2 ", Form::Option(None, 2)),
            ("ap3 1", Form::Option(Some(approval), 1)),
            ("ap3", Form::Other),
            ("ap03 1", Form::Other),
            ("+1", Form::Other),
            ("1.", Form::Other),
            ("1 2", Form::Other),
            ("I take 1", Form::Other),
            ("", Form::Other),
            ("99999999999999999999999", Form::Other),
        ] {
            assert_eq!(decide_form(text), form, "{text:?}");
        }
    }
}
