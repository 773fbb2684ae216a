//! Questions of agents to people: shown as a card, answered once by somebody who may talk to the agent there, or lapsed.

use super::replies::{self, Asker};
use crate::engine::access::{self, Standing};
use crate::engine::cards::{self, NewCard};
use crate::engine::json::{self, Field};
use crate::engine::{Applied, Cx, Result, chats, notice, remove, sessions};
use crate::model::address::{Address, UserId};
use crate::model::approval::{Decider, Question, QuestionState};
use crate::model::card::{CardOption, Matter};
use crate::model::effect::Effect;
use crate::model::entity::SenderScope;
use crate::model::id::{OutboundId, QuestionId, SessionId};
use crate::model::input::Press;
use crate::model::report::Reply;
use crate::model::request::NewQuestion;
use crate::state::Write;

/// Questions that may be open at once, of all agents together.
const OPEN_MAX: u64 = 1_000;

/// Shows a question in a chat; its answer comes later. Refused with the reason if that cannot be.
pub(super) fn ask(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (asker, to): (&Asker, Address),
    new: NewQuestion,
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<(), String>> {
    if cx.db.questions_due.len(txn)? >= OPEN_MAX {
        return Ok(Err("too many questions are open".to_owned()));
    }
    if adopt(cx, txn, (asker, &to), &new)? {
        return Ok(Ok(()));
    }
    if asks_enough(cx, txn, asker.session)? {
        return Ok(Err("too many questions of yours are open".to_owned()));
    }
    let id: QuestionId = cx.db.allocate(txn)?;
    let NewQuestion { title, body, options, timeout } = new;
    let shown = NewCard {
        matter: Matter::Question(id),
        to: to.clone(),
        title: title.clone(),
        body: body.clone(),
        options: options.clone(),
    };
    let (card, nonce) = cards::show(cx, txn, shown, effects)?;
    let question = Question {
        session: asker.session,
        incarnation: asker.incarnation,
        number: asker.number,
        request: asker.request.clone(),
        to,
        title,
        body,
        options,
        nonce,
        card: Some(card),
        state: QuestionState::Open,
        expires: cx.now.wall.plus(timeout.min(cx.policy.question_max)),
        created: cx.now.wall,
    };
    cx.db.questions.put(txn, &id, &question)?;
    cx.db.questions_due.put(txn, &(question.expires, id), &())?;
    Ok(Ok(()))
}

/// Takes over the same question of an incarnation that is gone: a turn that is begun again asks again, and people are not
/// asked twice.
fn adopt(cx: &Cx<'_>, txn: &mut Write<'_>, (asker, to): (&Asker, &Address), new: &NewQuestion) -> Result<bool> {
    for ((due, id), ()) in cx.db.questions_due.collect_range(txn, .., cx.policy.rows_per_input)? {
        let mut question = cx.db.questions.require(txn, &id)?;
        let left = question.session == asker.session && question.incarnation != asker.incarnation;
        let asked = (&question.title, &question.body, &question.options) == (&new.title, &new.body, &new.options);
        if !left || !asked || question.to != *to || due <= cx.now.wall {
            continue;
        }
        cx.db.questions_due.delete(txn, &(due, id))?;
        question.incarnation = asker.incarnation;
        question.number = asker.number;
        question.request.clone_from(&asker.request);
        question.expires = cx.now.wall.plus(new.timeout.min(cx.policy.question_max));
        cx.db.questions_due.put(txn, &(question.expires, id), &())?;
        cx.db.questions.put(txn, &id, &question)?;
        return Ok(true);
    }
    Ok(false)
}

/// Whether as many questions of the agent of a session are open as may be.
fn asks_enough(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId) -> Result<bool> {
    let agent = sessions::load(cx, txn, session)?.map(|row| row.agent);
    let mut left = cx.policy.questions_per_agent;
    for ((_, id), ()) in cx.db.questions_due.collect_range(txn, .., cx.policy.rows_per_input)? {
        let asks = cx.db.questions.require(txn, &id)?.session;
        if asks == session || sessions::load(cx, txn, asks)?.map(|row| row.agent) == agent {
            left = left.saturating_sub(1);
        }
    }
    Ok(left == 0)
}

/// Somebody pressed a button of a question's card, or answered it in words.
pub(in crate::engine) fn pressed(cx: &Cx<'_>, txn: &mut Write<'_>, id: QuestionId, press: &Press) -> Result<Applied> {
    let Some(question) = cx.db.questions.get(txn, &id)? else {
        return Ok(Applied::undecided("This question is not known."));
    };
    let here = press.at.channel == question.to.channel && press.at.platform_id == question.to.platform_id;
    let ours = here && press.by.channel() == &question.to.channel && press.button.nonce == question.nonce;
    let position = usize::try_from(press.button.option).ok();
    let option = position.and_then(|position| question.options.get(position)).filter(|_| ours).cloned();
    let Some(option) = option else { return Ok(Applied::undecided("This button means nothing any more.")) };
    if !may_answer(cx, txn, &question, &press.by)? {
        return Ok(Applied::undecided("You may not answer this question."));
    }
    answered(cx, txn, (id, question), option, Decider::Person(press.by.clone()))
}

/// The operator answers a question by command: with the value or the label of an option, or its place from 1.
pub(in crate::engine) fn decide(cx: &Cx<'_>, txn: &mut Write<'_>, id: QuestionId, value: &str) -> Result<Applied> {
    let Some(question) = cx.db.questions.get(txn, &id)? else {
        let message = crate::engine::configure::missing("question", id);
        return Ok(Applied::refused("unknown", message));
    };
    let Some(option) = decide_option(&question.options, value).cloned() else {
        let labels: Vec<&str> = question.options.iter().map(|option| option.label.as_str()).collect();
        let message = format!("{value:?} is not an option of {id}; possible are {}", labels.join(", "));
        return Ok(Applied::refused("invalid", message));
    };
    if let QuestionState::Answered { .. } | QuestionState::Expired { .. } = question.state {
        return Ok(Applied::refused("closed", format!("{id} is not open any more")));
    }
    answered(cx, txn, (id, question), option, Decider::Operator)
}

/// The card of a question was shown, or will never be: then nobody can answer it.
pub(in crate::engine) fn card_settled(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, card): (QuestionId, OutboundId),
    outcome: std::result::Result<(), &str>,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let (Err(why), Some(question)) = (outcome, cx.db.questions.get(txn, &id)?) else { return Ok(()) };
    if question.state != QuestionState::Open || question.card != Some(card) {
        return Ok(());
    }
    let why = format!("the question could not be shown: {why}");
    lapse(cx, txn, (id, question), &why, effects)
}

