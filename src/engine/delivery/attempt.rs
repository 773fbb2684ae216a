//! Delivery attempts. The start of an attempt is committed before the channel is called.

use crate::Result;
use crate::delivery::{prompts, result};
use crate::model::Turn;
use crate::model::channel::OnUncertain;
use crate::model::delivery::{Act, Author, Delivery, DeliveryAct, MessageRef, OutState, Outbound};
use crate::model::effect::Effect;
use crate::model::id::OutboundId;
use crate::model::time::Awake;
use crate::rows::{channels, recall, sessions, speeches};
use crate::state::ThreadKey;
use crate::state::derived;
use crate::tx::{Hook, Tx};

/// Messages of one queue that may fail in a row before the rest is left to the sweep.
const FAILING_MAX: usize = 50;

/// Starts an attempt for the first message of an outgoing queue. If it cannot be attempted, it fails and the next one
/// is tried. The sweep handles an attempt whose outcome does not arrive in time.
pub(crate) fn begin(tx: &mut Tx<'_, '_>, id: OutboundId) -> Result<()> {
    let mut first = id;
    for _ in 0..FAILING_MAX {
        let outbound = tx.db.outbound.require(tx, &first)?;
        let Err(reason) = resolve(tx, &outbound)? else { return start(tx, first) };
        let failed = OutState::Failed { error: reason.clone(), at: tx.now.wall };
        let outbound = end(tx, first, failed)?;
        result::tell_of_failure(tx, first, &outbound, &reason)?;
        let Some(next) = first_of_lane(tx, &outbound)? else { return Ok(()) };
        first = next;
    }
    wait(tx, first, tx.now.awake, "what was before it could not be sent".to_owned())
}

fn start(tx: &mut Tx<'_, '_>, id: OutboundId) -> Result<()> {
    let since = tx.now.awake;
    let outbound = change(tx, id, |outbound| {
        outbound.state = OutState::Attempting { since };
        outbound.attempts = outbound.attempts.saturating_add(1);
        outbound.first_attempt.get_or_insert(since);
    })?;
    if let Some(delivery) = delivery(tx, id, outbound)? {
        tx.effects.push(Effect::Deliver(Box::new(delivery)));
    }
    Ok(())
}

/// Counts an attempt that may have been sent.
pub(crate) fn note_uncertain(tx: &mut Tx<'_, '_>, id: OutboundId) -> Result<()> {
    let mut outbound = tx.db.outbound.require(tx, &id)?;
    outbound.uncertain = outbound.uncertain.saturating_add(1);
    tx.db.outbound.put(tx, &id, &outbound)
}

/// Keeps the first message of a queue waiting until a point of awake time.
pub(crate) fn wait(tx: &mut Tx<'_, '_>, id: OutboundId, until: Awake, after: String) -> Result<()> {
    let state = OutState::Waiting { until: Some(until), after: Some(after) };
    let outbound = change(tx, id, |outbound| outbound.state = state)?;
    head_waits(tx, id, &outbound)
}

/// Undoes an attempt that sent nothing because no recipient was connected. It does not count as an attempt.
pub(crate) fn take_back(tx: &mut Tx<'_, '_>, id: OutboundId, until: Awake, after: String) -> Result<()> {
    let outbound = change(tx, id, |outbound| {
        outbound.state = OutState::Waiting { until: Some(until), after: Some(after) };
        outbound.attempts = outbound.attempts.saturating_sub(1);
        outbound.first_attempt = None;
    })?;
    head_waits(tx, id, &outbound)
}

/// Handles a queue head that has just started to wait. If it lets other messages pass and there are some, the first of
/// them becomes the head.
fn head_waits(tx: &mut Tx<'_, '_>, id: OutboundId, outbound: &Outbound) -> Result<()> {
    let first = match &outbound.to {
        Some(to) => tx.db.outgoing_queues.first_in(tx, &ThreadKey::of(to))?.map(|(key, ())| key),
        None => None,
    };
    match first {
        Some(first) if first.turn == Turn::Now && outbound.turn() == Turn::Later => overtake(tx, first.outbound, id),
        _ => Ok(()),
    }
}

/// Attempts a message before the head of its queue, which is waiting and lets others pass.
pub(crate) fn overtake(tx: &mut Tx<'_, '_>, first: OutboundId, head: OutboundId) -> Result<()> {
    change(tx, head, |outbound| {
        if let OutState::Waiting { until, .. } = &mut outbound.state {
            *until = None;
        }
    })?;
    begin(tx, first)
}

/// Ends the message that is being attempted, and attempts the next one in its queue.
pub(crate) fn finish(tx: &mut Tx<'_, '_>, id: OutboundId, state: OutState) -> Result<Outbound> {
    let outbound = end(tx, id, state)?;
    if let Some(next) = first_of_lane(tx, &outbound)? {
        begin(tx, next)?;
    }
    Ok(outbound)
}

