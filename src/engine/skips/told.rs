//! Telling people of a skip, and what follows once they were told.

use super::texts;
use crate::engine::cards::{self, NewCard};
use crate::engine::{Cx, Result, approvals, notice, sessions};
use crate::model::address::Address;
use crate::model::card::Matter;
use crate::model::delivery::{OutState, Outbound};
use crate::model::effect::Effect;
use crate::model::entity::{Agent, TechnicalSkips};
use crate::model::id::{OutboundId, SkipId};
use crate::model::skip::{SkipFile, SkipKind, SkipState, SkipSummary};
use crate::state::Write;

/// Tells people of a skip where its conversation is, or else whoever has authority over the agent; or lets the next run try
/// again without a word, if that is what the operator wants.
pub(super) fn tell(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, mut skip): (SkipId, SkipSummary),
    agent: &Agent,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    cx.db.skips_unsurfaced.delete(txn, &(skip.agent, id))?;
    let way = decide_way(skip.report.kind, skip.repeats >= cx.policy.skip_repeats, agent.settings.technical_skips);
    if way == Way::Silent {
        skip.state = SkipState::Retried(cx.now.wall);
        release(cx, txn, (id, &mut skip), agent, effects)?;
        return cx.db.skips.put(txn, &id, &skip);
    }
    let Some(to) = place(cx, txn, &skip)? else {
        let why = "there is no chat to say it in, and nobody with authority over the agent can be reached".to_owned();
        skip.state = SkipState::Unsent(why, cx.now.wall);
        return cx.db.skips.put(txn, &id, &skip);
    };
    let outbound = match way {
        Way::Ask => {
            let (title, body) = texts::question(&agent.settings.name, &skip);
            let options = texts::options(skip.session.is_some());
            let card = NewCard { matter: Matter::Skip(id), to, title, body, options };
            let (outbound, nonce) = cards::show(cx, txn, card, effects)?;
            skip.nonce = Some(nonce);
            outbound
        }
        Way::Say | Way::Silent => {
            notice::say_to(cx, txn, (to, None), texts::information(&agent.settings.name, &skip), effects)?
        }
    };
    skip.state = SkipState::Sending(outbound, cx.now.wall);
    cx.db.skips_sent.put(txn, &outbound, &id)?;
    cx.db.skips.put(txn, &id, &skip)
}

/// A message came to its end: if it told of a skip, people know by now, or have to be told elsewhere.
pub(in crate::engine) fn settled(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (message, outbound): (OutboundId, &Outbound),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    // Skips are few: that none is on its way is known without a look at them.
    if cx.db.skips_sent.is_empty(txn)? {
        return Ok(());
    }
    let Some(id) = cx.db.skips_sent.get(txn, &message)? else { return Ok(()) };
    let mut skip = cx.db.skips.require(txn, &id)?;
    let Some(agent) = cx.db.agents.get(txn, &skip.agent)? else { return Ok(()) };
    match &outbound.state {
        OutState::Delivered { at, .. } => {
            skip.state = SkipState::Surfaced(message, *at);
            release(cx, txn, (id, &mut skip), &agent, effects)?;
        }
        OutState::Failed { error, at } => {
            skip.nonce = None;
            if skip.session.take().is_some() {
                // The conversation cannot be reached: whoever has authority over the agent is told instead.
                skip.state = SkipState::Waiting;
                cx.db.skips_unsurfaced.put(txn, &(skip.agent, id), &())?;
                effects.push(Effect::LookForSkips(skip.agent, agent.folder, None));
            } else {
                skip.state = SkipState::Unsent(error.clone(), *at);
            }
        }
        _ => return Ok(()),
    }
    cx.db.skips_sent.delete(txn, &message)?;
    cx.db.skips.put(txn, &id, &skip)
}

/// Lets the file of a skip go, which nobody needs any more. That it has to is stored until somebody says that it is gone.
/// The caller stores the skip.
pub(super) fn release(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, skip): (SkipId, &mut SkipSummary),
    agent: &Agent,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    if skip.file != SkipFile::There {
        return Ok(());
    }
    skip.file = SkipFile::Left;
    effects.push(removal(agent, (id, skip)));
    cx.db.skips_left.put(txn, &(skip.agent, id), &())
}

/// The end of a summary's file.
pub(super) fn removal(agent: &Agent, (id, skip): (SkipId, &SkipSummary)) -> Effect {
    Effect::RemoveSkip {
        agent: skip.agent,
        id,
        folder: agent.folder.clone(),
        skill: skip.skill.clone(),
        digest: skip.report.digest.clone(),
    }
}

/// Where people are told.
fn place(cx: &Cx<'_>, txn: &Write<'_>, skip: &SkipSummary) -> Result<Option<Address>> {
    let session = match skip.session {
        Some(session) => sessions::load(cx, txn, session)?,
        None => None,
    };
    match session.and_then(|session| session.reply) {
        Some(to) => Ok(Some(to)),
        None => approvals::reach(cx, txn, skip.agent),
    }
}

/// How people are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As something they have to decide.
    Ask,
    /// As something they may want to know.
    Say,
    /// Not at all.
    Silent,
}

fn decide_way(kind: SkipKind, again_and_again: bool, wanted: TechnicalSkips) -> Way {
    match (kind, again_and_again, wanted) {
        (SkipKind::Policy, _, _) | (SkipKind::Technical, true, _) => Way::Ask,
        (SkipKind::Technical, false, TechnicalSkips::Tell) => Way::Say,
        (SkipKind::Technical, false, TechnicalSkips::Retry) => Way::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_mends_itself_is_ever_kept_quiet() {
        use SkipKind::{Policy, Technical};
        use TechnicalSkips::{Retry, Tell};
        for (kind, again, wanted, way) in [
            (Technical, false, Tell, Way::Say),
            (Technical, false, Retry, Way::Silent),
            (Technical, true, Tell, Way::Ask),
            (Technical, true, Retry, Way::Ask),
            (Policy, false, Tell, Way::Ask),
            (Policy, false, Retry, Way::Ask),
            (Policy, true, Retry, Way::Ask),
        ] {
            assert_eq!(decide_way(kind, again, wanted), way, "{kind:?} {again} {wanted:?}");
        }
    }
}
