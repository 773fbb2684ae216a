//! Answers to questions about skips.

use crate::Result;
use crate::approvals::approvers;
use crate::delivery::prompts;
use crate::lifecycle::dispatch;
use crate::model::approval::Decider;
use crate::model::id::SkipId;
use crate::model::input::Press;
use crate::model::report::Reply;
use crate::model::skip::{SkipAnswer, SkipState, SkipSummary};
use crate::rows::{agents, sessions};
use crate::rules::{skip_texts, texts};
use crate::skips::told;
use crate::tx::Tx;

/// Handles a button press on the card, or a text answer. Everyone with authority over the agent may answer.
pub(crate) fn pressed(tx: &mut Tx<'_, '_>, id: SkipId, press: &Press) -> Result<Reply> {
    let Some(skip) = tx.db.skips.get(tx, &id)? else { return Ok(Reply::undecided("This skip no longer exists.")) };
    if !approvers::administers(tx, &press.by, skip.agent)? {
        return Ok(Reply::undecided("You may not decide this."));
    }
    if skip.nonce != Some(press.button.nonce) {
        return Ok(Reply::undecided("This card was replaced by a newer one."));
    }
    let position = usize::try_from(press.button.option).unwrap_or(usize::MAX);
    let option = skip_texts::options(skip.session.is_some()).into_iter().nth(position);
    let Some(answer) = option.and_then(|option| SkipAnswer::parse(&option.value)) else {
        return Ok(Reply::undecided("This card has no such option."));
    };
    match conclude(tx, id, skip, Decider::Person(press.by.clone()), answer)? {
        Ok(applied) => Ok(applied),
        Err(why) => Ok(Reply::undecided(&why)),
    }
}

/// Handles an answer by command, or in the console.
pub(crate) fn decide(tx: &mut Tx<'_, '_>, id: SkipId, value: &str, by: Decider) -> Result<Reply> {
    let Some(skip) = tx.db.skips.get(tx, &id)? else {
        let message = texts::missing("skip", id);
        return Ok(Reply::refused("unknown", message));
    };
    let Some(answer) = SkipAnswer::parse(value) else {
        let message = format!("{value:?} is not an answer to {id}; the answers are `leave` and `now`");
        return Ok(Reply::refused("invalid", message));
    };
    match conclude(tx, id, skip, by, answer)? {
        Ok(applied) => Ok(applied),
        Err(why) => Ok(Reply::refused("closed", format!("{id}: {why}"))),
    }
}

/// Ends a skip, or returns why it cannot be ended.
fn conclude(
    tx: &mut Tx<'_, '_>,
    id: SkipId,
    mut skip: SkipSummary,
    by: Decider,
    answer: SkipAnswer,
) -> Result<std::result::Result<Reply, String>> {
    let message = match &skip.state {
        SkipState::Waiting | SkipState::Unsent(..) => None,
        SkipState::Sending(message, _) | SkipState::Surfaced(message, _) => Some(*message),
        state @ (SkipState::Taken(_) | SkipState::Retried(_) | SkipState::Acknowledged { .. }) => {
            return Ok(Err(format!("it was already {}", state.as_str())));
        }
    };
    if answer == SkipAnswer::DoNow && !can_do(tx, &skip)? {
        return Ok(Err("there is no conversation to do it in now".to_owned()));
    }
    let chosen = skip_texts::options(true).into_iter().find(|option| option.value == answer.as_str());
    let chosen = chosen.map_or_else(String::new, |option| option.chosen);
    if let Some(message) = message.filter(|_| skip.nonce.is_some()) {
        prompts::close(tx, message, &chosen)?;
    }
    skip.state = SkipState::Acknowledged { by, answer, at: tx.now.wall };
    if let Some(agent) = tx.db.agents.get(tx, &skip.agent)? {
        told::release(tx, id, &mut skip, &agent);
    }
    tx.db.skips.put(tx, &id, &skip)?;
    if let (SkipAnswer::DoNow, Some(session)) = (answer, skip.session) {
        dispatch::send_text(tx, session, &skip_texts::order(&skip))?;
    }
    let text = format!("{}: {chosen}", skip.skill);
    Ok(Ok(Reply::Answered { decided: true, text }))
}

/// Whether the skip's conversation still exists.
fn can_do(tx: &Tx<'_, '_>, skip: &SkipSummary) -> Result<bool> {
    let Some(session) = skip.session else { return Ok(false) };
    Ok(sessions::load(tx, session)?.is_some() && !agents::is_removed(tx, skip.agent)?)
}
