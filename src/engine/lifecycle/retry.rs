//! Retries of failed turns, and messages of agents whose provider takes no requests.
//!
//! A provider error costs a try, like a lost turn. A rate limit costs none, nor does a provider that cannot be reached: the
//! whole agent is paused, because its sessions share an account, and its messages wait. After the pause, one session at a time is tried until a turn
//! succeeds.

use crate::delivery::notice;
use crate::lifecycle::failures::Failures;
use crate::lifecycle::fallback::{self, AfterRefusal};
use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::rate_limit::{self, ProviderRefusal};
use crate::model::address::Address;
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::incarnation::{IncarnationId, StopReason};
use crate::model::journal::Event;
use crate::model::mailbox::{Failure, RetryHint};
use crate::model::message::{Due, Message, MessageState};
use crate::model::policy::Policy;
use crate::model::rate_limit::{LimitCause, RateLimit};
use crate::model::time::Millis;
use crate::rows::{agents, journal, messages, session_files, sessions};
use crate::state::InboxKey;
use crate::time::local;
use crate::tx::Tx;
use crate::{Result, lifecycle};
use std::collections::BTreeSet;

/// A turn that failed and may be retried.
pub(crate) struct FailedTurn<'a> {
    pub(crate) session: SessionId,
    /// The incarnation whose turn it was.
    pub(crate) incarnation: u32,
    pub(crate) failure: &'a Failure,
    /// Positions of its messages.
    pub(crate) seqs: Vec<u64>,
}

/// Makes the messages of a failed turn wait together for another one, or fails them with a notice. The incarnation
/// ends. Its later reports about these messages are ignored, so it is safe to collect its files twice.
pub(crate) fn turn_failed(tx: &mut Tx<'_, '_>, turn: &FailedTurn<'_>) -> Result<()> {
    let Some(row) = sessions::load(tx, turn.session)? else { return Ok(()) };
    let mut open = Vec::new();
    for seq in turn.seqs.iter().copied().collect::<BTreeSet<_>>() {
        if let Some((id, message)) = messages::at(tx, turn.session, seq)?
            && messages::is_open(&message)
            && message.failed_in < turn.incarnation
        {
            open.push((id, message));
        }
    }
    let why = turn.failure.error.as_str();
    let mut work = Work::new(why);
    let refusal = match turn.failure.again {
        RetryHint::Wait(after) => Some(ProviderRefusal { cause: LimitCause::Limited, after, why }),
        RetryHint::Unreachable => Some(ProviderRefusal { cause: LimitCause::Unreachable, after: None, why }),
        RetryHint::Later | RetryHint::Never => None,
    };
    let agent = tx.db.agents.require(tx, &row.agent)?;
    let of = SessionRef { id: turn.session, session: &row, agent: &agent };
    let refused = refusal.map(|refusal| fallback::refused(tx, of, &refusal)).transpose()?;
    let wait = decide_wait(tx.policy, open.iter().map(|(_, message)| message));
    for (id, message) in open {
        messages::update(tx, id, |message| message.failed_in = turn.incarnation)?;
        match &refused {
            _ if agents::is_removed(tx, message.agent)? => messages::drop_message(tx, id)?,
            // Context never fails, and never waits on its own.
            _ if !message.trigger => {
                messages::update(tx, id, |message| message.state = MessageState::Pending(Due::Now))?;
            }
            Some(AfterRefusal::Wait(hold_off)) => work.postpone(tx, id, hold_off)?,
            Some(AfterRefusal::Fallback) => work.fail_over(tx, id)?,
            None => work.try_again(tx, id, turn.incarnation, wait)?,
        }
    }
    match refused {
        Some(AfterRefusal::Wait(hold_off)) => work.spread(tx, row.agent, &hold_off)?,
        Some(AfterRefusal::Fallback) => fallback::leave_paused(tx, row.agent)?,
        None => {}
    }
    work.failures.settle(tx)?;
    lifecycle::mark_outdated(tx, IncarnationId::new(turn.session, turn.incarnation), StopReason::TurnFailed)
}