/// Questions whose time is over: the agent is told, their cards are closed.
pub(in crate::engine) fn expire(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let due = (cx.now.wall, QuestionId::new(u64::MAX));
    for ((_, id), ()) in cx.db.questions_due.collect_range(txn, ..=due, cx.policy.rows_per_input / 8)? {
        cx.apart(txn, effects, |txn, effects| {
            let question = cx.db.questions.require(txn, &id)?;
            let seconds = question.expires.millis().saturating_sub(question.created.millis()) / 1_000;
            let why = format!("Question timed out after {seconds}s");
            let card = question.card;
            lapse(cx, txn, (id, question), &why, effects)?;
            card.map_or(Ok(()), |card| cards::close(cx, txn, card, "⌛ Not answered in time", effects))
        })?;
    }
    Ok(())
}

/// Whether a person may talk to the agent that asks, in the chat where it asks.
fn may_answer(cx: &Cx<'_>, txn: &Write<'_>, question: &Question, by: &UserId) -> Result<bool> {
    let Some(session) = sessions::load(cx, txn, question.session)? else { return Ok(false) };
    let standing = access::standing(cx, txn, Some(by), session.agent)?;
    let Some((id, chat)) = chats::find(cx, txn, &question.to.channel, &question.to.platform_id)? else {
        return Ok(matches!(standing, Standing::Known(_)));
    };
    let wiring = cx.db.wirings.get(txn, &(id, session.agent))?;
    let known_only = wiring.is_none_or(|wiring| wiring.senders == SenderScope::Known);
    let known = matches!(standing, Standing::Known(_));
    Ok((known || !known_only) && access::decide_access(chat.unknown_senders, standing).is_ok())
}

fn decide_option<'a>(options: &'a [CardOption], value: &str) -> Option<&'a CardOption> {
    let by = |same: fn(&CardOption) -> &str| options.iter().find(|option| same(option) == value);
    let place = || value.parse::<usize>().ok()?.checked_sub(1).and_then(|place| options.get(place));
    by(|option| &option.value).or_else(|| by(|option| &option.label)).or_else(place)
}

