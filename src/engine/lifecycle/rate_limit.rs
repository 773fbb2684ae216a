//! Pauses an agent's work while its provider limits requests or cannot be reached.

use crate::delivery::notice;
use crate::lifecycle::retry::Work;
use crate::model::backoff::Backoff;
use crate::model::id::{AgentId, SessionId};
use crate::model::message::{Due, MessageState};
use crate::model::policy::Policy;
use crate::model::rate_limit::{LimitCause, RateLimit};
use crate::model::time::Millis;
use crate::rows::messages;
use crate::state::{Owned, Timed};
use crate::tx::Tx;
use crate::{Result, readable};
use std::collections::BTreeSet;

/// Minimum pause, no matter what the provider says.
const WAIT_MIN: Millis = Millis::seconds(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AgentProvider {
    agent: AgentId,
    /// Its place among the agent's fallbacks, from 1; 0 is the agent's own provider.
    place: u32,
}

impl AgentProvider {
    /// The provider at a place.
    pub(crate) fn new(agent: AgentId, place: usize) -> Self {
        Self { agent, place: u32::try_from(place).unwrap_or(u32::MAX) }
    }

    /// The agent's own provider.
    pub(crate) const fn own(agent: AgentId) -> Self {
        Self { agent, place: 0 }
    }

    const fn key(self) -> Owned<AgentId, u32> {
        Owned { owner: self.agent, id: self.place }
    }
}

/// The last pause of a provider. It may be over.
pub(crate) fn of(tx: &Tx<'_, '_>, provider: AgentProvider) -> Result<Option<RateLimit>> {
    readable(match provider.place {
        0 => tx.db.rate_limits.get(tx, &provider.agent),
        _ => tx.db.fallback_limits.get(tx, &provider.key()),
    })
}

/// The pause of a provider, if one is in effect.
pub(crate) fn current(tx: &Tx<'_, '_>, provider: AgentProvider) -> Result<Option<RateLimit>> {
    // A pause set by an earlier run is over: after a restart, the owner wants to see the current state.
    Ok(of(tx, provider)?.filter(|hold_off| hold_off.until > tx.now.awake))
}

/// Whether a provider's pause is over but no turn has succeeded since.
pub(crate) fn is_on_trial(tx: &Tx<'_, '_>, provider: AgentProvider) -> Result<bool> {
    Ok(of(tx, provider)?.is_some_and(|hold_off| hold_off.until <= tx.now.awake))
}

/// Records that a turn succeeded: the provider accepts requests again.
pub(crate) fn turn_succeeded(tx: &mut Tx<'_, '_>, provider: AgentProvider) -> Result<()> {
    match (is_on_trial(tx, provider)?, provider.place) {
        (false, _) => Ok(()),
        (true, 0) => tx.db.rate_limits.delete(tx, &provider.agent).map(drop),
        (true, _) => tx.db.fallback_limits.delete(tx, &provider.key()).map(drop),
    }
}

/// Ends the pauses of all providers of an agent.
pub(crate) fn forget(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<()> {
    tx.db.rate_limits.delete(tx, &agent)?;
    for (key, _) in tx.db.fallback_limits.collect_prefix(tx, &agent, usize::MAX)? {
        tx.db.fallback_limits.delete(tx, &key)?;
    }
    Ok(())
}

/// Postpones the queued messages of a session and removes them from its mailbox.
pub(crate) fn postpone_all(tx: &mut Tx<'_, '_>, session: SessionId, hold_off: &RateLimit) -> Result<()> {
    let mut work = Work::new(&hold_off.why);
    work.postpone_all(tx, session, hold_off)?;
    work.failures.settle(tx).map(drop)
}

/// Ends the pauses of agents and the backoffs of their messages, because a change may have removed the cause.
pub(crate) fn clear(tx: &mut Tx<'_, '_>, agents: &BTreeSet<AgentId>) -> Result<()> {
    for agent in agents {
        forget(tx, *agent)?;
    }
    for (Timed { id, .. }, ()) in tx.db.messages_in_backoff.collect_range(tx, .., tx.policy.rows_per_input / 2)? {
        let message = readable(tx.db.messages.get(tx, &id))?;
        if message.is_some_and(|message| agents.contains(&message.agent)) {
            messages::update(tx, id, |message| message.state = MessageState::Pending(Due::Now))?;
        }
    }
    Ok(())
}

/// What a provider that takes no requests said.
pub(crate) struct ProviderRefusal<'a> {
    pub(crate) cause: LimitCause,
    /// When it takes requests again.
    pub(crate) after: Option<Millis>,
    pub(crate) why: &'a str,
}

/// Records that a provider takes no requests.
pub(crate) fn hold_off(tx: &mut Tx<'_, '_>, provider: AgentProvider, refusal: &ProviderRefusal<'_>) -> Result<()> {
    let known = of(tx, provider)?;
    let before = known.as_ref().map(|known| {
        let left = if known.until > tx.now.awake { known.until.since(tx.now.awake) } else { Millis::ZERO };
        (known.waits, left)
    });
    let (waits, wait) = decide_hold_off(tx.policy, before, refusal.after);
    let hold_off = RateLimit {
        until: tx.now.awake.plus(wait),
        since: known.map_or(tx.now.wall, |known| known.since),
        again: tx.now.wall.plus(wait),
        waits,
        why: notice::shortened(refusal.why),
        cause: refusal.cause,
    };
    match provider.place {
        0 => tx.db.rate_limits.put(tx, &provider.agent, &hold_off),
        _ => tx.db.fallback_limits.put(tx, &provider.key(), &hold_off),
    }
}

/// The number of rate limits in a row and the length of the pause. `before` holds the number so far and what is left of
/// the current pause. A second rate-limit reply during a pause is not counted, but can lengthen the pause.
fn decide_hold_off(policy: &Policy, before: Option<(u32, Millis)>, after: Option<Millis>) -> (u32, Millis) {
    let (waits, left) = before.unwrap_or((0, Millis::ZERO));
    if left > Millis::ZERO {
        let longer = after.unwrap_or(Millis::ZERO).min(policy.wait_lifetime);
        return (waits, left.max(longer));
    }
    let wait = after.unwrap_or_else(|| Backoff::new(policy.wait_base, policy.wait_max).wait(waits));
    (waits.saturating_add(1), wait.max(WAIT_MIN).min(policy.wait_lifetime))
}

/// How long a message of this age is postponed; none if it has waited too long. The last try is at the end of its
/// lifetime.
pub(crate) fn decide_put_off(policy: &Policy, age: Millis, left: Millis) -> Option<Millis> {
    let rest = policy.wait_lifetime.get().checked_sub(age.get()).filter(|rest| *rest > 0)?;
    Some(left.min(Millis::new(rest)))
}

/// Whether the sender is told that a message waits: its total wait is longer than people accept without notice.
pub(crate) fn decide_tell(policy: &Policy, age: Millis, wait: Millis) -> bool {
    age.get().saturating_add(wait.get()) > policy.wait_untold.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::Policy;

    const POLICY: &Policy = &Policy::STANDARD;

    #[test]
    fn waits_double_up_to_a_quarter_of_an_hour() {
        let waits = |waits| decide_hold_off(POLICY, Some((waits, Millis::ZERO)), None).1.get() / 1_000;
        assert_eq!((0..7).map(waits).collect::<Vec<_>>(), [30, 60, 120, 240, 480, 900, 900]);
        assert_eq!(waits(u32::MAX), 900);
    }

    #[test]
    fn the_provider_says_how_long() {
        let seconds = Millis::seconds;
        let day = POLICY.wait_lifetime;
        for (before, after, expected) in [
            (None, None, (1, seconds(30))),
            (None, Some(seconds(7)), (1, seconds(7))),
            (None, Some(Millis::ZERO), (1, WAIT_MIN)),
            (None, Some(seconds(7 * 86_400)), (1, day)),
            (Some((3, Millis::ZERO)), Some(seconds(7)), (4, seconds(7))),
            // During a pause, another rate limit can only make it longer.
            (Some((3, seconds(20))), None, (3, seconds(20))),
            (Some((3, seconds(20))), Some(seconds(7)), (3, seconds(20))),
            (Some((3, seconds(20))), Some(seconds(70)), (3, seconds(70))),
        ] {
            assert_eq!(decide_hold_off(POLICY, before, after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_message_waits_for_a_day() {
        let hours = |hours: u64| Millis::minutes(hours * 60);
        for (age, left, expected) in [
            (Millis::ZERO, hours(1), Some(hours(1))),
            (hours(23), hours(5), Some(hours(1))),
            (hours(24), hours(5), None),
            (hours(9_000), hours(5), None),
        ] {
            assert_eq!(decide_put_off(POLICY, age, left), expected, "{age} {left}");
        }
    }

    #[test]
    fn people_are_told_of_waits_over_a_minute() {
        for (age, wait, told) in [(0, 60, false), (0, 61, true), (31, 30, true), (30, 30, false), (3_600, 1, true)] {
            assert_eq!(decide_tell(POLICY, Millis::seconds(age), Millis::seconds(wait)), told, "{age} {wait}");
        }
    }
}
