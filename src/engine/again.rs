//! Turns that failed and are tried again, and agents whose provider limits requests.
//!
//! A provider in trouble costs a try, as a turn that is lost does. One that limits requests costs none: the whole
//! agent is held off, because its sessions share an account, and what is due for it waits. When that is over one session
//! at a time is tried, until a turn succeeds.

use std::collections::BTreeSet;

use super::notice::Told;
use super::{Cx, Result, ingest, journal, lifecycle, messages, notice, readable, remove, sessions};
use crate::model::address::Address;
use crate::model::effect::{Discard, Effect};
use crate::model::hold_off::HoldOff;
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::incarnation::StopReason;
use crate::model::journal::Event;
use crate::model::mailbox::{Again, Failure};
use crate::model::message::{Due, Message, MessageState};
use crate::model::policy::Policy;
use crate::model::time::Millis;
use crate::state::Write;

/// The least time for which an agent is held off, whatever its provider says.
const WAIT_MIN: Millis = Millis::seconds(1);

/// A turn that failed and may be tried again.
pub(super) struct FailedTurn<'a> {
    /// Where.
    pub(super) session: SessionId,
    /// Whose turn it was.
    pub(super) incarnation: u32,
    /// How it failed.
    pub(super) failure: &'a Failure,
    /// Positions of its messages.
    pub(super) seqs: Vec<u64>,
}

/// Makes the messages of a failed turn wait for another one, together, or gives them up and says so. The incarnation ends:
/// nothing that it says of these messages counts any more, so that its files can be found twice.
pub(super) fn turn_failed(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    turn: &FailedTurn<'_>,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(row) = sessions::load(cx, txn, turn.session)? else { return Ok(()) };
    let mut open = Vec::new();
    for seq in turn.seqs.iter().copied().collect::<BTreeSet<_>>() {
        if let Some((id, message)) = messages::at(cx, txn, turn.session, seq)?
            && ingest::is_open(&message)
            && message.failed_in < turn.incarnation
        {
            open.push((id, message));
        }
    }
    let why = turn.failure.error.as_str();
    let mut work = Work::new(why);
    let hold_off = match turn.failure.again {
        Again::Wait(after) => Some(hold_off(cx, txn, row.agent, (after, why))?),
        Again::Later | Again::Never => None,
    };
    let wait = decide_wait(cx.policy, open.iter().map(|(_, message)| message));
    for (id, message) in open {
        messages::update(cx, txn, id, |message| message.failed_in = turn.incarnation)?;
        match &hold_off {
            _ if remove::is_removed(cx, txn, message.agent)? => remove::drop_message(cx, txn, id, effects)?,
            // Context never fails and never waits by itself.
            _ if !message.trigger => {
                messages::update(cx, txn, id, |message| message.state = MessageState::Pending(Due::Now))?;
            }
            Some(hold_off) => work.put_off(cx, txn, (id, hold_off), effects)?,
            None => work.try_again(cx, txn, (id, turn.incarnation, wait), effects)?,
        }
    }
    lifecycle::retire(cx, txn, (turn.session, turn.incarnation), StopReason::TurnFailed, effects)?;
    match hold_off {
        Some(hold_off) => work.spread(cx, txn, (row.agent, &hold_off), effects),
        None => Ok(()),
    }
}

/// Notes that a turn of an agent succeeded: its provider takes work again.
pub(super) fn turn_succeeded(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId) -> Result<()> {
    if is_on_trial(cx, txn, agent)? { cx.db.hold_offs.delete(txn, &agent).map(drop) } else { Ok(()) }
}

