//! Results of delivery attempts.

use crate::Result;
use crate::delivery::{attempt, notice};
use crate::model::address::{Address, ChannelName};
use crate::model::delivery::{Act, Attempt, DeliveryResult, NOT_RUNNING, OutState, Outbound};
use crate::model::id::OutboundId;
use crate::model::journal::{Event, JournalEntry};
use crate::model::policy::Policy;
use crate::model::report::Reply;
use crate::model::time::{Millis, Moment};
use crate::rows::{journal, speeches};
use crate::state::Timed;
use crate::tx::Tx;

/// Records a delivery outcome. Outcomes of superseded attempts are ignored, except success.
pub(crate) fn delivered(
    tx: &mut Tx<'_, '_>,
    id: OutboundId,
    attempt: Attempt,
    result: DeliveryResult,
) -> Result<Reply> {
    let Some(outbound) = tx.db.outbound.get(tx, &id)? else { return Ok(Reply::Done) };
    if counts(&outbound, attempt, &result) {
        settle(tx, id, &outbound, result)?;
    }
    Ok(Reply::Done)
}

/// Whether an outcome changes something.
///
/// * The attempt is in progress: its own outcome counts. Of an earlier attempt only a success counts, because a
///   rejection of that one does not prevent this one from arriving.
/// * The message waits for its next attempt: a success or a rejection that arrives late ends the message. Everything
///   else was already counted.
fn counts(outbound: &Outbound, attempt: Attempt, result: &DeliveryResult) -> bool {
    match outbound.state {
        OutState::Attempting { .. } => {
            outbound.attempt() == Some(attempt) || matches!(result, DeliveryResult::Delivered { .. })
        }
        OutState::Waiting { until: Some(_), .. } => {
            matches!(result, DeliveryResult::Delivered { .. } | DeliveryResult::Rejected(_))
        }
        // A message that was never attempted has no outcome.
        OutState::Waiting { until: None, .. }
        | OutState::Later(_)
        | OutState::Delivered { .. }
        | OutState::Failed { .. }
        | OutState::Refused { .. }
        | OutState::Abandoned { .. }
        | OutState::Carried { .. } => false,
    }
}

/// Attempts the first messages of the queues of an address, or of a whole channel, that is reachable now.
pub(crate) fn reachable(tx: &mut Tx<'_, '_>, channel: &ChannelName, address: Option<&Address>) -> Result<Reply> {
    // Only the heads of queues wait for a time; all other messages wait for their head.
    for (Timed { id, .. }, ()) in tx.db.queue_heads.collect_range(tx, .., HEADS_MAX)? {
        let outbound = tx.db.outbound.require(tx, &id)?;
        let waits = matches!(outbound.state, OutState::Waiting { until: Some(_), .. });
        let Some(to) = outbound.to.as_ref().filter(|_| waits) else { continue };
        if to.channel == *channel && address.is_none_or(|address| address.platform_id == to.platform_id) {
            attempt::begin(tx, id)?;
        }
    }
    Ok(Reply::Done)
}

/// Maximum number of queues examined when an address becomes reachable. The others are retried at their own time.
const HEADS_MAX: usize = 10_000;

/// Handles an attempt without an outcome, because of a timeout or a restart: it may have been sent. Starts the attempt
/// of a message whose wait is over.
pub(crate) fn overdue(tx: &mut Tx<'_, '_>, id: OutboundId) -> Result<()> {
    let outbound = tx.db.outbound.require(tx, &id)?;
    match outbound.state {
        OutState::Attempting { .. } => {
            let unknown = DeliveryResult::Uncertain("nothing was heard of the attempt".to_owned());
            settle(tx, id, &outbound, unknown)
        }
        OutState::Waiting { .. } => attempt::begin(tx, id),
        OutState::Later(_)
        | OutState::Delivered { .. }
        | OutState::Failed { .. }
        | OutState::Refused { .. }
        | OutState::Abandoned { .. }
        | OutState::Carried { .. } => Ok(()),
    }
}

fn settle(tx: &mut Tx<'_, '_>, id: OutboundId, outbound: &Outbound, result: DeliveryResult) -> Result<()> {
    if let DeliveryResult::Uncertain(why) = &result {
        let event = Event::DeliveryUncertain(id, why.clone());
        note(tx, outbound, event)?;
        attempt::note_uncertain(tx, id)?;
    }
    match decide(tx.policy, outbound, result, tx.now) {
        DeliveryStep::Done(state) => attempt::finish(tx, id, state).map(drop),
        DeliveryStep::Again => attempt::begin(tx, id),
        DeliveryStep::Wait { length, after } => attempt::wait(tx, id, tx.now.awake.plus(length), after),
        DeliveryStep::NobodyThere(after) => {
            let until = tx.now.awake.plus(tx.policy.no_adapter_again);
            attempt::take_back(tx, id, until, after.to_owned())
        }
        DeliveryStep::GiveUp(error) => {
            let failed = OutState::Failed { error: error.clone(), at: tx.now.wall };
            let outbound = attempt::finish(tx, id, failed)?;
            tell_of_failure(tx, id, &outbound, &error)
        }
    }
}

