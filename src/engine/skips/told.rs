//! Reports skips to people and handles the delivery of these reports.

use crate::Result;
use crate::approvals::approvers;
use crate::delivery::prompts::NewCard;
use crate::delivery::{notice, prompts};
use crate::model::address::Address;
use crate::model::card::PromptSubject;
use crate::model::delivery::{OutState, Outbound};
use crate::model::effect::Effect;
use crate::model::entity::{Agent, TechnicalSkips};
use crate::model::id::{OutboundId, SkipId};
use crate::model::skip::{SkipFile, SkipKind, SkipState, SkipSummary};
use crate::rows::sessions;
use crate::rules::skip_texts;
use crate::tx::Tx;

/// Reports a skip in its conversation, otherwise to a person with authority over the agent. If the operator chose so, a
/// technical skip is not reported and the next run retries.
pub(crate) fn tell(tx: &mut Tx<'_, '_>, id: SkipId, mut skip: SkipSummary, agent: &Agent) -> Result<()> {
    let way = decide_way(skip.report.kind, skip.repeats >= tx.policy.skip_repeats, agent.settings.technical_skips);
    if way == NotifyMode::Silent {
        skip.state = SkipState::Retried(tx.now.wall);
        release(tx, id, &mut skip, agent);
        return tx.db.skips.put(tx, &id, &skip);
    }
    let Some(to) = place(tx, &skip)? else {
        let why = "the agent has no chat, and no one with authority over it can be reached".to_owned();
        skip.state = SkipState::Unsent(why, tx.now.wall);
        return tx.db.skips.put(tx, &id, &skip);
    };
    let outbound = match way {
        NotifyMode::Ask => {
            let (title, body) = skip_texts::question(&agent.settings.name, &skip);
            let options = skip_texts::options(skip.session.is_some());
            let card = NewCard { matter: PromptSubject::Skip(id), to, title, body, options };
            let (outbound, nonce) = prompts::show(tx, card)?;
            skip.nonce = Some(nonce);
            outbound
        }
        NotifyMode::Say | NotifyMode::Silent => {
            notice::say_to(tx, to, None, skip_texts::information(&agent.settings.name, &skip))?
        }
    };
    skip.state = SkipState::Sending(outbound, tx.now.wall);
    tx.db.skips.put(tx, &id, &skip)
}

/// Handles the end of an outgoing message. If it reported a skip, people know now or have to be told elsewhere.
pub(crate) fn settled(tx: &mut Tx<'_, '_>, message: OutboundId, outbound: &Outbound) -> Result<()> {
    // Skips are rare. Whether any report is being sent is known without reading rows.
    if tx.db.skips_sent.is_empty(tx)? {
        return Ok(());
    }
    let Some(id) = tx.db.skips_sent.get(tx, &message)? else { return Ok(()) };
    let mut skip = tx.db.skips.require(tx, &id)?;
    let Some(agent) = tx.db.agents.get(tx, &skip.agent)? else { return Ok(()) };
    match &outbound.state {
        OutState::Delivered { at, .. } => {
            skip.state = SkipState::Surfaced(message, *at);
            release(tx, id, &mut skip, &agent);
        }
        OutState::Failed { error, at } => {
            skip.nonce = None;
            if skip.session.take().is_some() {
                // The conversation cannot be reached, so a person with authority over the agent is told instead.
                skip.state = SkipState::Waiting;
                tx.effects.push(Effect::LookForSkips(skip.agent, agent.folder, None));
            } else {
                skip.state = SkipState::Unsent(error.clone(), *at);
            }
        }
        _ => return Ok(()),
    }
    tx.db.skips.put(tx, &id, &skip)
}

/// Requests the removal of a skip's file. The request is stored until the removal is confirmed. The caller stores the
/// skip.
pub(crate) fn release(tx: &mut Tx<'_, '_>, id: SkipId, skip: &mut SkipSummary, agent: &Agent) {
    if skip.file == SkipFile::There {
        skip.file = SkipFile::Left;
        tx.effects.push(removal(agent, id, skip));
    }
}

/// The effect that removes a summary's file.
pub(crate) fn removal(agent: &Agent, id: SkipId, skip: &SkipSummary) -> Effect {
    Effect::RemoveSkip {
        agent: skip.agent,
        id,
        folder: agent.folder.clone(),
        skill: skip.skill.clone(),
        digest: skip.report.digest.clone(),
    }
}

/// The address for the report.
fn place(tx: &Tx<'_, '_>, skip: &SkipSummary) -> Result<Option<Address>> {
    let session = match skip.session {
        Some(session) => sessions::load(tx, session)?,
        None => None,
    };
    match session.and_then(|session| session.reply) {
        Some(to) => Ok(Some(to)),
        None => approvers::reach(tx, skip.agent),
    }
}

/// How a skip is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotifyMode {
    /// As a question.
    Ask,
    /// As information.
    Say,
    /// Not at all.
    Silent,
}

fn decide_way(kind: SkipKind, again_and_again: bool, wanted: TechnicalSkips) -> NotifyMode {
    match (kind, again_and_again, wanted) {
        (SkipKind::Policy, _, _) | (SkipKind::Technical, true, _) => NotifyMode::Ask,
        (SkipKind::Technical, false, TechnicalSkips::Tell) => NotifyMode::Say,
        (SkipKind::Technical, false, TechnicalSkips::Retry) => NotifyMode::Silent,
    }
}

#[cfg(test)]
mod tests {
    use crate::skips::told::*;

    #[test]
    fn only_what_mends_itself_is_ever_kept_quiet() {
        use SkipKind::{Policy, Technical};
        use TechnicalSkips::{Retry, Tell};
        for (kind, again, wanted, way) in [
            (Technical, false, Tell, NotifyMode::Say),
            (Technical, false, Retry, NotifyMode::Silent),
            (Technical, true, Tell, NotifyMode::Ask),
            (Technical, true, Retry, NotifyMode::Ask),
            (Policy, false, Tell, NotifyMode::Ask),
            (Policy, false, Retry, NotifyMode::Ask),
            (Policy, true, Retry, NotifyMode::Ask),
        ] {
            assert_eq!(decide_way(kind, again, wanted), way, "{kind:?} {again} {wanted:?}");
        }
    }
}