/// Removes a message from its queue if it was certainly never shown. Returns whether that was possible.
pub(crate) fn withdraw(tx: &mut Tx<'_, '_>, id: OutboundId) -> Result<bool> {
    let before = tx.db.outbound.require(tx, &id)?;
    if !matches!(before.state, OutState::Waiting { .. }) || before.uncertain > 0 {
        return Ok(false);
    }
    recall::answer_removed(tx, id, &before)?;
    let outbound = end(tx, id, OutState::Abandoned { at: tx.now.wall })?;
    // A message that waits without a time waits behind another one.
    let was_head = derived::head_due(&before).is_some();
    match first_of_lane(tx, &outbound)? {
        Some(next) if was_head => begin(tx, next)?,
        _ => {}
    }
    Ok(true)
}

/// Ends a message and removes it from its queue. The caller starts the next one.
fn end(tx: &mut Tx<'_, '_>, id: OutboundId, state: OutState) -> Result<Outbound> {
    let outbound = change(tx, id, |outbound| outbound.state = state)?;
    prompts::settled(tx, id, &outbound)?;
    tx.call(Hook::OutboundEnded { id, outbound: &outbound })?;
    Ok(outbound)
}

fn first_of_lane(tx: &Tx<'_, '_>, outbound: &Outbound) -> Result<Option<OutboundId>> {
    let Some(to) = &outbound.to else { return Ok(None) };
    Ok(tx.db.outgoing_queues.first_in(tx, &ThreadKey::of(to))?.map(|(key, ())| key.outbound))
}

/// Changes a message and its position in its queue.
fn change(tx: &mut Tx<'_, '_>, id: OutboundId, change: impl FnOnce(&mut Outbound)) -> Result<Outbound> {
    Ok(tx.db.outbound.update(tx, &id, change)?.after)
}

/// The request that an attempt would make to the channel, or why there can be none.
fn resolve(tx: &Tx<'_, '_>, outbound: &Outbound) -> Result<std::result::Result<DeliveryAct, String>> {
    let target = match &outbound.act {
        Act::Say => return Ok(Ok(DeliveryAct::Say)),
        Act::Ask(card) => return Ok(Ok(DeliveryAct::Ask(card.clone()))),
        Act::Edit(said) | Act::React(said) => said,
    };
    let found = match target {
        MessageRef::Theirs(id) => Ok(id.clone()),
        MessageRef::Ours(id) => match tx.db.outbound.get(tx, id)?.map(|row| row.state) {
            Some(OutState::Delivered { platform_message: Some(id), .. }) => Ok(id),
            Some(OutState::Delivered { platform_message: None, .. }) => {
                Err(format!("the channel gave no id for {id}, so it cannot be changed or reacted to"))
            }
            _ => Err(format!("{id} was never delivered, so it cannot be changed or reacted to")),
        },
    };
    let can_edit = match &outbound.to {
        Some(to) => channels::capabilities(tx, &to.channel)?.is_none_or(|can| can.edits),
        None => true,
    };
    let edits = matches!(outbound.act, Act::Edit(_));
    Ok(match found {
        Ok(id) if !edits => Ok(DeliveryAct::React(id)),
        Ok(id) if can_edit => Ok(DeliveryAct::Edit(id)),
        // If a card cannot be edited, its outcome is sent as a new message.
        _ if edits && outbound.author == Author::Hearth => Ok(DeliveryAct::Say),
        Ok(_) => Err("messages of this channel cannot be changed".to_owned()),
        Err(reason) => Err(reason),
    })
}

/// Whether people could see a message twice that is sent again now.
fn shows_twice(declared: OnUncertain, first: Option<Awake>, now: Awake) -> bool {
    match declared {
        OnUncertain::SendAgain => false,
        OnUncertain::SendAgainMarked => true,
        // How long a restart took is not known.
        OnUncertain::SendAgainWithin(length) => {
            first.is_some_and(|first| first.run() != now.run() || now.since(first) >= length)
        }
    }
}

fn delivery(tx: &Tx<'_, '_>, id: OutboundId, outbound: Outbound) -> Result<Option<Delivery>> {
    let (act, attempt) = (resolve(tx, &outbound)?, outbound.attempt());
    let session = speeches::session_of(tx, id, &outbound)?;
    let (Ok(act), Some(attempt), Some(to)) = (act, attempt, outbound.to) else { return Ok(None) };
    let can = channels::capabilities(tx, &to.channel)?;
    let repeats = can.is_some_and(|can| shows_twice(can.on_uncertain, outbound.first_attempt, attempt.since));
    let speaker = match session.map(|session| sessions::load(tx, session)).transpose()?.flatten() {
        Some(session) => tx.db.agents.get(tx, &session.agent)?.map(|agent| agent.settings.name),
        None => None,
    };
    Ok(Some(Delivery {
        id,
        key: tx.db.outgoing(tx, id)?,
        attempt,
        to,
        act,
        repeated: repeats && outbound.uncertain > 0,
        speaker,
        in_reply_to: outbound.in_reply_to,
        text: outbound.text,
        content: outbound.content,
        files: outbound.files,
    }))
}

