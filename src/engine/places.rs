//! How many incarnations may run, and who gets a place that becomes free.

use super::{Cx, Result, lifecycle, sessions, wake};
use crate::model::effect::Effect;
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::incarnation::{Phase, StopReason};
use crate::model::time::Awake;
use crate::state::Write;

/// Whether one more incarnation of this agent may run.
pub(super) fn free(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<bool> {
    if cx.db.live.len(txn)? >= u64::from(limit(cx, txn)?) {
        return Ok(false);
    }
    let parallel = cx.db.agents.require(txn, &agent)?.settings.max_parallel;
    let mut running = 0_u32;
    for (session, _) in cx.db.live.collect_range(txn, .., cx.policy.rows_per_input)? {
        if sessions::load(cx, txn, session)?.is_some_and(|session| session.agent == agent) {
            running = running.saturating_add(1);
        }
    }
    Ok(running < parallel)
}

/// Ends the incarnation that has been idle longest, if any is idle: somebody waits for its place.
pub(super) fn make_room(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let mut idle: Vec<(Awake, SessionId, u32)> = Vec::new();
    for (session, number) in cx.db.live.collect_range(txn, .., cx.policy.rows_per_input)? {
        let incarnation = cx.db.incarnations.require(txn, &(session, number))?;
        match incarnation.phase {
            // A place is about to become free already.
            Phase::Stopping { .. } | Phase::Collecting { .. } => return Ok(()),
            Phase::Running if is_idle(cx, txn, session)? => idle.push((incarnation.progress, session, number)),
            Phase::Running | Phase::Starting | Phase::Closed { .. } => {}
        }
    }
    match idle.into_iter().min() {
        Some((_, session, number)) => lifecycle::stop(cx, txn, (session, number), StopReason::MadeRoom, effects),
        None => Ok(()),
    }
}

/// Gives free places to the sessions whose messages have waited longest.
pub(super) fn fill(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    let mut waiting = waiting(cx, txn)?;
    waiting.sort_unstable();
    for (_, session) in waiting {
        wake::wake(cx, txn, session, effects)?;
    }
    Ok(())
}

/// Sessions with due messages, each with its oldest one. One seek per session, however many messages it has.
fn waiting(cx: &Cx<'_>, txn: &Write<'_>) -> Result<Vec<(MessageId, SessionId)>> {
    let mut found = Vec::new();
    let mut from = (SessionId::new(0), 0);
    while let Some(((session, _), oldest)) = cx.db.ready.first(txn, from..)? {
        found.push((oldest, session));
        if found.len() >= cx.policy.rows_per_input {
            break;
        }
        from = (SessionId::new(session.number().saturating_add(1)), 0);
    }
    Ok(found)
}

fn is_idle(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId) -> Result<bool> {
    let claimed = cx.db.claims.first_in(txn, &session)?.is_some();
    let due = cx.db.ready.first_in(txn, &session)?.is_some();
    Ok(!claimed && !due)
}

fn limit(cx: &Cx<'_>, txn: &Write<'_>) -> Result<u32> {
    let settings = cx.db.settings.get(txn, &())?;
    Ok(settings.and_then(|settings| settings.max_containers).unwrap_or(cx.policy.max_containers))
}

/// Whether every place is taken.
pub(super) fn full(cx: &Cx<'_>, txn: &Write<'_>) -> Result<bool> {
    Ok(cx.db.live.len(txn)? >= u64::from(limit(cx, txn)?))
}
