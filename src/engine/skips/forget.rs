//! Removes skips, some time after they are over or together with their agent.

use crate::Result;
use crate::delivery::prompts;
use crate::model::id::{AgentId, SkipId};
use crate::model::skip::{SkipFile, SkipState, SkipSummary};
use crate::model::time::Timestamp;
use crate::rows::recall;
use crate::state::SkillKey;
use crate::tx::Tx;

/// The text on a closed card whose agent was removed.
const REMOVED: &str = "The agent was removed";

/// Removes a skip that was over before `end`. Returns whether it did.
pub(crate) fn forget_old(tx: &mut Tx<'_, '_>, id: SkipId, skip: &SkipSummary, end: Timestamp) -> Result<bool> {
    let due = over(skip).is_some_and(|at| at < end);
    if due {
        recall::skip_removed(tx, id, skip)?;
        tx.db.skips.delete(tx, &id)?;
    }
    Ok(due)
}

/// Removes skips of a removed agent, up to a limit. Returns whether nothing more can be done now. Skips that people do
/// not know of yet are reported first, and files that have to go are removed first.
pub(crate) fn forget_agent(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    let most = (tx.policy.rows_per_input / 8).max(1); // a skip is three rows, and may be a card
    let mut done = 0;
    for (SkillKey { skip: id, .. }, ()) in tx.db.skips_by_skill.collect_prefix(tx, &agent, usize::MAX)? {
        let skip = tx.db.skips.require(tx, &id)?;
        let asked = match skip.state {
            SkipState::Surfaced(message, _) if is_open(&skip) && skip.file != SkipFile::Left => Some(message),
            _ if over(&skip).is_none() => continue,
            _ => None,
        };
        if done >= most {
            return Ok(false);
        }
        if let Some(message) = asked {
            prompts::close(tx, message, REMOVED)?;
        }
        recall::skip_removed(tx, id, &skip)?;
        tx.db.skips.delete(tx, &id)?;
        done += 1;
    }
    Ok(true)
}

/// Whether any skip of this agent is stored.
pub(crate) fn is_left(tx: &Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    Ok(tx.db.skips_by_skill.first_in(tx, &agent)?.is_some())
}

/// Since when a skip needs no more work; none if it still does.
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

/// Whether people were asked and have not answered.
const fn is_open(skip: &SkipSummary) -> bool {
    matches!(skip.state, SkipState::Surfaced(..)) && skip.nonce.is_some()
}

#[cfg(test)]
mod tests {
    use crate::model::approval::Decider;
    use crate::model::id::OutboundId;
    use crate::model::skip::{SkipAnswer, SkipKind};
    use crate::skips::forget::*;
    use crate::skips::tests::{report, skip};

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
