//! Agents' questions to people. Each is shown as a card and answered once by a person who may talk to the agent there,
//! or it expires.

use crate::Result;
use crate::delivery::prompts;
use crate::delivery::prompts::NewCard;
use crate::lifecycle::replies::Asker;
use crate::lifecycle::{dispatch, replies};
use crate::model::address::{Address, UserId};
use crate::model::approval::{Decider, Question, QuestionState};
use crate::model::card::{CardOption, PromptSubject};
use crate::model::console;
use crate::model::entity::SenderScope;
use crate::model::id::{OutboundId, QuestionId};
use crate::model::input::Press;
use crate::model::report::Reply;
use crate::model::request::NewQuestion;
use crate::rows::{chats, notes, people, questions, sessions};
use crate::rules::access::AccessLevel;
use crate::rules::json::Field;
use crate::rules::{access, json, texts};
use crate::state::{Owned, Timed, WiringKey};
use crate::tx::Tx;

/// Maximum number of open questions of all agents together.
const OPEN_MAX: u64 = 1_000;

/// Shows a question in a chat. Its answer arrives later. Refused with a reason if that is impossible.
pub(crate) fn ask(
    tx: &mut Tx<'_, '_>,
    asker: &Asker,
    to: Address,
    new: NewQuestion,
) -> Result<std::result::Result<(), String>> {
    if tx.db.questions_due.len(tx)? >= OPEN_MAX {
        return Ok(Err("too many questions are open".to_owned()));
    }
    let Some(agent) = sessions::load(tx, asker.session)?.map(|row| row.agent) else {
        return Ok(Err("the session is gone".to_owned()));
    };
    let open = tx.db.questions_by_agent.collect_prefix(tx, &agent, tx.policy.questions_per_agent)?;
    let open: Vec<QuestionId> = open.into_iter().map(|(Owned { id, .. }, ())| id).collect();
    if adopt(tx, asker, &to, &new, &open)? {
        return Ok(Ok(()));
    }
    if open.len() >= tx.policy.questions_per_agent {
        return Ok(Err("too many questions of yours are open".to_owned()));
    }
    let id: QuestionId = tx.db.allocate(tx)?;
    let NewQuestion { title, body, options, timeout } = new;
    let shown = NewCard {
        matter: PromptSubject::Question(id),
        to: to.clone(),
        title: title.clone(),
        body: body.clone(),
        options: options.clone(),
    };
    let (card, nonce) = prompts::show(tx, shown)?;
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
        expires: tx.now.wall.plus(timeout.min(tx.policy.question_max)),
        created: tx.now.wall,
    };
    tx.db.questions.put(tx, &id, &question)?;
    tx.db.questions_by_agent.put(tx, &Owned { owner: agent, id }, &())?;
    Ok(Ok(()))
}

/// Takes over the same question of an incarnation that is gone: a repeated turn asks again, and people are not asked
/// twice.
fn adopt(tx: &mut Tx<'_, '_>, asker: &Asker, to: &Address, new: &NewQuestion, open: &[QuestionId]) -> Result<bool> {
    let mut candidates = Vec::new();
    for id in open.iter().copied() {
        let question = tx.db.questions.require(tx, &id)?;
        candidates.push((question.expires, id, question));
    }
    candidates.sort_unstable_by_key(|(due, id, _)| (*due, *id));
    for (due, id, mut question) in candidates {
        let left = question.session == asker.session && question.incarnation != asker.incarnation;
        let asked = (&question.title, &question.body, &question.options) == (&new.title, &new.body, &new.options);
        if !left || !asked || question.to != *to || due <= tx.now.wall {
            continue;
        }
        question.incarnation = asker.incarnation;
        question.number = asker.number;
        question.request.clone_from(&asker.request);
        question.expires = tx.now.wall.plus(new.timeout.min(tx.policy.question_max));
        tx.db.questions.put(tx, &id, &question)?;
        return Ok(true);
    }
    Ok(false)
}

/// Handles a button press on a question's card, or a text answer.
pub(crate) fn pressed(tx: &mut Tx<'_, '_>, id: QuestionId, press: &Press) -> Result<Reply> {
    let Some(question) = tx.db.questions.get(tx, &id)? else {
        return Ok(Reply::undecided("This question no longer exists."));
    };
    let here = press.at.channel == question.to.channel && press.at.platform_id == question.to.platform_id;
    // People of all channels use the console.
    let by_people_of_it =
        press.by.channel() == &question.to.channel || question.to.channel.as_str() == console::CHANNEL;
    let ours = here && by_people_of_it && press.button.nonce == question.nonce;
    let position = usize::try_from(press.button.option).ok();
    let option = position.and_then(|position| question.options.get(position)).filter(|_| ours).cloned();
    let Some(option) = option else { return Ok(Reply::undecided("This button no longer works.")) };
    if !may_answer(tx, &question, &press.by)? {
        return Ok(Reply::undecided("You may not answer this question."));
    }
    answered(tx, id, question, option, Decider::Person(press.by.clone()))
}

/// Answers a question by a command, or in the console: with the value or label of an option, or its number from 1.
pub(crate) fn decide(tx: &mut Tx<'_, '_>, id: QuestionId, value: &str, by: Decider) -> Result<Reply> {
    let Some(question) = tx.db.questions.get(tx, &id)? else {
        let message = texts::missing("question", id);
        return Ok(Reply::refused("unknown", message));
    };
    let Some(option) = decide_option(&question.options, value).cloned() else {
        let labels: Vec<&str> = question.options.iter().map(|option| option.label.as_str()).collect();
        let message = format!("{value:?} is not an option of {id}; the options are {}", labels.join(", "));
        return Ok(Reply::refused("invalid", message));
    };
    if let QuestionState::Answered { .. } | QuestionState::Expired { .. } = question.state {
        return Ok(Reply::refused("closed", format!("{id} is already closed")));
    }
    answered(tx, id, question, option, by)
}

