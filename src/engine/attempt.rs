//! Attempts to deliver: the start of one is committed before the channel hears of it.

use super::{Cx, Result, cards, channels, deliver, outbox, skips};
use crate::model::channel::OnUncertain;
use crate::model::delivery::{Act, Author, Delivery, DeliveryAct, OutState, Outbound, Said};
use crate::model::effect::Effect;
use crate::model::id::OutboundId;
use crate::model::time::Awake;
use crate::state::Write;

/// Messages of a lane that may fail one after the other before the sweep goes on with it.
const FAILING_MAX: usize = 50;

/// Starts an attempt for the first message of a lane. One that cannot be attempted fails, and the next one is tried. If
/// nothing is heard of an attempt in time, the sweep sees to it.
pub(super) fn begin(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, effects: &mut Vec<Effect>) -> Result<()> {
    let mut first = id;
    for _ in 0..FAILING_MAX {
        let outbound = cx.db.outbound.require(txn, &first)?;
        let Err(reason) = resolve(cx, txn, &outbound)? else { return start(cx, txn, first, effects) };
        let failed = OutState::Failed { error: reason.clone(), at: cx.now.wall };
        let outbound = end(cx, txn, first, failed, effects)?;
        deliver::tell_of_failure(cx, txn, (first, &outbound), &reason, effects)?;
        let Some(next) = first_of_lane(cx, txn, &outbound)? else { return Ok(()) };
        first = next;
    }
    wait(cx, txn, first, cx.now.awake, "what was before it could not be sent".to_owned())
}

fn start(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, effects: &mut Vec<Effect>) -> Result<()> {
    let outbound = change(cx, txn, id, |outbound| {
        outbound.state = OutState::Attempting { since: cx.now.awake };
        outbound.attempts = outbound.attempts.saturating_add(1);
        outbound.first_attempt.get_or_insert(cx.now.awake);
    })?;
    cx.db.lane_heads.put(txn, &(cx.now.awake.plus(cx.policy.attempt_max), id), &())?;
    if let Some(delivery) = delivery(cx, txn, id, outbound)? {
        effects.push(Effect::Deliver(Box::new(delivery)));
    }
    Ok(())
}

/// Counts an attempt that may have gone out.
pub(super) fn note_uncertain(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId) -> Result<()> {
    let mut outbound = cx.db.outbound.require(txn, &id)?;
    outbound.uncertain = outbound.uncertain.saturating_add(1);
    cx.db.outbound.put(txn, &id, &outbound)
}

/// Keeps the first message of a lane waiting until a point of awake time.
pub(super) fn wait(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, until: Awake, after: String) -> Result<()> {
    change(cx, txn, id, |outbound| outbound.state = OutState::Waiting { until: Some(until), after: Some(after) })?;
    cx.db.lane_heads.put(txn, &(until, id), &())
}

/// Takes an attempt back that sent nothing, because nobody was there to take it: it counts for nothing.
pub(super) fn take_back(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, until: Awake, after: String) -> Result<()> {
    change(cx, txn, id, |outbound| {
        outbound.state = OutState::Waiting { until: Some(until), after: Some(after) };
        outbound.attempts = outbound.attempts.saturating_sub(1);
        outbound.first_attempt = None;
    })?;
    cx.db.lane_heads.put(txn, &(until, id), &())
}

/// Ends the message of a lane that is attempted; the next one is attempted at once.
pub(super) fn finish(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: OutboundId,
    state: OutState,
    effects: &mut Vec<Effect>,
) -> Result<Outbound> {
    let outbound = end(cx, txn, id, state, effects)?;
    if let Some(next) = first_of_lane(cx, txn, &outbound)? {
        begin(cx, txn, next, effects)?;
    }
    Ok(outbound)
}

/// Takes a message that surely nobody has seen out of its lane: it is never sent. Tells whether that could be done.
pub(super) fn withdraw(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, effects: &mut Vec<Effect>) -> Result<bool> {
    let before = cx.db.outbound.require(txn, &id)?;
    if !matches!(before.state, OutState::Waiting { .. }) || before.uncertain > 0 {
        return Ok(false);
    }
    let outbound = end(cx, txn, id, OutState::Abandoned { at: cx.now.wall }, effects)?;
    // One that waits without a time waits behind another one.
    let was_head = head_due(cx, &before).is_some();
    match first_of_lane(cx, txn, &outbound)? {
        Some(next) if was_head => begin(cx, txn, next, effects)?,
        _ => {}
    }
    Ok(true)
}

