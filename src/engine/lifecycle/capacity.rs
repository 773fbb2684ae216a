//! Limits the number of running incarnations and assigns free slots.

use crate::lifecycle::fallback::ChosenProvider;
use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::{dispatch, rate_limit};
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::incarnation::{IncarnationId, Phase, StopReason};
use crate::model::time::Awake;
use crate::rows::sessions;
use crate::state::{Basis, InboxKey};
use crate::tx::Tx;
use crate::{Result, lifecycle, readable};
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The limit that prevents another incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CapacityLimit {
    /// The limit of the installation.
    Installation,
    /// The limit of one agent, even if the installation has free slots.
    Agent(AgentId),
}

impl CapacityLimit {
    /// Computes something about the incarnations that count towards the limit, once for inputs that are committed
    /// together.
    fn once<T: Any + Send + Sync>(self, tx: &Tx<'_, '_>, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        match self {
            Self::Installation => tx.once(Basis::Runs, &(), make),
            Self::Agent(agent) => tx.once(Basis::Runs, &agent, make),
        }
    }
}

/// The limit that prevents another incarnation of an agent, if any.
pub(crate) fn full(tx: &Tx<'_, '_>, of: SessionRef<'_>, provider: &ChosenProvider) -> Result<Option<CapacityLimit>> {
    let agent = of.session.agent;
    // After a rate limit, a provider has one slot until a turn succeeds. Its agent's other providers go on.
    let on_trial = rate_limit::is_on_trial(tx, provider.place)?;
    let is_only_one = of.agent.settings.fallback.is_empty();
    if on_trial && !is_only_one && provider.is_taken(tx, of)? {
        return Ok(Some(CapacityLimit::Agent(agent)));
    }
    let parallel = if on_trial && is_only_one { 1 } else { of.agent.settings.max_parallel };
    let all = tx.db.live_incarnations.len(tx)?;
    // The agent's own limit is checked first: a free slot elsewhere would not help. It cannot be reached while fewer
    // incarnations run in total.
    let most = usize::try_from(parallel).unwrap_or(usize::MAX);
    if all >= u64::from(parallel) && live(tx, CapacityLimit::Agent(agent))?.len() >= most {
        return Ok(Some(CapacityLimit::Agent(agent)));
    }
    Ok((all >= u64::from(limit(tx)?)).then_some(CapacityLimit::Installation))
}

/// The incarnations that count towards a limit.
fn live(tx: &Tx<'_, '_>, limit: CapacityLimit) -> Result<Arc<Vec<IncarnationId>>> {
    limit.once(tx, || match limit {
        CapacityLimit::Installation => {
            let live = tx.db.live_incarnations.collect_range(tx, .., usize::MAX)?;
            Ok(live.into_iter().map(|(session, number)| IncarnationId { session, number }).collect())
        }
        CapacityLimit::Agent(agent) => lifecycle::live_of(tx, |of| of == agent),
    })
}

/// Stops one incarnation to free a slot for a waiting session: the one that has been idle longest, otherwise one
/// between turns whose messages are all newer than the oldest waiting one, otherwise one that works between turns. Under the installation's limit, an
/// incarnation of any agent may be stopped.
pub(crate) fn make_room(tx: &mut Tx<'_, '_>, full: CapacityLimit, oldest: MessageId) -> Result<()> {
    let mut found: Vec<Candidate> = Vec::new();
    for BetweenTurns { id, works, progress } in between_turns(tx, full)?.iter().copied() {
        let waits = tx.db.ready_messages.first_in(tx, &id.session)?.map(|(_, message)| message);
        found.push(Candidate { works, waits, progress, id });
    }
    match decide_whose_place(found, oldest) {
        Some(id) => lifecycle::stop(tx, id, StopReason::MadeRoom),
        None => Ok(()),
    }
}

/// The incarnations between turns; none if a slot is about to become free.
fn between_turns(tx: &Tx<'_, '_>, full: CapacityLimit) -> Result<Arc<Vec<BetweenTurns>>> {
    full.once(tx, || {
        let mut found = Vec::new();
        for id in live(tx, full)?.iter().copied() {
            let Some(incarnation) = readable(tx.db.incarnations.get(tx, &id))? else { continue };
            match incarnation.phase {
                Phase::Stopping { .. } | Phase::Collecting { .. } => return Ok(Vec::new()),
                Phase::Running if tx.db.claimed_messages.first_in(tx, &id.session)?.is_none() => {
                    let works = incarnation.tool.is_some();
                    found.push(BetweenTurns { id, works, progress: incarnation.progress });
                }
                Phase::Running | Phase::Starting | Phase::Closed { .. } => {}
            }
        }
        Ok(found)
    })
}

