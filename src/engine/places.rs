//! How many incarnations may run, and who gets a place that becomes free.

use std::collections::BTreeSet;

use super::export::Of;
use super::{Cx, Result, again, lifecycle, readable, sessions, wake};
use crate::model::effect::Effect;
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::incarnation::{Phase, StopReason};
use crate::model::time::Awake;
use crate::state::Write;

/// Where no more incarnations may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Full {
    /// In the whole house.
    House,
    /// For one agent, wherever else there is room.
    Agent(AgentId),
}

/// What keeps one more incarnation of an agent from running, if anything does.
pub(super) fn full(cx: &Cx<'_>, txn: &Write<'_>, of: Of<'_>) -> Result<Option<Full>> {
    let agent = of.session.agent;
    // After its provider limited it an agent gets one place, until a turn succeeds.
    let parallel = if again::is_on_trial(cx, txn, agent)? { 1 } else { of.agent.settings.max_parallel };
    let all = cx.db.live.len(txn)?;
    // A place elsewhere does not help an agent that has all it may have. It has not while fewer run in the whole house.
    let most = usize::try_from(parallel).unwrap_or(usize::MAX);
    if all >= u64::from(parallel) && lifecycle::living(cx, txn, |of| of == agent)?.len() >= most {
        return Ok(Some(Full::Agent(agent)));
    }
    Ok((all >= u64::from(limit(cx, txn)?)).then_some(Full::House))
}

/// Ends one incarnation for a session that waits for its place: the one that has been idle longest, else one that is
/// between turns and has only messages that are newer than the oldest one that waits.
pub(super) fn make_room(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (full, oldest): (Full, MessageId),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let mut found: Vec<Candidate> = Vec::new();
    // In the whole house whatever lives may go, whosever it is.
    let living = match full {
        Full::House => cx.db.live.collect_range(txn, .., usize::MAX)?,
        Full::Agent(agent) => lifecycle::living(cx, txn, |of| of == agent)?,
    };
    for (session, number) in living {
        let incarnation = readable(cx.db.incarnations.get(txn, &(session, number)))?;
        let Some(incarnation) = incarnation else { continue };
        match incarnation.phase {
            // A place is about to become free already.
            Phase::Stopping { .. } | Phase::Collecting { .. } => return Ok(()),
            Phase::Running if cx.db.claims.first_in(txn, &session)?.is_none() => {
                let waits = cx.db.ready.first_in(txn, &session)?.map(|(_, message)| message);
                found.push(Candidate { waits, progress: incarnation.progress, session, number });
            }
            Phase::Running | Phase::Starting | Phase::Closed { .. } => {}
        }
    }
    match decide_whose_place(found, oldest) {
        Some((session, number)) => lifecycle::stop(cx, txn, (session, number), StopReason::MadeRoom, effects),
        None => Ok(()),
    }
}

/// An incarnation between turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    waits: Option<MessageId>,
    progress: Awake,
    session: SessionId,
    number: u32,
}

fn decide_whose_place(mut found: Vec<Candidate>, oldest: MessageId) -> Option<(SessionId, u32)> {
    found.retain(|one| one.waits.is_none_or(|waits| waits > oldest));
    found.sort_by_key(|one| (one.waits.is_some(), one.progress, one.session));
    found.first().map(|one| (one.session, one.number))
}

/// Brings due messages to their agents, those that have waited longest first, as far as there are places.
pub(super) fn fill(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    fill_for(cx, txn, Whose::Everybody, effects)
}

/// As [`fill`], after something happened that may have made a place free: what is due in a session that has its
/// incarnation was brought when it became due.
pub(super) fn hand_on(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    fill_for(cx, txn, Whose::WithoutPlace, effects)
}

/// Which waiting sessions are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Everybody,
    WithoutPlace,
}

fn fill_for(cx: &Cx<'_>, txn: &mut Write<'_>, whose: Whose, effects: &mut Vec<Effect>) -> Result<()> {
    let mut waiting = waiting(cx, txn)?;
    waiting.sort_unstable();
    let mut full: BTreeSet<Full> = BTreeSet::new();
    for (_, session) in waiting {
        // Those that have a place need none, and there is none for the others.
        if whose == Whose::WithoutPlace && full.contains(&Full::House) {
            break;
        }
        let woken = cx.apart(txn, effects, |txn, effects| {
            let Some(row) = sessions::load(cx, txn, session)? else { return Ok(None) };
            let no_place = full.contains(&Full::House) || full.contains(&Full::Agent(row.agent));
            let has_place = row.live.is_some();
            let skip = if has_place { whose == Whose::WithoutPlace } else { no_place };
            if skip { Ok(None) } else { wake::wake(cx, txn, session, effects) }
        })?;
        full.extend(woken.flatten());
    }
    Ok(())
}

/// Sessions with due messages, each with its oldest one. One seek per session, however many messages it has.
pub(super) fn waiting(cx: &Cx<'_>, txn: &Write<'_>) -> Result<Vec<(MessageId, SessionId)>> {
    let mut found = Vec::new();
    let mut from = (SessionId::new(0), 0);
    while let Some(((session, _), oldest)) = cx.db.ready.first(txn, from..)? {
        found.push((oldest, session));
        if found.len() >= WAITING_MAX {
            break;
        }
        from = (SessionId::new(session.number().saturating_add(1)), 0);
    }
    Ok(found)
}

/// Waiting sessions that are compared; far more than wait where things work.
const WAITING_MAX: usize = 20_000;

fn limit(cx: &Cx<'_>, txn: &Write<'_>) -> Result<u32> {
    let settings = cx.db.settings.get(txn, &())?;
    Ok(settings.and_then(|settings| settings.max_containers).unwrap_or(cx.policy.max_containers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_ones_go_first_and_nobody_older_goes() {
        let one = |session: u64, progress, waits: Option<u64>| Candidate {
            waits: waits.map(MessageId::new),
            progress: Awake::new(1, progress),
            session: SessionId::new(session),
            number: 1,
        };
        for (found, expected) in [
            (vec![], None),
            (vec![one(1, 9, None), one(2, 5, None)], Some(2)),
            (vec![one(1, 1, Some(50)), one(2, 5, None)], Some(2)),
            (vec![one(1, 1, Some(9)), one(2, 5, Some(11))], Some(2)),
            (vec![one(1, 1, Some(9))], None),
        ] {
            let gone = decide_whose_place(found.clone(), MessageId::new(10));
            assert_eq!(gone.map(|(session, _)| session.number()), expected, "{found:?}");
        }
    }
}