/// Expires a question whose card could not be delivered, because it cannot be answered.
pub(crate) fn card_settled(
    tx: &mut Tx<'_, '_>,
    id: QuestionId,
    card: OutboundId,
    outcome: std::result::Result<(), &str>,
) -> Result<()> {
    let (Err(why), Some(question)) = (outcome, tx.db.questions.get(tx, &id)?) else { return Ok(()) };
    if question.state != QuestionState::Open || question.card != Some(card) {
        return Ok(());
    }
    let why = format!("the question could not be shown: {why}");
    lapse(tx, id, question, &why)
}

/// Expires questions whose time is over. Their agents are told and their cards closed.
pub(crate) fn expire(tx: &mut Tx<'_, '_>) -> Result<()> {
    let due = Timed { at: tx.now.wall, id: QuestionId::new(u64::MAX) };
    for (Timed { id, .. }, ()) in tx.db.questions_due.collect_range(tx, ..=due, tx.policy.rows_per_input / 8)? {
        tx.isolated(|tx| {
            let question = tx.db.questions.require(tx, &id)?;
            let seconds = question.expires.millis().saturating_sub(question.created.millis()) / 1_000;
            let why = format!("Question timed out after {seconds}s");
            let card = question.card;
            lapse(tx, id, question, &why)?;
            card.map_or(Ok(()), |card| prompts::close(tx, card, "⌛ Not answered in time"))
        })?;
    }
    Ok(())
}

/// Whether a person may talk to the asking agent in the chat of the question.
pub(crate) fn may_answer(tx: &Tx<'_, '_>, question: &Question, by: &UserId) -> Result<bool> {
    let Some(session) = sessions::load(tx, question.session)? else { return Ok(false) };
    let standing = people::standing(tx, Some(by), session.agent)?;
    let Some((id, chat)) = chats::find(tx, &question.to.channel, &question.to.platform_id)? else {
        return Ok(matches!(standing, AccessLevel::Known(_)));
    };
    let wiring = tx.db.wirings.get(tx, &WiringKey { chat: id, agent: session.agent })?;
    let known_only = wiring.is_none_or(|wiring| wiring.senders == SenderScope::Known);
    let known = matches!(standing, AccessLevel::Known(_));
    Ok((known || !known_only) && access::decide_access(chat.unknown_senders, standing).is_ok())
}

fn decide_option<'a>(options: &'a [CardOption], value: &str) -> Option<&'a CardOption> {
    let by = |same: fn(&CardOption) -> &str| options.iter().find(|option| same(option) == value);
    let place = || value.parse::<usize>().ok()?.checked_sub(1).and_then(|place| options.get(place));
    by(|option| &option.value).or_else(|| by(|option| &option.label)).or_else(place)
}

/// Records an answer. Only the first one counts.
fn answered(tx: &mut Tx<'_, '_>, id: QuestionId, question: Question, option: CardOption, by: Decider) -> Result<Reply> {
    if question.state != QuestionState::Open || question.expires <= tx.now.wall {
        return Ok(Reply::undecided("This question is closed."));
    }
    let who = questions::name(&by);
    let value = option.value.clone();
    let question = close(tx, id, question, QuestionState::Answered { by, value, at: tx.now.wall })?;
    if let Some(card) = question.card {
        prompts::close(tx, card, &option.chosen)?;
    }
    let answer = json::object(&[
        ("value", Field::Text(&option.value)),
        ("label", Field::Text(&option.label)),
        ("userId", Field::Text(&who)),
    ]);
    let read = replies::answer_question(tx, &asker(&question), answer, id)?;
    if !read && questions::talks(tx, &question)? {
        dispatch::send_text(tx, question.session, &questions::told(&question))?;
    }
    let text = format!("{}: {}", question.title, option.chosen);
    Ok(Reply::Answered { decided: true, text })
}

/// Ends a question without an answer. If the incarnation that asked is gone, its session gets a note instead.
fn lapse(tx: &mut Tx<'_, '_>, id: QuestionId, question: Question, why: &str) -> Result<()> {
    let question = close(tx, id, question, QuestionState::Expired { why: why.to_owned(), at: tx.now.wall })?;
    if replies::answer(tx, &asker(&question), Err(why.to_owned()))? || !questions::talks(tx, &question)? {
        return Ok(());
    }
    notes::tell_agent(tx, question.session, &format!("{}\n{why}", questions::quoted(&question)))
}

fn close(tx: &mut Tx<'_, '_>, id: QuestionId, mut question: Question, state: QuestionState) -> Result<Question> {
    if let Some(session) = sessions::load(tx, question.session)? {
        tx.db.questions_by_agent.delete(tx, &Owned { owner: session.agent, id })?;
    }
    question.state = state;
    tx.db.questions.put(tx, &id, &question)?;
    Ok(question)
}

fn asker(question: &Question) -> Asker {
    let Question { session, incarnation, number, ref request, .. } = *question;
    Asker { session, incarnation, number, request: request.clone() }
}

#[cfg(test)]
mod tests {
    use crate::requests::questions::*;

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