/// Ends a message and takes it out of its lane; what is next in it is the caller's to begin.
fn end(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: OutboundId,
    state: OutState,
    effects: &mut Vec<Effect>,
) -> Result<Outbound> {
    let outbound = change(cx, txn, id, |outbound| outbound.state = state)?;
    if let Some(to) = &outbound.to {
        let (channel, chat, thread) = outbox::lane(to);
        cx.db.lanes.delete(txn, &(channel, chat, thread, id))?;
    }
    cards::settled(cx, txn, (id, &outbound), effects)?;
    skips::settled(cx, txn, (id, &outbound), effects)?;
    Ok(outbound)
}

fn first_of_lane(cx: &Cx<'_>, txn: &Write<'_>, outbound: &Outbound) -> Result<Option<OutboundId>> {
    let Some(to) = &outbound.to else { return Ok(None) };
    Ok(cx.db.lanes.first_in(txn, &outbox::lane(to))?.map(|((_, _, _, first), ())| first))
}

/// Changes a row; the time at which something has to be done about it goes, since every change sets its own.
fn change(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, change: impl FnOnce(&mut Outbound)) -> Result<Outbound> {
    let mut outbound = cx.db.outbound.require(txn, &id)?;
    if let Some(due) = head_due(cx, &outbound) {
        cx.db.lane_heads.delete(txn, &(due, id))?;
    }
    change(&mut outbound);
    cx.db.outbound.put(txn, &id, &outbound)?;
    Ok(outbound)
}

/// When something has to be done about a row if it is the first of its lane.
fn head_due(cx: &Cx<'_>, outbound: &Outbound) -> Option<Awake> {
    match &outbound.state {
        OutState::Attempting { since } => Some(since.plus(cx.policy.attempt_max)),
        OutState::Waiting { until, .. } => *until,
        _ => None,
    }
}

/// What an attempt would ask of the channel, or why there can be none.
fn resolve(cx: &Cx<'_>, txn: &Write<'_>, outbound: &Outbound) -> Result<std::result::Result<DeliveryAct, String>> {
    let target = match &outbound.act {
        Act::Say => return Ok(Ok(DeliveryAct::Say)),
        Act::Ask(card) => return Ok(Ok(DeliveryAct::Ask(card.clone()))),
        Act::Edit(said) | Act::React(said) => said,
    };
    let found = match target {
        Said::Theirs(id) => Ok(id.clone()),
        Said::Ours(id) => match cx.db.outbound.get(txn, id)?.map(|row| row.state) {
            Some(OutState::Delivered { platform_message: Some(id), .. }) => Ok(id),
            Some(OutState::Delivered { platform_message: None, .. }) => {
                Err(format!("the channel gave no id for {id}, so it cannot be changed or reacted to"))
            }
            _ => Err(format!("{id} was never delivered, so it cannot be changed or reacted to")),
        },
    };
    let can_edit = match &outbound.to {
        Some(to) => channels::capabilities(cx, txn, &to.channel)?.is_none_or(|can| can.edits),
        None => true,
    };
    let edits = matches!(outbound.act, Act::Edit(_));
    Ok(match found {
        Ok(id) if !edits => Ok(DeliveryAct::React(id)),
        Ok(id) if can_edit => Ok(DeliveryAct::Edit(id)),
        // What became of a card is said all the same.
        _ if edits && outbound.author == Author::Hearth => Ok(DeliveryAct::Say),
        Ok(_) => Err("messages of this channel cannot be changed".to_owned()),
        Err(reason) => Err(reason),
    })
}

