//! Messages that wait for a decision. Each is in exactly one place: here, with agents, or among what was dropped.

use crate::engine::messages::Removed;
use crate::engine::replay::{Waiting, give_up, replay};
use crate::engine::{Cx, Result, messages};
use crate::model::approval::Held;
use crate::model::effect::Effect;
use crate::model::id::{AgentId, ApprovalId, BodyId, ChatId};
use crate::model::message::{Body, Reason};
use crate::state::Write;

/// Stores that a message waits.
pub(in crate::engine) fn hold(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, body): (ApprovalId, BodyId),
    held: &Held,
) -> Result<()> {
    cx.db.held.put(txn, &(id, body), held)
}

/// How many messages wait for a decision, counted up to a limit.
pub(super) fn count(cx: &Cx<'_>, txn: &Write<'_>, id: ApprovalId, limit: usize) -> Result<usize> {
    Ok(cx.db.held.collect_prefix(txn, &id, limit)?.len())
}

/// What becomes of messages that were held for certain agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Agents that get them.
    pub(super) go: Vec<AgentId>,
    /// Agents for which they still wait.
    pub(super) stay: Vec<AgentId>,
    /// Agents that do not get them, and why.
    pub(super) refuse: Vec<(AgentId, Reason)>,
}

/// Carries out a verdict on everything that waits for a decision, in the order in which it was said.
pub(super) fn settle(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, chat): (ApprovalId, ChatId),
    verdict: &Verdict,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    for ((_, body_id), mut held) in cx.db.held.collect_prefix(txn, &id, usize::MAX)? {
        let body = cx.db.bodies.require(txn, &body_id)?;
        let agents = held.agents.clone();
        let waiting = Waiting { chat, body: (body_id, &body), held: &held };
        let mut kept = held.heard;
        let go: Vec<AgentId> = agents.iter().copied().filter(|agent| verdict.go.contains(agent)).collect();
        if !go.is_empty() {
            kept |= replay(cx, txn, &waiting, Some(&go), effects)?;
        }
        for (agent, reason) in verdict.refuse.iter().filter(|(agent, _)| agents.contains(agent)) {
            give_up(cx, txn, &waiting, (Some(*agent), *reason))?;
        }
        let stay: Vec<AgentId> = agents.into_iter().filter(|agent| verdict.stay.contains(agent)).collect();
        if !stay.is_empty() {
            (held.agents, held.heard) = (stay, kept);
            cx.db.held.put(txn, &(id, body_id), &held)?;
            continue;
        }
        let_go(cx, txn, (id, body_id, body), kept, effects)?;
    }
    Ok(())
}

/// Offers everything that waits for a decision to whoever listens in its chat now.
pub(super) fn route_all(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, chat): (ApprovalId, ChatId),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    for ((_, body_id), held) in cx.db.held.collect_prefix(txn, &id, usize::MAX)? {
        let body = cx.db.bodies.require(txn, &body_id)?;
        let waiting = Waiting { chat, body: (body_id, &body), held: &held };
        let kept = replay(cx, txn, &waiting, None, effects)?;
        let_go(cx, txn, (id, body_id, body), kept, effects)?;
    }
    Ok(())
}

/// Drops everything that waits for a decision, with the reason.
pub(super) fn drop_all(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, chat): (ApprovalId, ChatId),
    reason: Reason,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    for ((_, body_id), held) in cx.db.held.collect_prefix(txn, &id, usize::MAX)? {
        let body = cx.db.bodies.require(txn, &body_id)?;
        let only = if let [only] = held.agents.as_slice() { Some(*only) } else { None };
        let waiting = Waiting { chat, body: (body_id, &body), held: &held };
        give_up(cx, txn, &waiting, (only, reason))?;
        let_go(cx, txn, (id, body_id, body), held.heard, effects)?;
    }
    Ok(())
}

/// A message does not wait any more; what nobody has is not kept.
fn let_go(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, body_id, body): (ApprovalId, BodyId, Body),
    kept: bool,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    cx.db.held.delete(txn, &(id, body_id))?;
    if kept {
        return Ok(());
    }
    let unneeded = messages::remove_files(cx, txn, (body_id, body), Removed::Body)?;
    if !unneeded.is_empty() {
        effects.push(Effect::Unneeded(unneeded));
    }
    Ok(())
}
