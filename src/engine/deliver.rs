//! What channels say of deliveries.

use super::{Applied, Cx, Result, attempt, journal, notice};
use crate::model::address::{Address, ChannelName};
use crate::model::delivery::{Act, Attempt, DeliveryResult, OutState, Outbound};
use crate::model::effect::Effect;
use crate::model::id::OutboundId;
use crate::model::journal::{Event, JournalEntry};
use crate::model::policy::Policy;
use crate::model::time::{Awake, Millis, Moment};
use crate::state::{ForeignKey, Write};

/// Takes in the outcome of an attempt; of one that is over already hardly anything counts.
pub(super) fn delivered(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, attempt): (OutboundId, Attempt),
    result: DeliveryResult,
) -> Result<Applied> {
    let mut effects = Vec::new();
    let Some(outbound) = cx.db.outbound.get(txn, &id)? else { return Ok(Applied::done(effects)) };
    if counts(&outbound, attempt, &result) {
        settle(cx, txn, (id, &outbound), result, &mut effects)?;
    }
    Ok(Applied::done(effects))
}

/// Whether an outcome changes something. While a message waits for its next attempt the last one is over: what came of it
/// and was not known yet ends the message, and anything else was counted already. While the next one is under way nothing
/// counts of an earlier one but that it arrived: a refusal of that one does not keep this one from arriving.
fn counts(outbound: &Outbound, attempt: Attempt, result: &DeliveryResult) -> bool {
    match outbound.state {
        OutState::Attempting { .. } => {
            outbound.attempt() == Some(attempt) || matches!(result, DeliveryResult::Delivered { .. })
        }
        OutState::Waiting { until: Some(_), .. } => {
            matches!(result, DeliveryResult::Delivered { .. } | DeliveryResult::Rejected(_))
        }
        // One that was never attempted has nothing to be heard of.
        OutState::Waiting { until: None, .. }
        | OutState::Later(_)
        | OutState::Delivered { .. }
        | OutState::Failed { .. }
        | OutState::Refused { .. }
        | OutState::Abandoned { .. }
        | OutState::Carried { .. } => false,
    }
}

/// Attempts the first messages of lanes to an address (or a whole channel) that can take them now.
pub(super) fn reachable(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    channel: &ChannelName,
    address: Option<&Address>,
) -> Result<Applied> {
    let mut effects = Vec::new();
    let chat = address.map(|address| ForeignKey::of(&address.platform_id));
    let channel = ForeignKey::of(channel);
    let everywhere = ..=(Awake::new(u64::MAX, u64::MAX), OutboundId::new(u64::MAX));
    // Only heads of lanes wait for something; whatever else is in a lane waits for its head.
    for ((_, id), ()) in cx.db.lane_heads.collect_range(txn, everywhere, HEADS_MAX)? {
        let outbound = cx.db.outbound.require(txn, &id)?;
        let waits = matches!(outbound.state, OutState::Waiting { until: Some(_), .. });
        let Some(to) = outbound.to.as_ref().filter(|_| waits) else { continue };
        let (there, place, _) = ForeignKey::place(to);
        if there == channel && chat.as_ref().is_none_or(|chat| *chat == place) {
            attempt::begin(cx, txn, id, &mut effects)?;
        }
    }
    Ok(Applied::done(effects))
}

/// Lanes that are looked at when somebody can be reached; the others are tried again in their time.
const HEADS_MAX: usize = 10_000;

/// An attempt of which nothing was heard in time, or of an earlier run, may have gone out.
pub(super) fn overdue(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, effects: &mut Vec<Effect>) -> Result<()> {
    let outbound = cx.db.outbound.require(txn, &id)?;
    match outbound.state {
        OutState::Attempting { .. } => {
            let unknown = DeliveryResult::Uncertain("nothing was heard of the attempt".to_owned());
            settle(cx, txn, (id, &outbound), unknown, effects)
        }
        OutState::Waiting { .. } => attempt::begin(cx, txn, id, effects),
        OutState::Later(_)
        | OutState::Delivered { .. }
        | OutState::Failed { .. }
        | OutState::Refused { .. }
        | OutState::Abandoned { .. }
        | OutState::Carried { .. } => Ok(()),
    }
}

fn settle(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, outbound): (OutboundId, &Outbound),
    result: DeliveryResult,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    if let DeliveryResult::Uncertain(why) = &result {
        let event = Event::DeliveryUncertain(id, why.clone());
        note(cx, txn, outbound, event)?;
        attempt::note_uncertain(cx, txn, id)?;
    }
    match decide(cx.policy, outbound, result, cx.now) {
        Next::Done(state) => attempt::finish(cx, txn, id, state, effects).map(drop),
        Next::Again => attempt::begin(cx, txn, id, effects),
        Next::Wait { length, after } => attempt::wait(cx, txn, id, cx.now.awake.plus(length), after),
        Next::NobodyThere(after) => {
            attempt::take_back(cx, txn, id, cx.now.awake.plus(cx.policy.no_adapter_again), after.to_owned())
        }
        Next::GiveUp(error) => {
            let failed = OutState::Failed { error: error.clone(), at: cx.now.wall };
            let outbound = attempt::finish(cx, txn, id, failed, effects)?;
            tell_of_failure(cx, txn, (id, &outbound), &error, effects)
        }
    }
}

/// Notes that a message was given up, and tells whoever has to know. A card that could not be shown is shown again.
pub(super) fn tell_of_failure(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, outbound): (OutboundId, &Outbound),
    error: &str,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    note(cx, txn, outbound, Event::DeliveryFailed(id, error.to_owned()))?;
    match outbound.act {
        Act::Ask(_) => Ok(()),
        Act::Say | Act::Edit(_) | Act::React(_) => notice::delivery_failed(cx, txn, (id, outbound), error, effects),
    }
}