fn delivery(cx: &Cx<'_>, txn: &Write<'_>, id: OutboundId, outbound: Outbound) -> Result<Option<Delivery>> {
    let (act, attempt) = (resolve(cx, txn, &outbound)?, outbound.attempt());
    let (Ok(act), Some(attempt), Some(to)) = (act, attempt, outbound.to) else { return Ok(None) };
    let can = channels::capabilities(cx, txn, &to.channel)?;
    let marks = can.is_some_and(|can| can.on_uncertain == OnUncertain::SendAgainMarked);
    let speaker = match outbound.author {
        Author::Hearth => None,
        Author::Agent { session, .. } => match super::sessions::load(cx, txn, session)? {
            Some(session) => cx.db.agents.get(txn, &session.agent)?.map(|agent| agent.settings.name),
            None => None,
        },
    };
    Ok(Some(Delivery {
        id,
        attempt,
        to,
        act,
        repeated: marks && outbound.uncertain > 0,
        speaker,
        in_reply_to: outbound.in_reply_to,
        text: outbound.text,
        content: outbound.content,
        files: outbound.files,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::notice;
    use crate::engine::scene::{Scene, place};
    use crate::model::address::Address;
    use crate::model::delivery::DeliveryResult;

    /// What became of a message that was to be withdrawn, of two in a lane, and whether that could be done.
    #[test]
    fn only_what_surely_nobody_has_seen_is_withdrawn() {
        let retry = || DeliveryResult::Retry("502".to_owned());
        let uncertain = || DeliveryResult::Uncertain("no answer".to_owned());
        for (number, heard, which, done, attempts) in [
            (1, vec![], 0, false, [1, 0]),
            // What is before it stays as it is.
            (2, vec![], 1, true, [1, 0]),
            (3, vec![retry()], 1, true, [1, 0]),
            // What is behind it goes on.
            (4, vec![retry()], 0, true, [1, 1]),
            (5, vec![uncertain()], 0, false, [2, 0]),
            (6, vec![uncertain(), retry()], 0, false, [2, 0]),
        ] {
            let scene = Scene::new();
            scene.done(|cx, txn, after| {
                let (channel, platform_id) = place("C");
                let to = Address { channel, platform_id, thread: None };
                let mut say = |text: &str| notice::say_to(cx, txn, (to.clone(), None), text.into(), &mut after.effects);
                let ids = [say("first")?, say("second")?];
                for result in heard {
                    deliver::tests::heard(cx, txn, ids[0], result)?;
                }
                let withdrawn = withdraw(cx, txn, ids[which], &mut after.effects)?;
                assert_eq!(withdrawn, done, "case {number}");
                for (index, (id, attempts)) in ids.into_iter().zip(attempts).enumerate() {
                    let row = cx.db.outbound.require(txn, &id)?;
                    let gone = matches!(row.state, OutState::Abandoned { .. });
                    assert_eq!((gone, row.attempts), (done && index == which, attempts), "case {number}, {index}");
                }
                Ok(Ok(Vec::new()))
            });
        }
    }

    /// What an edit of an agent, one of Hearth and a reaction ask of the channel, by what became of what they are about.
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
            scene.done(|cx, txn, after| {
                let (channel, platform_id) = place("C");
                let to = Address { channel, platform_id, thread: None };
                let ours = notice::say_to(cx, txn, (to, None), "first".to_owned(), &mut after.effects)?;
                if let Some(result) = heard {
                    deliver::tests::heard(cx, txn, ours, result)?;
                }
                let first = cx.db.outbound.require(txn, &ours)?;
                let (session, wire_id) = (crate::model::id::SessionId::new(1), "w".to_owned());
                let agent = Author::Agent { session, incarnation: 1, wire_id, number: 1 };
                for (author, act, done, otherwise) in [
                    (agent.clone(), Act::Edit(Said::Ours(ours)), DeliveryAct::Edit(id()), None),
                    (Author::Hearth, Act::Edit(Said::Ours(ours)), DeliveryAct::Edit(id()), Some(DeliveryAct::Say)),
                    (agent, Act::React(Said::Ours(ours)), DeliveryAct::React(id()), None),
                    (Author::Hearth, Act::React(Said::Ours(ours)), DeliveryAct::React(id()), None),
                ] {
                    let found = resolve(cx, txn, &Outbound { author, act, ..first.clone() })?;
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