/// An incarnation between turns.
#[derive(Debug, Clone, Copy)]
struct BetweenTurns {
    id: IncarnationId,
    /// Whether a tool runs, such as a task in the background.
    works: bool,
    progress: Awake,
}

/// An incarnation between turns, and its oldest queued message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    works: bool,
    waits: Option<MessageId>,
    progress: Awake,
    id: IncarnationId,
}

fn decide_whose_place(mut found: Vec<Candidate>, oldest: MessageId) -> Option<IncarnationId> {
    found.retain(|one| one.waits.is_none_or(|waits| waits > oldest));
    found.sort_by_key(|one| (one.works, one.waits.is_some(), one.progress, one.id.session));
    found.first().map(|one| one.id)
}

/// Dispatches queued messages to their agents, oldest first, as far as slots are free.
pub(crate) fn dispatch_waiting(tx: &mut Tx<'_, '_>) -> Result<()> {
    dispatch_waiting_of(tx, Whose::Everybody)
}

/// Like [`dispatch_waiting`], after an event that may have freed a slot. Sessions with an incarnation are skipped,
/// because their messages were exported when they were queued.
pub(crate) fn assign_free_slots(tx: &mut Tx<'_, '_>) -> Result<()> {
    dispatch_waiting_of(tx, Whose::WithoutPlace)
}

/// Which waiting sessions are examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Everybody,
    WithoutPlace,
}

fn dispatch_waiting_of(tx: &mut Tx<'_, '_>, whose: Whose) -> Result<()> {
    let mut waiting = waiting(tx)?;
    waiting.sort_unstable();
    let mut full: BTreeSet<CapacityLimit> = BTreeSet::new();
    for (_, session) in waiting {
        // Sessions with a slot need none, and no slot is left for the others.
        if whose == Whose::WithoutPlace && full.contains(&CapacityLimit::Installation) {
            break;
        }
        let woken = tx.isolated(|tx| {
            let Some(row) = sessions::load(tx, session)? else { return Ok(None) };
            let no_place =
                full.contains(&CapacityLimit::Installation) || full.contains(&CapacityLimit::Agent(row.agent));
            let has_place = row.live.is_some();
            let skip = if has_place { whose == Whose::WithoutPlace } else { no_place };
            if skip { Ok(None) } else { dispatch::dispatch_session(tx, session) }
        })?;
        full.extend(woken.flatten());
    }
    Ok(())
}

/// Sessions with queued messages, each with its oldest one. Costs one seek per session, however many messages it has.
pub(crate) fn waiting(tx: &Tx<'_, '_>) -> Result<Vec<(MessageId, SessionId)>> {
    let mut found = Vec::new();
    let mut from = InboxKey { session: SessionId::new(0), seq: 0 };
    while let Some((InboxKey { session, .. }, oldest)) = tx.db.ready_messages.first(tx, from..)? {
        found.push((oldest, session));
        if found.len() >= WAITING_MAX {
            break;
        }
        from = InboxKey { session: SessionId::new(session.number().saturating_add(1)), seq: 0 };
    }
    Ok(found)
}

/// Maximum number of waiting sessions that are compared, far more than wait in normal operation.
const WAITING_MAX: usize = 20_000;

fn limit(tx: &Tx<'_, '_>) -> Result<u32> {
    let settings = tx.db.settings.get(tx, &())?;
    Ok(settings.and_then(|settings| settings.max_containers).unwrap_or(tx.policy.max_containers))
}

#[cfg(test)]
mod tests {
    use crate::lifecycle::capacity::*;

    #[test]
    fn idle_ones_go_first_and_nobody_older_goes() {
        let one = |session: u64, progress, waits: Option<u64>| Candidate {
            works: false,
            waits: waits.map(MessageId::new),
            progress: Awake::new(1, progress),
            id: IncarnationId::new(SessionId::new(session), 1),
        };
        for (found, expected) in [
            (vec![], None),
            (vec![one(1, 9, None), one(2, 5, None)], Some(2)),
            (vec![one(1, 1, Some(50)), one(2, 5, None)], Some(2)),
            (vec![one(1, 1, Some(9)), one(2, 5, Some(11))], Some(2)),
            (vec![Candidate { works: true, ..one(1, 1, None) }, one(2, 5, Some(11))], Some(2)),
            (vec![Candidate { works: true, ..one(1, 1, None) }, one(2, 5, Some(9))], Some(1)),
            (vec![one(1, 1, Some(9))], None),
        ] {
            let gone = decide_whose_place(found.clone(), MessageId::new(10));
            assert_eq!(gone.map(|id| id.session.number()), expected, "{found:?}");
        }
    }
}