fn note(cx: &Cx<'_>, txn: &mut Write<'_>, outbound: &Outbound, event: Event) -> Result<()> {
    match outbound.in_reply_to {
        Some(message) => journal::of_message(cx, txn, message, event),
        None => journal::general(cx, txn, JournalEntry { at: cx.now.wall, message: None, session: None, event }),
    }
}

/// What follows from an outcome.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Done(OutState),
    Again,
    Wait { length: Millis, after: String },
    NobodyThere(&'static str),
    GiveUp(String),
}

fn decide(policy: &Policy, outbound: &Outbound, result: DeliveryResult, now: Moment) -> Next {
    let held = outbound.first_attempt.map_or(Millis::ZERO, |first| now.awake.since(first));
    let again = |after: String| {
        let doubled = policy.backoff(outbound.attempts.saturating_sub(1));
        if held >= policy.lane_hold_max {
            Next::GiveUp(after)
        } else {
            Next::Wait { length: doubled.min(policy.delivery_backoff_max), after }
        }
    };
    match result {
        DeliveryResult::Delivered { platform_message } => {
            Next::Done(OutState::Delivered { at: now.wall, platform_message })
        }
        DeliveryResult::Rejected(error) => Next::GiveUp(error),
        DeliveryResult::Retry(error) => again(error),
        // The channels there are take our id as an idempotency key: another attempt cannot double the message.
        DeliveryResult::Uncertain(error) if outbound.attempts <= 1 => {
            drop(error);
            Next::Again
        }
        DeliveryResult::Uncertain(error) => again(error),
        DeliveryResult::Absent => Next::NobodyThere("nobody is there"),
        DeliveryResult::NoAdapter if now.wall > outbound.stored.plus(policy.no_adapter_max) => {
            Next::GiveUp("no adapter for the channel has run for a week".to_owned())
        }
        DeliveryResult::NoAdapter => Next::NobodyThere("no adapter"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::scene::{Scene, place};
    use crate::model::content::RawJson;
    use crate::model::delivery::Author;
    use crate::model::time::Timestamp;

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
        let wait = |seconds| Next::Wait { length: Millis::seconds(seconds), after: "502".into() };
        assert_eq!(decide(policy, &outbound(1, first), retry(), at(0)), wait(5));
        assert_eq!(decide(policy, &outbound(3, first), retry(), at(1)), wait(20));
        assert_eq!(decide(policy, &outbound(12, first), retry(), at(50)), wait(600));
        assert_eq!(decide(policy, &outbound(13, first), retry(), at(60)), Next::GiveUp("502".into()));
        assert_eq!(
            decide(policy, &outbound(1, first), DeliveryResult::Rejected("gone".into()), at(0)),
            Next::GiveUp("gone".into())
        );
    }

    /// Takes in what became of the newest attempt.
    pub(in crate::engine) fn heard(
        cx: &Cx<'_>,
        txn: &mut Write<'_>,
        id: OutboundId,
        result: DeliveryResult,
    ) -> Result<Applied> {
        let attempt = cx.db.outbound.require(txn, &id)?.attempt();
        delivered(cx, txn, (id, attempt.expect("one is under way")), result)
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

    fn said(cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<(OutboundId, Attempt)> {
        let (channel, platform_id) = place("C");
        let to = Address { channel, platform_id, thread: None };
        let id = notice::say_to(cx, txn, (to, None), "hello".to_owned(), &mut Vec::new())?;
        Ok((id, cx.db.outbound.require(txn, &id)?.attempt().expect("it is attempted at once")))
    }

    /// Whatever is heard twice of an attempt leaves what it leaves once.
    #[test]
    fn an_outcome_that_is_heard_again_changes_nothing() {
        for result in results() {
            Scene::new().done(|cx, txn, _| {
                let (id, first) = said(cx, txn)?;
                let mut rows = Vec::new();
                for _ in 0..3 {
                    delivered(cx, txn, (id, first), result.clone())?;
                    rows.push(cx.db.outbound.require(txn, &id)?);
                }
                assert!(rows[0].attempt() != Some(first), "{result:?}");
                assert!(rows.iter().all(|row| *row == rows[0]), "{result:?}: {rows:#?}");
                // What is known at last ends it all the same.
                delivered(cx, txn, (id, first), DeliveryResult::Delivered { platform_message: None })?;
                let last = cx.db.outbound.require(txn, &id)?;
                let given_up = matches!(result, DeliveryResult::Rejected(_));
                assert_eq!(matches!(last.state, OutState::Delivered { .. }), !given_up, "{result:?}");
                Ok(Ok(Vec::new()))
            });
        }
    }

    /// While the next attempt is under way, of the last one counts only that it arrived.
    #[test]
    fn an_outcome_of_an_earlier_attempt_says_nothing_of_this_one() {
        for result in results() {
            Scene::new().done(|cx, txn, _| {
                let (id, first) = said(cx, txn)?;
                delivered(cx, txn, (id, first), DeliveryResult::Uncertain("cut off".to_owned()))?;
                let second = cx.db.outbound.require(txn, &id)?;
                assert_eq!(second.attempt().map(|attempt| attempt.number), Some(2));
                delivered(cx, txn, (id, first), result.clone())?;
                let after = cx.db.outbound.require(txn, &id)?;
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
        assert_eq!(decide(policy, &row, DeliveryResult::NoAdapter, at(week)), Next::NobodyThere("no adapter"));
        assert!(matches!(decide(policy, &row, DeliveryResult::NoAdapter, at(week + 1)), Next::GiveUp(_)));
    }
}
