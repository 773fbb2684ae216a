//! Attempts to deliver: the start of one is committed before the channel hears of it.

use super::{Cx, Result, outbox};
use crate::model::delivery::{Author, Delivery, DeliveryAct, OutState, Outbound};
use crate::model::effect::Effect;
use crate::model::id::OutboundId;
use crate::model::time::Awake;
use crate::state::Write;

/// Starts an attempt for the first message of a lane. If nothing is heard of it in time, the sweep sees to it.
pub(super) fn begin(cx: &Cx<'_>, txn: &mut Write<'_>, id: OutboundId, effects: &mut Vec<Effect>) -> Result<()> {
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

/// Ends the first message of a lane; the next one is attempted at once.
pub(super) fn finish(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: OutboundId,
    state: OutState,
    effects: &mut Vec<Effect>,
) -> Result<Outbound> {
    let outbound = change(cx, txn, id, |outbound| outbound.state = state)?;
    if let Some(to) = &outbound.to {
        let lane = outbox::lane(to);
        cx.db.lanes.delete(txn, &(lane.0.clone(), lane.1.clone(), lane.2.clone(), id))?;
        if let Some(((_, _, _, next), ())) = cx.db.lanes.first_in(txn, &lane)? {
            begin(cx, txn, next, effects)?;
        }
    }
    Ok(outbound)
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

fn delivery(cx: &Cx<'_>, txn: &Write<'_>, id: OutboundId, outbound: Outbound) -> Result<Option<Delivery>> {
    let Some(to) = outbound.to else { return Ok(None) };
    let speaker = match outbound.author {
        Author::Hearth => None,
        Author::Agent { session, .. } => match super::sessions::load(cx, txn, session)? {
            Some(session) => cx.db.agents.get(txn, &session.agent)?.map(|agent| agent.settings.name),
            None => None,
        },
    };
    Ok(Some(Delivery {
        id,
        to,
        act: DeliveryAct::Say,
        repeated: false,
        speaker,
        in_reply_to: outbound.in_reply_to,
        text: outbound.text,
        content: outbound.content,
        files: outbound.files,
    }))
}