/// Why an agent gets no work now, if it gets none.
pub(super) fn held_off(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<Option<HoldOff>> {
    // A point of an earlier run is over: whoever restarts the daemon wants to know how things are.
    Ok(readable(cx.db.hold_offs.get(txn, &agent))?.filter(|hold_off| hold_off.until > cx.now.awake))
}

/// Whether an agent was held off and no turn of it has succeeded since.
pub(super) fn is_on_trial(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<bool> {
    Ok(readable(cx.db.hold_offs.get(txn, &agent))?.is_some_and(|hold_off| hold_off.until <= cx.now.awake))
}

/// Puts off what is due in a session, and takes it out of its mailbox.
pub(super) fn put_off_all(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    session: SessionId,
    hold_off: &HoldOff,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    Work::new(&hold_off.why).put_off_all(cx, txn, (session, hold_off), effects)
}

/// Ends that agents are held off, and the backoffs of what waits for them: somebody changed something.
pub(super) fn lift(cx: &Cx<'_>, txn: &mut Write<'_>, agents: &BTreeSet<AgentId>) -> Result<()> {
    for agent in agents {
        cx.db.hold_offs.delete(txn, agent)?;
    }
    for ((_, id), ()) in cx.db.retries.collect_range(txn, .., cx.policy.rows_per_input / 2)? {
        let message = readable(cx.db.messages.get(txn, &id))?;
        if message.is_some_and(|message| agents.contains(&message.agent)) {
            messages::update(cx, txn, id, |message| message.state = MessageState::Pending(Due::Now))?;
        }
    }
    Ok(())
}

/// Notes that an agent's provider limits requests.
fn hold_off(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, (after, why): (Option<Millis>, &str)) -> Result<HoldOff> {
    let known = readable(cx.db.hold_offs.get(txn, &agent))?;
    let before = known.as_ref().map(|known| {
        let left = if known.until > cx.now.awake { known.until.since(cx.now.awake) } else { Millis::ZERO };
        (known.waits, left)
    });
    let (waits, wait) = decide_hold_off(cx.policy, before, after);
    let hold_off = HoldOff {
        until: cx.now.awake.plus(wait),
        since: known.map_or(cx.now.wall, |known| known.since),
        again: cx.now.wall.plus(wait),
        waits,
        why: notice::shortened(why),
    };
    cx.db.hold_offs.put(txn, &agent, &hold_off)?;
    Ok(hold_off)
}

/// Messages that wait or are given up together: who was told already is not told again.
struct Work<'a> {
    why: &'a str,
    /// Of failures.
    told: Told,
    /// Places that were told to wait.
    waiting: Vec<Address>,
}

impl<'a> Work<'a> {
    fn new(why: &'a str) -> Self {
        Self { why, told: Told::default(), waiting: Vec::new() }
    }

    /// Everything due in the agent's live sessions waits as well: what is in a mailbox would be taken at once.
    fn spread(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        (agent, hold_off): (AgentId, &HoldOff),
        effects: &mut Vec<Effect>,
    ) -> Result<()> {
        for (session, _) in lifecycle::living(cx, txn, |of| of == agent)? {
            self.put_off_all(cx, txn, (session, hold_off), effects)?;
        }
        Ok(())
    }

    fn put_off_all(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        (session, hold_off): (SessionId, &HoldOff),
        effects: &mut Vec<Effect>,
    ) -> Result<()> {
        let mut seqs = Vec::new();
        for ((_, seq), id) in cx.db.ready.collect_prefix(txn, &session, cx.policy.rows_per_input / 8)? {
            self.put_off(cx, txn, (id, hold_off), effects)?;
            seqs.push(seq);
        }
        if !seqs.is_empty() {
            effects.push(Effect::Discard(Discard { session, seqs, agent_files: Vec::new() }));
        }
        Ok(())
    }

    /// Lets a message wait until its agent gets work again; one that has waited too long is given up.
    fn put_off(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        (id, hold_off): (MessageId, &HoldOff),
        effects: &mut Vec<Effect>,
    ) -> Result<()> {
        let message = cx.db.messages.require(txn, &id)?;
        let age = cx.now.wall.since(message.stored);
        let left = hold_off.until.since(cx.now.awake);
        let Some(wait) = decide_put_off(cx.policy, age, left) else {
            let error = format!("the agent's provider took no work for {}: {}", cx.policy.wait_lifetime, self.why);
            return self.give_up(cx, txn, (id, &message, &error), effects);
        };
        let tell = !message.told_to_wait && decide_tell(cx.policy, age, wait);
        messages::update(cx, txn, id, |message| {
            message.state = MessageState::Pending(Due::Retry(cx.now.awake.plus(wait)));
            message.told_to_wait |= tell;
        })?;
        journal::of_message(cx, txn, id, Event::PutOff { wait, why: self.why.to_owned() })?;
        let Some(to) = message.reply.filter(|_| tell) else { return Ok(()) };
        if self.waiting.contains(&to) {
            return Ok(());
        }
        self.waiting.push(to.clone());
        let why = notice::shortened(self.why);
        let text = format!(
            "Your message waits: {why}. The agent will answer as soon as its provider takes work again, in {wait} at the \
             earliest."
        );
        notice::say_to(cx, txn, (to, Some(id)), text, effects).map(drop)
    }

    /// Counts a try and waits out its backoff; after the last one the message is given up.
    fn try_again(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        (id, incarnation, wait): (MessageId, u32, Millis),
        effects: &mut Vec<Effect>,
    ) -> Result<()> {
        let message = cx.db.messages.require(txn, &id)?;
        if message.tries >= cx.policy.max_tries {
            let error = format!("given up after {} tries; the last one ended with: {}", message.tries, self.why);
            return self.give_up(cx, txn, (id, &message, &error), effects);
        }
        let tries = message.tries + 1;
        messages::update(cx, txn, id, |message| {
            message.state = MessageState::Pending(Due::Retry(cx.now.awake.plus(wait)));
            message.tries = tries;
        })?;
        journal::of_message(cx, txn, id, Event::TurnFailed { incarnation, tries, why: self.why.to_owned() })
    }

    fn give_up(
        &mut self,
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        (id, message, error): (MessageId, &Message, &str),
        effects: &mut Vec<Effect>,
    ) -> Result<()> {
        journal::of_message(cx, txn, id, Event::GivenUp(error.to_owned()))?;
        let told = self.told.message_failed(cx, txn, (id, message, error), effects)?;
        let failed = MessageState::Failed { error: error.to_owned(), at: cx.now.wall };
        messages::end(cx, txn, id, (failed, told.into_iter().collect()), effects).map(drop)
    }
}

/// The backoff of a turn: that of its message that was tried most often and is tried again.
fn decide_wait<'a>(policy: &Policy, messages: impl Iterator<Item = &'a Message>) -> Millis {
    let tried = messages.filter(|message| message.trigger && message.tries < policy.max_tries);
    policy.backoff(tried.map(|message| message.tries).max().unwrap_or(0))
}

