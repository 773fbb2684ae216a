//! The end of what is known of skips: a while after they are over, or with their agent.

use crate::engine::{Cx, Result, cards};
use crate::model::effect::Effect;
use crate::model::id::{AgentId, SkipId};
use crate::model::skip::{SkipFile, SkipState, SkipSummary};
use crate::model::time::Timestamp;
use crate::state::{Text, Write};

/// What is said of a question whose agent is not there any more.
const REMOVED: &str = "The agent was removed";

/// Forgets a skip that was over before `end`; whether it did.
pub(in crate::engine) fn forget_old(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, skip): (SkipId, &SkipSummary),
    end: Timestamp,
) -> Result<bool> {
    let due = over(skip).is_some_and(|at| at < end);
    if due {
        delete(cx, txn, id, skip)?;
    }
    Ok(due)
}

/// Forgets skips of a removed agent, some of them; whether there is nothing more to do now. What people were not told of
/// yet is told first, and files that have to go do.
pub(in crate::engine) fn forget_agent(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    agent: AgentId,
    effects: &mut Vec<Effect>,
) -> Result<bool> {
    let most = (cx.policy.rows_per_input / 8).max(1); // a skip is three rows, and may be a card
    let mut done = 0;
    for ((_, _, id), ()) in cx.db.skips_by_skill.collect_prefix(txn, &agent, usize::MAX)? {
        let skip = cx.db.skips.require(txn, &id)?;
        let asked = match skip.state {
            SkipState::Surfaced(message, _) if is_open(&skip) && skip.file != SkipFile::Left => Some(message),
            _ if over(&skip).is_none() => continue,
            _ => None,
        };
        if done >= most {
            return Ok(false);
        }
        if let Some(message) = asked {
            cards::close(cx, txn, message, REMOVED, effects)?;
        }
        delete(cx, txn, id, &skip)?;
        done += 1;
    }
    Ok(true)
}

/// Whether something of a skip of this agent is stored.
pub(in crate::engine) fn is_left(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<bool> {
    Ok(cx.db.skips_by_skill.first_in(txn, &agent)?.is_some())
}

/// Since when nothing is to be done about a skip any more.
fn over(skip: &SkipSummary) -> Option<Timestamp> {
    match skip.state {
        _ if skip.file == SkipFile::Left || is_open(skip) => None,
        SkipState::Waiting | SkipState::Sending(..) => None,
        SkipState::Surfaced(_, at)
        | SkipState::Taken(at)
        | SkipState::Retried(at)
        | SkipState::Unsent(_, at)
        | SkipState::Acknowledged { at, .. } => Some(at),
    }
}

/// Whether people were asked and nobody has answered.
const fn is_open(skip: &SkipSummary) -> bool {
    matches!(skip.state, SkipState::Surfaced(..)) && skip.nonce.is_some()
}

fn delete(cx: &Cx<'_>, txn: &mut Write<'_>, id: SkipId, skip: &SkipSummary) -> Result<()> {
    let file = Text::new(format!("{}/{}", skip.skill, skip.report.digest.as_str()))?;
    cx.db.skips_by_file.delete(txn, &(skip.agent, file, id))?;
    cx.db.skips_by_skill.delete(txn, &(skip.agent, Text::new(skip.skill.as_str())?, id))?;
    cx.db.skips.delete(txn, &id).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::skips::tests::{report, skip};
    use crate::model::approval::Decider;
    use crate::model::id::OutboundId;
    use crate::model::skip::{SkipAnswer, SkipKind};

    #[test]
    fn only_what_nobody_needs_any_more_is_over() {
        use SkipFile::{Gone, Left, Replaced, There};
        let (at, message) = (Timestamp::from_millis(5), OutboundId::new(1));
        let acknowledged = SkipState::Acknowledged { by: Decider::Operator, answer: SkipAnswer::Leave, at };
        for (state, nonce, file, is) in [
            (SkipState::Waiting, None, There, None),
            (SkipState::Sending(message, at), Some(1), There, None),
            (SkipState::Surfaced(message, at), None, Gone, Some(at)),
            (SkipState::Surfaced(message, at), None, Replaced, Some(at)),
            (SkipState::Surfaced(message, at), None, Left, None),
            (SkipState::Surfaced(message, at), Some(1), Gone, None),
            (SkipState::Taken(at), None, Gone, Some(at)),
            (SkipState::Retried(at), None, Left, None),
            (SkipState::Retried(at), None, Gone, Some(at)),
            (SkipState::Unsent("nobody".to_owned(), at), None, There, Some(at)),
            (acknowledged.clone(), Some(1), Left, None),
            (acknowledged, Some(1), Gone, Some(at)),
        ] {
            let skip = SkipSummary { state, nonce, file, ..skip(report(SkipKind::Policy, &[]), 1) };
            assert_eq!(over(&skip), is, "{skip:?}");
        }
    }
}
