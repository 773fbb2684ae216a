//! Somebody says what is to be done about a skip.

use super::{texts, told};
use crate::engine::{Applied, Cx, Result, approvals, cards, notice, remove, sessions};
use crate::model::approval::Decider;
use crate::model::id::SkipId;
use crate::model::input::Press;
use crate::model::report::Reply;
use crate::model::skip::{SkipAnswer, SkipState, SkipSummary};
use crate::state::Write;

/// Somebody pressed a button of the card, or answered it in words: whoever has authority over the agent may.
pub(in crate::engine) fn pressed(cx: &Cx<'_>, txn: &mut Write<'_>, id: SkipId, press: &Press) -> Result<Applied> {
    let Some(skip) = cx.db.skips.get(txn, &id)? else { return Ok(Applied::undecided("This skip is not known.")) };
    if !approvals::administers(cx, txn, &press.by, skip.agent)? {
        return Ok(Applied::undecided("You may not decide this."));
    }
    if skip.nonce != Some(press.button.nonce) {
        return Ok(Applied::undecided("This card was replaced by a newer one."));
    }
    let position = usize::try_from(press.button.option).unwrap_or(usize::MAX);
    let option = texts::options(skip.session.is_some()).into_iter().nth(position);
    let Some(answer) = option.and_then(|option| SkipAnswer::parse(&option.value)) else {
        return Ok(Applied::undecided("This card has no such option."));
    };
    match conclude(cx, txn, (id, skip), (Decider::Person(press.by.clone()), answer))? {
        Ok(applied) => Ok(applied),
        Err(why) => Ok(Applied::undecided(&why)),
    }
}

/// The operator says by command that it is seen, or what is to be done.
pub(in crate::engine) fn decide(cx: &Cx<'_>, txn: &mut Write<'_>, id: SkipId, value: &str) -> Result<Applied> {
    let Some(skip) = cx.db.skips.get(txn, &id)? else {
        let message = crate::engine::configure::missing("skip", id);
        return Ok(Applied::refused("unknown", message));
    };
    let Some(answer) = SkipAnswer::parse(value) else {
        let message = format!("{value:?} says nothing about {id}; possible are `leave` and `now`");
        return Ok(Applied::refused("invalid", message));
    };
    match conclude(cx, txn, (id, skip), (Decider::Operator, answer))? {
        Ok(applied) => Ok(applied),
        Err(why) => Ok(Applied::refused("closed", format!("{id}: {why}"))),
    }
}

/// Ends a skip; why it cannot be ended, if it is over.
fn conclude(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, mut skip): (SkipId, SkipSummary),
    (by, answer): (Decider, SkipAnswer),
) -> Result<std::result::Result<Applied, String>> {
    let mut effects = Vec::new();
    let message = match &skip.state {
        SkipState::Waiting | SkipState::Unsent(..) => None,
        SkipState::Sending(message, _) | SkipState::Surfaced(message, _) => Some(*message),
        state @ (SkipState::Taken(_) | SkipState::Retried(_) | SkipState::Acknowledged { .. }) => {
            return Ok(Err(format!("it is {} already", state.as_str())));
        }
    };
    if answer == SkipAnswer::DoNow && !can_do(cx, txn, &skip)? {
        return Ok(Err("there is no conversation in which it could be done now".to_owned()));
    }
    cx.db.skips_unsurfaced.delete(txn, &(skip.agent, id))?;
    let chosen = texts::options(true).into_iter().find(|option| option.value == answer.as_str());
    let chosen = chosen.map_or_else(String::new, |option| option.chosen);
    if let Some(message) = message {
        cx.db.skips_sent.delete(txn, &message)?;
        if skip.nonce.is_some() {
            cards::close(cx, txn, message, &chosen, &mut effects)?;
        }
    }
    skip.state = SkipState::Acknowledged { by, answer, at: cx.now.wall };
    if let Some(agent) = cx.db.agents.get(txn, &skip.agent)? {
        told::release(cx, txn, (id, &mut skip), &agent, &mut effects)?;
    }
    cx.db.skips.put(txn, &id, &skip)?;
    if let (SkipAnswer::DoNow, Some(session)) = (answer, skip.session) {
        notice::wake_agent(cx, txn, session, &texts::order(&skip), &mut effects)?;
    }
    let text = format!("{}: {chosen}", skip.skill);
    Ok(Ok(Applied::new(Reply::Answered { decided: true, text }, effects)))
}

/// Whether its conversation is still there.
fn can_do(cx: &Cx<'_>, txn: &Write<'_>, skip: &SkipSummary) -> Result<bool> {
    let Some(session) = skip.session else { return Ok(false) };
    Ok(sessions::load(cx, txn, session)?.is_some() && !remove::is_removed(cx, txn, skip.agent)?)
}