/// The first answer counts; later ones change nothing.
fn answered(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, question): (QuestionId, Question),
    option: CardOption,
    by: Decider,
) -> Result<Applied> {
    let mut effects = Vec::new();
    if question.state != QuestionState::Open || question.expires <= cx.now.wall {
        return Ok(Applied::undecided("This question is closed."));
    }
    let who = name(&by);
    let value = option.value.clone();
    let question = close(cx, txn, (id, question), QuestionState::Answered { by, value, at: cx.now.wall })?;
    if let Some(card) = question.card {
        cards::close(cx, txn, card, &option.chosen, &mut effects)?;
    }
    let answer = json::object(&[
        ("value", Field::Text(&option.value)),
        ("label", Field::Text(&option.label)),
        ("userId", Field::Text(&who)),
    ]);
    let read = replies::answer_question(cx, txn, &asker(&question), (answer, id), &mut effects)?;
    if !read && talks(cx, txn, &question)? {
        notice::wake_agent(cx, txn, question.session, &told(&question), &mut effects)?;
    }
    let text = format!("{}: {}", question.title, option.chosen);
    Ok(Applied::new(Reply::Answered { decided: true, text }, effects))
}

/// Leaves an answer that nobody may have read among the context of the next turn.
pub(super) fn leave_answer(cx: &Cx<'_>, txn: &mut Write<'_>, id: QuestionId) -> Result<()> {
    match cx.db.questions.get(txn, &id)? {
        Some(question) if talks(cx, txn, &question)? => notice::tell_agent(cx, txn, question.session, &told(&question)),
        _ => Ok(()),
    }
}

/// Question and answer in words.
fn told(question: &Question) -> String {
    let QuestionState::Answered { by, value, .. } = &question.state else { return quoted(question) };
    let label = question.options.iter().find(|option| option.value == *value).map_or("", |option| &option.label);
    let meant = if value == label { String::new() } else { format!(" ({value})") };
    format!("{}\nThe answer of {}: {label}{meant}", quoted(question), name(by))
}

fn name(by: &Decider) -> String {
    match by {
        Decider::Person(user) => user.to_string(),
        Decider::Operator => "operator".to_owned(),
    }
}

/// Ends a question without an answer. An incarnation that is gone waits for nothing: the next one may read of it.
fn lapse(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, question): (QuestionId, Question),
    why: &str,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let question = close(cx, txn, (id, question), QuestionState::Expired { why: why.to_owned(), at: cx.now.wall })?;
    if replies::answer(cx, txn, &asker(&question), Err(why.to_owned()), effects)? || !talks(cx, txn, &question)? {
        return Ok(());
    }
    notice::tell_agent(cx, txn, question.session, &format!("{}\n{why}", quoted(&question)))
}

fn close(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, mut question): (QuestionId, Question),
    state: QuestionState,
) -> Result<Question> {
    cx.db.questions_due.delete(txn, &(question.expires, id))?;
    question.state = state;
    cx.db.questions.put(txn, &id, &question)?;
    Ok(question)
}

fn asker(question: &Question) -> Asker {
    let Question { session, incarnation, number, ref request, .. } = *question;
    Asker { session, incarnation, number, request: request.clone() }
}

fn quoted(question: &Question) -> String {
    format!("You asked: {}\n{}", question.title, question.body)
}

/// Whether there is still an agent to tell.
fn talks(cx: &Cx<'_>, txn: &Write<'_>, question: &Question) -> Result<bool> {
    match sessions::load(cx, txn, question.session)? {
        Some(session) => remove::is_removed(cx, txn, session.agent).map(|removed| !removed),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_chooses_by_value_label_or_place() {
        let option =
            |label: &str, value: &str| CardOption { label: label.into(), chosen: "".into(), value: value.into() };
        let options = [option("Yes", "2"), option("No", "no"), option("3", "three")];
        for (given, chosen) in
            [("2", Some("Yes")), ("No", Some("No")), ("no", Some("No")), ("1", Some("Yes")), ("3", Some("3"))]
        {
            assert_eq!(decide_option(&options, given).map(|option| option.label.as_str()), chosen, "{given}");
        }
        for none in ["", "0", "4", "YES", "-1"] {
            assert_eq!(decide_option(&options, none), None, "{none}");
        }
    }
}
