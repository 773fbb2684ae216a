//! Removal and other work that is too large for one transaction: it goes on in further inputs, and every start and sweep
//! resumes it.

use super::{Applied, Cx, Result, agents, context, group, messages, schedule, sessions, skips, workspaces};
use crate::model::effect::{Discard, Effect};
use crate::model::id::{AgentId, MessageId, SessionId};
use crate::model::input::Continuation;
use crate::model::message::{MessageState, Reason};
use crate::model::session::SessionStatus;
use crate::state::{RouteKey, Write};

/// Does one more part of some work.
pub(super) fn go_on(cx: &Cx<'_>, txn: &mut Write<'_>, rest: Continuation) -> Result<Applied> {
    let mut effects = Vec::new();
    match rest {
        Continuation::DropMessagesOf(agent) => drop_messages(cx, txn, agent, &mut effects)?,
        Continuation::PurgeSession(session) => workspaces::go_on_purging(cx, txn, session, &mut effects)?,
        Continuation::CapContext(session, last) => context::cap(cx, txn, (session, last), &mut effects)?,
    }
    Ok(Applied::done(effects))
}

/// Resumes the removal of agents of which something is left that can be found.
pub(super) fn resume(cx: &Cx<'_>, txn: &mut Write<'_>, effects: &mut Vec<Effect>) -> Result<()> {
    if cx.db.agents.len(txn)? == cx.db.agents_by_folder.len(txn)? {
        return Ok(()); // none was ever removed
    }
    for (id, agent) in agents::all(cx, txn)? {
        if agent.archived.is_some() && is_left(cx, txn, id)? {
            effects.push(Effect::Continue(Continuation::DropMessagesOf(id)));
        }
    }
    Ok(())
}

/// Whether something of a removed agent can still be found.
fn is_left(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<bool> {
    Ok(cx.db.sessions_by_route.first_in(txn, &agent)?.is_some()
        || cx.db.maintenance_sessions.contains(txn, &agent)?
        || cx.db.tasks_by_agent.first_in(txn, &agent)?.is_some()
        || skips::is_left(cx, txn, agent)?
        || group::is_left(cx, txn, agent)?)
}

/// The sessions of an agent by which they are found, some of them.
fn sessions_of(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<Vec<(Option<RouteKey>, SessionId)>> {
    let found = cx.db.sessions_by_route.collect_prefix(txn, &agent, cx.policy.rows_per_input)?;
    let mut sessions: Vec<_> = found.into_iter().map(|((_, route), session)| (Some(route), session)).collect();
    sessions.extend(cx.db.maintenance_sessions.get(txn, &agent)?.map(|session| (None, session)));
    Ok(sessions)
}

/// Drops what waits in sessions of a removed agent and archives them, session by session: one that is archived is not
/// found again. Those with a live incarnation are left for later; what waits out a backoff is dropped when that is over.
fn drop_messages(cx: &Cx<'_>, txn: &mut Write<'_>, agent: AgentId, effects: &mut Vec<Effect>) -> Result<()> {
    let limit = cx.policy.rows_per_input / 8; // a message is up to five rows
    let mut left = limit;
    if !schedule::forget_agent(cx, txn, agent)?
        || !skips::forget_agent(cx, txn, agent, effects)?
        || !group::forget_agent(cx, txn, agent)?
    {
        effects.push(Effect::Continue(Continuation::DropMessagesOf(agent)));
        return Ok(());
    }
    let found = sessions_of(cx, txn, agent)?;
    let all = found.len() < cx.policy.rows_per_input;
    let mut archived = 0;
    for (route, session) in found {
        if cx.db.live.contains(txn, &session)? {
            continue;
        }
        let mut waiting = cx.db.ready.collect_prefix(txn, &session, left)?;
        waiting.extend(cx.db.context.collect_prefix(txn, &session, left - waiting.len())?);
        left -= waiting.len();
        let mut seqs = Vec::with_capacity(waiting.len());
        for ((_, seq), id) in waiting {
            drop_message(cx, txn, id, effects)?;
            seqs.push(seq);
        }
        if !seqs.is_empty() {
            effects.push(Effect::Discard(Discard { session, seqs, agent_files: Vec::new() }));
        }
        if left == 0 {
            break;
        }
        sessions::update(cx, txn, session, |row| row.status = SessionStatus::Archived)?;
        match route {
            Some(route) => {
                cx.db.sessions_by_route.delete(txn, &(agent, route))?;
                cx.db.sessions_by_agent.delete(txn, &(agent, session))?;
            }
            None => drop(cx.db.maintenance_sessions.delete(txn, &agent)?),
        }
        left -= 1;
        archived += 1;
        if left == 0 {
            break;
        }
    }
    // Where nothing moved, live incarnations are waited for: the sweep comes back.
    if left == 0 || (!all && archived > 0) {
        effects.push(Effect::Continue(Continuation::DropMessagesOf(agent)));
    }
    Ok(())
}

/// Drops a message of a removed agent.
pub(super) fn drop_message(cx: &Cx<'_>, txn: &mut Write<'_>, id: MessageId, effects: &mut Vec<Effect>) -> Result<()> {
    let dropped = MessageState::Dropped { reason: Reason::AgentRemoved, at: cx.now.wall };
    messages::end(cx, txn, id, (dropped, vec![]), effects).map(drop)
}

/// Whether the agent of a message was removed.
pub(super) fn is_removed(cx: &Cx<'_>, txn: &Write<'_>, agent: AgentId) -> Result<bool> {
    Ok(cx.db.agents.get(txn, &agent)?.is_none_or(|agent| agent.archived.is_some()))
}