#[cfg(test)]
mod tests {
    use crate::delivery::attempt::*;
    use crate::delivery::notice;
    use crate::model::address::Address;
    use crate::model::delivery::DeliveryResult;
    use crate::scene::{Scene, place};

    #[test]
    fn a_key_that_the_network_forgets_protects_for_its_time_and_in_one_run() {
        let within = OnUncertain::SendAgainWithin(crate::model::time::Millis::seconds(60));
        let at = Awake::new;
        for (first, now, expected) in [
            (None, at(1, 90_000), false),
            (Some(at(1, 5_000)), at(1, 64_999), false),
            (Some(at(1, 5_000)), at(1, 65_000), true),
            (Some(at(1, 5_000)), at(2, 100), true),
        ] {
            assert_eq!(shows_twice(within, first, now), expected, "{first:?} {now:?}");
            assert!(!shows_twice(OnUncertain::SendAgain, first, now));
            assert!(shows_twice(OnUncertain::SendAgainMarked, first, now));
        }
    }

    /// Withdraws one of two messages in a queue, and checks what happens to each and whether it was possible.
    #[test]
    fn only_what_surely_nobody_has_seen_is_withdrawn() {
        let retry = || DeliveryResult::Retry("502".to_owned());
        let uncertain = || DeliveryResult::Uncertain("no answer".to_owned());
        for (number, heard, which, done, attempts) in [
            (1, vec![], 0, false, [1, 0]),
            // The message before the withdrawn one does not change.
            (2, vec![], 1, true, [1, 0]),
            (3, vec![retry()], 1, true, [1, 0]),
            // The next message in the queue is attempted.
            (4, vec![retry()], 0, true, [1, 1]),
            (5, vec![uncertain()], 0, false, [2, 0]),
            (6, vec![uncertain(), retry()], 0, false, [2, 0]),
        ] {
            let scene = Scene::new();
            scene.done(|tx, _| {
                let (channel, platform_id) = place("C");
                let to = Address { channel, platform_id, thread: None };
                let mut say = |text: &str| notice::say_to(tx, to.clone(), None, text.into());
                let ids = [say("first")?, say("second")?];
                for result in heard {
                    result::tests::heard(tx, ids[0], result)?;
                }
                let withdrawn = withdraw(tx, ids[which])?;
                assert_eq!(withdrawn, done, "case {number}");
                for (index, (id, attempts)) in ids.into_iter().zip(attempts).enumerate() {
                    let row = tx.db.outbound.require(tx, &id)?;
                    let gone = matches!(row.state, OutState::Abandoned { .. });
                    assert_eq!((gone, row.attempts), (done && index == which, attempts), "case {number}, {index}");
                }
                Ok(Ok(Vec::new()))
            });
        }
    }

    /// The request to the channel for an agent's edit, Hearth's edit, and a reaction, for each state of the target
    /// message.
    #[test]
    fn what_cannot_be_changed_is_said_anew_by_hearth_only() {
        let id = || place("m7").1;
        let (never, unnamed) = ("was never delivered", "gave no id");
        for (heard, problem) in [
            (Some(DeliveryResult::Delivered { platform_message: Some(id()) }), None),
            (Some(DeliveryResult::Delivered { platform_message: None }), Some(unnamed)),
            (Some(DeliveryResult::Rejected("gone".to_owned())), Some(never)),
            (None, Some(never)),
        ] {
            let scene = Scene::new();
            scene.done(|tx, _| {
                let (channel, platform_id) = place("C");
                let to = Address { channel, platform_id, thread: None };
                let ours = notice::say_to(tx, to, None, "first".to_owned())?;
                if let Some(result) = heard {
                    result::tests::heard(tx, ours, result)?;
                }
                let first = tx.db.outbound.require(tx, &ours)?;
                let (session, wire_id) = (crate::model::id::SessionId::new(1), "w".to_owned());
                let agent = Author::Agent { session, incarnation: 1, wire_id, number: 1 };
                for (author, act, done, otherwise) in [
                    (agent.clone(), Act::Edit(MessageRef::Ours(ours)), DeliveryAct::Edit(id()), None),
                    (
                        Author::Hearth,
                        Act::Edit(MessageRef::Ours(ours)),
                        DeliveryAct::Edit(id()),
                        Some(DeliveryAct::Say),
                    ),
                    (agent, Act::React(MessageRef::Ours(ours)), DeliveryAct::React(id()), None),
                    (Author::Hearth, Act::React(MessageRef::Ours(ours)), DeliveryAct::React(id()), None),
                ] {
                    let found = resolve(tx, &Outbound { author, act, ..first.clone() })?;
                    match problem {
                        None => assert_eq!(found, Ok(done)),
                        Some(words) => match otherwise {
                            Some(instead) => assert_eq!(found, Ok(instead)),
                            None => assert!(found.as_ref().is_err_and(|why| why.contains(words)), "{found:?}"),
                        },
                    }
                }
                Ok(Ok(Vec::new()))
            });
        }
    }
}