/// Records that a message failed and notifies its agent and the owner. The failure of a card is handled by its asker. A
/// spoken answer that fails loses nothing, because its text was sent.
pub(crate) fn tell_of_failure(tx: &mut Tx<'_, '_>, id: OutboundId, outbound: &Outbound, error: &str) -> Result<()> {
    note(tx, outbound, Event::DeliveryFailed(id, error.to_owned()))?;
    match outbound.act {
        Act::Ask(_) => Ok(()),
        Act::Say if speeches::answer_of(tx, id, outbound)?.is_some() => Ok(()),
        Act::Say | Act::Edit(_) | Act::React(_) => notice::delivery_failed(tx, id, outbound, error),
    }
}

fn note(tx: &mut Tx<'_, '_>, outbound: &Outbound, event: Event) -> Result<()> {
    match outbound.in_reply_to {
        Some(message) => journal::of_message(tx, message, event),
        None => journal::general(tx, JournalEntry { at: tx.now.wall, message: None, session: None, event }),
    }
}

/// The reaction to an outcome.
#[derive(Debug, PartialEq, Eq)]
enum DeliveryStep {
    Done(OutState),
    Again,
    Wait { length: Millis, after: String },
    NobodyThere(&'static str),
    GiveUp(String),
}

fn decide(policy: &Policy, outbound: &Outbound, result: DeliveryResult, now: Moment) -> DeliveryStep {
    let held = outbound.first_attempt.map_or(Millis::ZERO, |first| now.awake.since(first));
    let again = |after: String| {
        let doubled = policy.backoff(outbound.attempts.saturating_sub(1));
        // Attempts that ended with their bridge or daemon count as well, but say nothing about the network. Where each attempt
        // fails after its wait, this is no limit.
        let length = doubled
            .min(Millis::new(held.get().saturating_add(policy.backoff_base.get())))
            .min(policy.delivery_backoff_max);
        if held >= policy.lane_hold_max { DeliveryStep::GiveUp(after) } else { DeliveryStep::Wait { length, after } }
    };
    match result {
        DeliveryResult::Delivered { platform_message } => {
            DeliveryStep::Done(OutState::Delivered { at: now.wall, platform_message })
        }
        DeliveryResult::Rejected(error) => DeliveryStep::GiveUp(error),
        DeliveryResult::Retry(error) => again(error),
        // Repeated at once. A channel that recognizes our id shows the message only once; on others the repeat is
        // marked (`OnUncertain`).
        DeliveryResult::Uncertain(error) if outbound.attempts <= 1 => {
            drop(error);
            DeliveryStep::Again
        }
        DeliveryResult::Uncertain(error) => again(error),
        DeliveryResult::Absent => DeliveryStep::NobodyThere("the recipient is not connected"),
        DeliveryResult::NoAdapter if now.wall > outbound.stored.plus(policy.no_adapter_max) => {
            DeliveryStep::GiveUp("its channel has not run for a week".to_owned())
        }
        DeliveryResult::NoAdapter => DeliveryStep::NobodyThere(NOT_RUNNING),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use crate::delivery::result::*;
    use crate::model::content::RawJson;
    use crate::model::delivery::Author;
    use crate::model::time::{Awake, Timestamp};
    use crate::scene::{Scene, place};

    fn outbound(attempts: u32, first: Awake) -> Outbound {
        Outbound {
            author: Author::Hearth,
            to: None,
            act: crate::model::delivery::Act::Say,
            in_reply_to: None,
            text: "hi".into(),
            content: RawJson::trusted("{}".into()),
            files: vec![],
            state: OutState::Attempting { since: first },
            attempts,
            first_attempt: Some(first),
            uncertain: 0,
            stored: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn a_failing_message_backs_off_and_holds_its_lane_for_an_hour_at_most() {
        let policy = &Policy::STANDARD;
        let at = |minutes: u64| Moment {
            wall: Timestamp::from_millis(0),
            awake: Awake::new(1, Millis::minutes(minutes).get()),
        };
        let retry = || DeliveryResult::Retry("502".into());
        let first = Awake::new(1, 0);
        let wait = |seconds| DeliveryStep::Wait { length: Millis::seconds(seconds), after: "502".into() };
        assert_eq!(decide(policy, &outbound(1, first), retry(), at(0)), wait(5));
        assert_eq!(decide(policy, &outbound(3, first), retry(), at(1)), wait(20));
        assert_eq!(decide(policy, &outbound(12, first), retry(), at(50)), wait(600));
        assert_eq!(decide(policy, &outbound(13, first), retry(), at(60)), DeliveryStep::GiveUp("502".into()));
        assert_eq!(
            decide(policy, &outbound(1, first), DeliveryResult::Rejected("gone".into()), at(0)),
            DeliveryStep::GiveUp("gone".into())
        );
    }

    /// A bridge that was killed often within a short time does not make an answer wait for minutes.
    #[test]
    fn a_message_waits_no_longer_than_it_has_been_tried() {
        let policy = &Policy::STANDARD;
        let first = Awake::new(1, 0);
        let at = |seconds: u64| Moment {
            wall: Timestamp::from_millis(0),
            awake: Awake::new(1, Millis::seconds(seconds).get()),
        };
        let waited = |attempts, seconds| match decide(
            policy,
            &outbound(attempts, first),
            DeliveryResult::Retry("502".into()),
            at(seconds),
        ) {
            DeliveryStep::Wait { length, .. } => length.get() / 1_000,
            other => panic!("{other:?}"),
        };
        assert_eq!([waited(17, 0), waited(17, 36), waited(17, 1_000)], [5, 41, 600]);
        // The longest possible waits, if nothing else took time.
        let mut held = 0;
        for attempts in 1..10 {
            let wait = waited(attempts, held);
            assert_eq!(wait, (5 << (attempts - 1)).min(600));
            held += wait;
        }
    }

    /// Records the outcome of the newest attempt.
    pub(crate) fn heard(tx: &mut Tx<'_, '_>, id: OutboundId, result: DeliveryResult) -> Result<Reply> {
        let attempt = tx.db.outbound.require(tx, &id)?.attempt();
        delivered(tx, id, attempt.expect("one is under way"), result)
    }

    fn results() -> [DeliveryResult; 6] {
        [
            DeliveryResult::Retry("502".to_owned()),
            DeliveryResult::Uncertain("cut off".to_owned()),
            DeliveryResult::Absent,
            DeliveryResult::NoAdapter,
            DeliveryResult::Rejected("gone".to_owned()),
            DeliveryResult::Delivered { platform_message: None },
        ]
    }

    fn said(tx: &mut Tx<'_, '_>) -> Result<(OutboundId, Attempt)> {
        let (channel, platform_id) = place("C");
        let to = Address { channel, platform_id, thread: None };
        let id = notice::say_to(tx, to, None, "hello".to_owned())?;
        Ok((id, tx.db.outbound.require(tx, &id)?.attempt().expect("it is attempted at once")))
    }

    /// A repeated outcome changes nothing.
    #[test]
    fn an_outcome_that_is_heard_again_changes_nothing() {
        for result in results() {
            Scene::new().done(|tx, _| {
                let (id, first) = said(tx)?;
                let mut rows = Vec::new();
                for _ in 0..3 {
                    delivered(tx, id, first, result.clone())?;
                    rows.push(tx.db.outbound.require(tx, &id)?);
                }
                assert!(rows[0].attempt() != Some(first), "{result:?}");
                assert!(rows.iter().all(|row| *row == rows[0]), "{result:?}: {rows:#?}");
                // A definite outcome still ends the message.
                delivered(tx, id, first, DeliveryResult::Delivered { platform_message: None })?;
                let last = tx.db.outbound.require(tx, &id)?;
                let given_up = matches!(result, DeliveryResult::Rejected(_));
                assert_eq!(matches!(last.state, OutState::Delivered { .. }), !given_up, "{result:?}");
                Ok(Ok(Vec::new()))
            });
        }
    }

    /// While the next attempt is in progress, only a success of the last one counts.
    #[test]
    fn an_outcome_of_an_earlier_attempt_says_nothing_of_this_one() {
        for result in results() {
            Scene::new().done(|tx, _| {
                let (id, first) = said(tx)?;
                delivered(tx, id, first, DeliveryResult::Uncertain("cut off".to_owned()))?;
                let second = tx.db.outbound.require(tx, &id)?;
                assert_eq!(second.attempt().map(|attempt| attempt.number), Some(2));
                delivered(tx, id, first, result.clone())?;
                let after = tx.db.outbound.require(tx, &id)?;
                match result {
                    DeliveryResult::Delivered { .. } => assert!(matches!(after.state, OutState::Delivered { .. })),
                    _ => assert_eq!(after, second, "{result:?}"),
                }
                Ok(Ok(Vec::new()))
            });
        }
    }

    #[test]
    fn a_missing_adapter_is_waited_for_seven_days() {
        let policy = &Policy::STANDARD;
        let week = i64::try_from(policy.no_adapter_max.get()).unwrap();
        let at = |ms| Moment { wall: Timestamp::from_millis(ms), awake: Awake::new(1, 1) };
        let row = outbound(1, Awake::new(1, 0));
        assert_eq!(decide(policy, &row, DeliveryResult::NoAdapter, at(week)), DeliveryStep::NobodyThere(NOT_RUNNING));
        assert!(matches!(decide(policy, &row, DeliveryResult::NoAdapter, at(week + 1)), DeliveryStep::GiveUp(_)));
    }
}
