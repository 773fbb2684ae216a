//! Removals and other work too large for one transaction. It continues in further inputs, and every start and sweep
//! resumes it.

use crate::decisions::reconsider;
use crate::lifecycle::{budget, context};
use crate::model::effect::Effect;
use crate::model::id::{AgentId, SessionId};
use crate::model::input::Continuation;
use crate::model::report::Reply;
use crate::model::session::SessionStatus;
use crate::rows::{agents, messages, session_files, sessions, tool_grants};
use crate::schedule::change;
use crate::state::InboxKey;
use crate::state::recall::rebuild;
use crate::tx::Tx;
use crate::workspaces::purge;
use crate::{Result, skips, state_file};

/// Does the next part of a piece of work.
pub(crate) fn go_on(tx: &mut Tx<'_, '_>, rest: Continuation) -> Result<Reply> {
    match rest {
        Continuation::DropMessagesOf(agent) => drop_messages(tx, agent)?,
        Continuation::PurgeSession(session) => purge::go_on(tx, session)?,
        Continuation::DropWaiting(approval, session, seq) => {
            budget::drop_waiting(tx, approval, InboxKey { session, seq })?
        }
        Continuation::Reconsider => reconsider::go_on(tx)?,
        Continuation::CapContext(session, last) => context::cap(tx, session, last)?,
        Continuation::IndexTexts => index_more(tx)?,
    }
    Ok(Reply::Done)
}

/// Resumes the removal of agents that have rows left.
pub(crate) fn resume(tx: &mut Tx<'_, '_>) -> Result<()> {
    if tx.db.agents.len(tx)? == tx.db.agents_by_folder.len(tx)? {
        return Ok(()); // no agent was ever removed
    }
    for (id, agent) in agents::all(tx)? {
        if agent.archived.is_some() && is_left(tx, id)? {
            tx.effects.push(Effect::Continue(Continuation::DropMessagesOf(id)));
        }
    }
    Ok(())
}

/// Indexes some of what was said before the store had this index for searches.
pub(crate) fn index_more(tx: &mut Tx<'_, '_>) -> Result<()> {
    let rows = tx.policy.rows_per_input / 8;
    if rebuild::step(tx.db, tx, rows)? {
        tx.effects.push(Effect::Continue(Continuation::IndexTexts));
    }
    Ok(())
}

/// Whether a removed agent has rows left.
fn is_left(tx: &Tx<'_, '_>, agent: AgentId) -> Result<bool> {
    Ok(tx.db.sessions_by_route.first_in(tx, &agent)?.is_some()
        || tx.db.maintenance_sessions.contains(tx, &agent)?
        || tx.db.tasks_by_agent.first_in(tx, &agent)?.is_some()
        || tx.db.tool_grants_by_agent.first_in(tx, &agent)?.is_some()
        || skips::forget::is_left(tx, agent)?
        || state_file::forget::is_left(tx, agent)?)
}

/// Active sessions of an agent, up to a limit.
fn sessions_of(tx: &Tx<'_, '_>, agent: AgentId) -> Result<Vec<SessionId>> {
    let found = tx.db.sessions_by_route.collect_prefix(tx, &agent, tx.policy.rows_per_input)?;
    let mut sessions: Vec<SessionId> = found.into_iter().map(|(_, session)| session).collect();
    sessions.extend(tx.db.maintenance_sessions.get(tx, &agent)?);
    Ok(sessions)
}

/// Drops the waiting messages of a removed agent's sessions and archives the sessions one by one. An archived session
/// is not found again. Sessions with a live incarnation are left for later. Messages in a backoff are dropped when it
/// ends.
fn drop_messages(tx: &mut Tx<'_, '_>, agent: AgentId) -> Result<()> {
    let limit = tx.policy.rows_per_input / 8; // a message is up to five rows
    let mut left = limit;
    tool_grants::forget(tx, agent, |_| true)?;
    if !change::forget_agent(tx, agent)?
        || !skips::forget::forget_agent(tx, agent)?
        || !state_file::forget::forget_agent(tx, agent)?
    {
        tx.effects.push(Effect::Continue(Continuation::DropMessagesOf(agent)));
        return Ok(());
    }
    let found = sessions_of(tx, agent)?;
    let all = found.len() < tx.policy.rows_per_input;
    let mut archived = 0;
    for session in found {
        if tx.db.live_incarnations.contains(tx, &session)? {
            continue;
        }
        let mut waiting = tx.db.ready_messages.collect_prefix(tx, &session, left)?;
        waiting.extend(tx.db.context_messages.collect_prefix(tx, &session, left - waiting.len())?);
        waiting.extend(tx.db.budget_waits.collect_prefix(tx, &session, left - waiting.len())?);
        left -= waiting.len();
        let mut seqs = Vec::with_capacity(waiting.len());
        for (InboxKey { seq, .. }, id) in waiting {
            messages::drop_message(tx, id)?;
            seqs.push(seq);
        }
        if !seqs.is_empty() {
            session_files::discard(tx, session, seqs, Vec::new())?;
        }
        left = left.saturating_sub(session_files::forget_session(tx, session)?);
        if left == 0 {
            break;
        }
        sessions::update(tx, session, |row| row.status = SessionStatus::Archived)?;
        left -= 1;
        archived += 1;
        if left == 0 {
            break;
        }
    }
    // Without progress, only live incarnations are left: the sweep continues later.
    if left == 0 || (!all && archived > 0) {
        tx.effects.push(Effect::Continue(Continuation::DropMessagesOf(agent)));
    }
    Ok(())
}