/// How often in a row the provider limited requests, and how long the agent is held off: `before` is what is known of
/// that and how much of it is left. A further word while it holds is no further time.
fn decide_hold_off(policy: &Policy, before: Option<(u32, Millis)>, after: Option<Millis>) -> (u32, Millis) {
    let (waits, left) = before.unwrap_or((0, Millis::ZERO));
    if left > Millis::ZERO {
        let longer = after.unwrap_or(Millis::ZERO).min(policy.wait_lifetime);
        return (waits, left.max(longer));
    }
    let doubled = Millis::new(policy.wait_base.get().saturating_mul(1 << waits.min(20))).min(policy.wait_max);
    let wait = after.unwrap_or(doubled);
    (waits.saturating_add(1), wait.max(WAIT_MIN).min(policy.wait_lifetime))
}

/// How long a message waits that is this old; none if it has waited long enough. The last try is at the end of its time.
fn decide_put_off(policy: &Policy, age: Millis, left: Millis) -> Option<Millis> {
    let rest = policy.wait_lifetime.get().checked_sub(age.get()).filter(|rest| *rest > 0)?;
    Some(left.min(Millis::new(rest)))
}

/// Whether somebody should know that a message waits: when the whole of its wait is longer than people wait gladly.
fn decide_tell(policy: &Policy, age: Millis, wait: Millis) -> bool {
    age.get().saturating_add(wait.get()) > policy.wait_untold.get()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            // While it holds, another word makes it longer at most.
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
