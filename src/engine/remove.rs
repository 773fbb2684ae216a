//! Removal and other work that is too large for one transaction: it goes on in further inputs, and every start and sweep
//! resumes it.

use super::{Applied, Cx, Result, context, messages};
use crate::model::effect::{Discard, Effect};
use crate::model::id::AgentId;
use crate::model::input::Continuation;
use crate::model::message::{MessageState, Reason};
use crate::model::session::SessionStatus;
use crate::state::Write;

/// Does one more part of some work.
pub(super) fn go_on(cx: &Cx<'_>, txn: &mut Write<'_>, rest: Continuation) -> Result<Applied> {
    let mut effects = Vec::new();
    match rest {
        Continuation::DropMessagesOf(agent) => drop_messages(cx, txn, agent, &mut effects)?,
        Continuation::CapContext(session, last) => context::cap(cx, txn, (session, last), &mut effects)?,
    }
    Ok(Applied::done(effects))
}

/// Resumes the removal of agents that still have waiting messages: the backlog counts them.
pub(super) fn resume(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    for (agent, _) in cx.db.backlog.collect_range(txn, .., cx.policy.rows_per_input)? {
        if cx.db.agents.get(txn, &agent)?.is_some_and(|agent| agent.archived.is_some()) {
            effects.push(Effect::Continue(Continuation::DropMessagesOf(agent)));
        }
    }
    Ok(())
}

/// Drops pending messages of a removed agent. Claimed ones end with their incarnation, which is being stopped.
fn drop_messages(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, effects: &mut Vec<Effect>) -> Result<()> {
    let Some((fingerprint, discriminator)) = cx.db.workspaces_by_agent.get(txn, &agent)? else { return Ok(()) };
    let workspace = (fingerprint, discriminator);
    let mut left = cx.policy.rows_per_input / 4;
    for ((_, _, session), mut row) in cx.db.sessions.collect_prefix(txn, &workspace, cx.policy.rows_per_input)? {
        if row.agent != agent {
            continue;
        }
        if row.status == SessionStatus::Active {
            row.status = SessionStatus::Archived;
            cx.db.sessions.put(txn, &(fingerprint, discriminator, session), &row)?;
        }
        let mut waiting = cx.db.ready.collect_prefix(txn, &session, left)?;
        waiting.extend(cx.db.context.collect_prefix(txn, &session, left)?);
        let mut seqs = Vec::new();
        for ((_, seq), id) in waiting {
            let dropped = MessageState::Dropped { reason: Reason::AgentRemoved, at: cx.now.wall };
            messages::end(cx, txn, id, (dropped, vec![]), effects)?;
            seqs.push(seq);
        }
        left = left.saturating_sub(seqs.len());
        if !seqs.is_empty() {
            effects.push(Effect::Discard(Discard { session, seqs, agent_files: Vec::new() }));
        }
        if left == 0 {
            effects.push(Effect::Continue(Continuation::DropMessagesOf(agent)));
            break;
        }
    }
    Ok(())
}