/// Messages that wait or fail together. Each address is told only once.
pub(crate) struct Work<'a> {
    why: &'a str,
    pub(crate) failures: Failures,
    /// Addresses that were told to wait.
    waiting: Vec<Address>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(why: &'a str) -> Self {
        Self { why, failures: Failures::default(), waiting: Vec::new() }
    }

    /// Postpones all queued messages of the agent's live sessions too, because an agent would take those in its mailbox
    /// at once.
    fn spread(&mut self, tx: &mut Tx<'_, '_>, agent: AgentId, hold_off: &RateLimit) -> Result<()> {
        for IncarnationId { session, .. } in lifecycle::live_of(tx, |of| of == agent)? {
            self.postpone_all(tx, session, hold_off)?;
        }
        Ok(())
    }

    pub(crate) fn postpone_all(&mut self, tx: &mut Tx<'_, '_>, session: SessionId, hold_off: &RateLimit) -> Result<()> {
        let mut seqs = Vec::new();
        for (InboxKey { seq, .. }, id) in
            tx.db.ready_messages.collect_prefix(tx, &session, tx.policy.rows_per_input / 8)?
        {
            self.postpone(tx, id, hold_off)?;
            seqs.push(seq);
        }
        if !seqs.is_empty() {
            session_files::discard(tx, session, seqs, Vec::new())?;
        }
        Ok(())
    }

    /// Queues a message for another provider of its agent. A message that has waited too long fails.
    fn fail_over(&mut self, tx: &mut Tx<'_, '_>, id: MessageId) -> Result<()> {
        let message = tx.db.messages.require(tx, &id)?;
        if rate_limit::decide_put_off(tx.policy, tx.now.wall.since(message.stored), Millis::ZERO).is_none() {
            let error = format!("the agent's providers refused requests for {}: {}", tx.policy.wait_lifetime, self.why);
            self.failures.add(id, message, &error);
            return Ok(());
        }
        messages::update(tx, id, |message| message.state = MessageState::Pending(Due::Now))?;
        journal::of_message(tx, id, Event::FailedOver { why: self.why.to_owned() })
    }

    /// Postpones a message until its agent's pause is over. A message that has waited too long fails.
    fn postpone(&mut self, tx: &mut Tx<'_, '_>, id: MessageId, hold_off: &RateLimit) -> Result<()> {
        let message = tx.db.messages.require(tx, &id)?;
        let age = tx.now.wall.since(message.stored);
        let left = hold_off.until.since(tx.now.awake);
        let Some(wait) = rate_limit::decide_put_off(tx.policy, age, left) else {
            let what = match hold_off.cause {
                LimitCause::Limited => "refused requests",
                LimitCause::Unreachable => "could not be reached",
            };
            let error = format!("the agent's provider {what} for {}: {}", tx.policy.wait_lifetime, self.why);
            self.failures.add(id, message, &error);
            return Ok(());
        };
        let tell = !message.told_to_wait && rate_limit::decide_tell(tx.policy, age, wait);
        let due = tx.now.awake.plus(wait);
        messages::update(tx, id, |message| {
            message.state = MessageState::Pending(Due::Retry(due));
            message.told_to_wait |= tell;
        })?;
        let why = self.why.to_owned();
        let event = match hold_off.cause {
            LimitCause::Limited => Event::PutOff { wait, why },
            LimitCause::Unreachable => Event::Unreachable { wait, why },
        };
        journal::of_message(tx, id, event)?;
        let Some(to) = message.reply.filter(|_| tell) else { return Ok(()) };
        if self.waiting.contains(&to) {
            return Ok(());
        }
        self.waiting.push(to.clone());
        let text = if notice::shows_details(tx, &to)? {
            let why = notice::shortened(self.why);
            format!(
                "Your message waits: {why}. The agent will answer as soon as its provider takes work again, in {wait} at \
                 the earliest."
            )
        } else {
            let zone = agents::zone_of(tx, message.agent)?;
            let at = local::clock(tx.now.wall.plus(wait), tx.now.wall, &zone);
            let what = match hold_off.cause {
                LimitCause::Limited => "is overloaded or limits its use",
                LimitCause::Unreachable => "cannot be reached",
            };
            format!(
                "Your message waits: the agent's provider {what}. The answer comes later, at about {at} at the earliest."
            )
        };
        notice::say_to(tx, to, Some(id), text).map(drop)
    }

    /// Counts a try and starts its backoff. After the last try, the message fails.
    fn try_again(&mut self, tx: &mut Tx<'_, '_>, id: MessageId, incarnation: u32, wait: Millis) -> Result<()> {
        let message = tx.db.messages.require(tx, &id)?;
        if message.tries >= tx.policy.max_tries {
            let error = format!("failed after {} tries; the last one ended with: {}", message.tries, self.why);
            self.failures.add(id, message, &error);
            return Ok(());
        }
        let tries = message.tries + 1;
        let due = tx.now.awake.plus(wait);
        messages::update(tx, id, |message| {
            message.state = MessageState::Pending(Due::Retry(due));
            message.tries = tries;
        })?;
        journal::of_message(tx, id, Event::TurnFailed { incarnation, tries, why: self.why.to_owned() })
    }
}

/// The backoff of a turn: that of its most often tried message that can still be retried.
fn decide_wait<'a>(policy: &Policy, messages: impl Iterator<Item = &'a Message>) -> Millis {
    let tried = messages.filter(|message| message.trigger && message.tries < policy.max_tries);
    policy.backoff(tried.map(|message| message.tries).max().unwrap_or(0))
}
