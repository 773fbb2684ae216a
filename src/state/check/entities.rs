//! Checks references between entities, and sessions with their incarnations.

use super::Check;
use crate::error::readable;
use crate::model::entity::{Destination, Role};
use crate::model::incarnation::IncarnationId;
use crate::model::session::Session;
use crate::model::task::{TaskHome, TaskState};
use crate::{PersonKey, Result, SessionKey, ThreadKey};

/// References of entities have targets, and keys match their records.
pub(super) fn references(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.wirings, |check, key, _| {
        check.refers(&db.wirings, &key, &db.chats, &key.chat)?;
        check.refers(&db.wirings, &key, &db.agents, &key.agent)
    })?;
    check.each(&db.users, |check, key, user| {
        if key != PersonKey::of(&user.id) {
            check.report(&db.users, &key, "the key is another person's");
        }
        Ok(())
    })?;
    check.each(&db.roles, |check, key, grant| {
        if key.person != PersonKey::of(&grant.user) {
            check.report(&db.roles, &key, "the key is another person's");
        }
        match key.role {
            Role::AdminOf(agent) => check.refers(&db.roles, &key, &db.agents, &agent),
            Role::Owner | Role::GlobalAdmin => Ok(()),
        }
    })?;
    check.each(&db.members, |check, key, member| {
        if key.person != PersonKey::of(&member.user) {
            check.report(&db.members, &key, "the key is another person's");
        }
        check.refers(&db.members, &key, &db.agents, &key.agent)
    })?;
    check.each(&db.destinations, |check, key, destination| {
        check.refers(&db.destinations, &key, &db.agents, &key.agent)?;
        match destination {
            Destination::Chat(chat) => check.refers(&db.destinations, &key, &db.chats, &chat),
            Destination::Agent(agent) => check.refers(&db.destinations, &key, &db.agents, &agent),
        }
    })?;
    later_references(check)
}

fn later_references(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.questions, |check, id, question| {
        check.refers(&db.questions, &id, &db.sessions_by_id, &question.session)
    })?;
    check.each(&db.tasks, |check, id, task| {
        if let TaskHome::Session(session) = task.home {
            check.refers(&db.tasks, &id, &db.sessions_by_id, &session)?;
        }
        if let Some(message) = task.running {
            check.refers(&db.tasks, &id, &db.messages, &message)?;
        }
        if (task.state == TaskState::Active) != task.due().is_some() {
            check.report(&db.tasks, &id, "an active task has one future occurrence, and no other has one");
        }
        check.refers(&db.tasks, &id, &db.agents, &task.agent)
    })?;
    check.each(&db.task_runs, |check, key, _| check.refers(&db.task_runs, &key, &db.tasks, &key.task))?;
    check.each(&db.skips, |check, id, skip| check.refers(&db.skips, &id, &db.agents, &skip.agent))?;
    check.each(&db.thread_follows, |check, key, sticky| {
        if key.thread != ThreadKey::of(&sticky.address) {
            check.report(&db.thread_follows, &key, "the key is another thread's");
        }
        check.refers(&db.thread_follows, &key, &db.agents, &key.agent)
    })?;
    check.each(&db.mutes, |check, key, mute| {
        if key.thread != ThreadKey::of(&mute.address) {
            check.report(&db.mutes, &key, "the key is another thread's");
        }
        check.refers(&db.mutes, &key, &db.agents, &key.agent)
    })?;
    check.each(&db.rate_limits, |check, key, _| check.refers(&db.rate_limits, &key, &db.agents, &key))?;
    check.each(&db.fallback_limits, |check, key, _| {
        if key.id == 0 {
            check.report(&db.fallback_limits, &key, "the agent's own provider is not a fallback");
        }
        check.refers(&db.fallback_limits, &key, &db.agents, &key.owner)
    })?;
    check.each(&db.frozen_agents, |check, key, _| check.refers(&db.frozen_agents, &key, &db.agents, &key))?;
    check.each(&db.state_fields, |check, key, _| check.refers(&db.state_fields, &key, &db.agents, &key.agent))
}

/// References of sessions have targets. Sessions know their live incarnation and never use a number twice.
pub(super) fn sessions(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.workspaces, |check, key, workspace| {
        workspace.agent.map_or(Ok(()), |agent| check.refers(&db.workspaces, &key, &db.agents, &agent))
    })?;
    check.each(&db.sessions, |check, key, session| {
        check.refers(&db.sessions, &key, &db.workspaces, &key.workspace)?;
        let id = key.session;
        let Some(session) = session.chat() else { return Ok(()) };
        check.refers(&db.sessions, &key, &db.agents, &session.agent)?;
        let live = check.look_up(&db.live_incarnations, &id)?;
        if live != session.live {
            check.report(&db.sessions, &key, format!("says live {:?}, the index says {live:?}", session.live));
        }
        if let Some(number) = session.live {
            check.refers(&db.sessions, &key, &db.incarnations, &IncarnationId { session: id, number })?;
        }
        let highest_in = readable(db.messages_by_session.last_in(check.txn, &id))?.map_or(0, |(key, _)| key.seq);
        let highest_out = readable(db.outbound_by_number.last_in(check.txn, &id))?.map_or(0, |(key, _)| key.number);
        let highest = highest_in.max(highest_out);
        if highest > session.last_number {
            let what = format!("says last number {}, but {highest} is used", session.last_number);
            check.report(&db.sessions, &key, what);
        }
        Ok(())
    })?;
    check.each(&db.session_settings, |check, key, _| {
        check.refers(&db.session_settings, &key, &db.sessions_by_id, &key)
    })?;
    check.each(&db.session_providers, |check, key, row| {
        let mut of: Vec<_> = row.gaps.iter().map(|gap| format!("{:?}", gap.of)).collect();
        of.sort_unstable();
        if of.windows(2).any(|pair| pair.first() == pair.last()) {
            check.report(&db.session_providers, &key, "a provider has two gaps");
        }
        check.refers(&db.session_providers, &key, &db.sessions_by_id, &key)
    })
}

/// Incarnations belong to sessions that know of them.
pub(super) fn incarnations(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    check.each(&db.incarnations, |check, key, _| {
        let IncarnationId { session: id, number } = key;
        check.refers(&db.incarnations, &key, &db.sessions_by_id, &id)?;
        let Some(workspace) = check.look_up(&db.sessions_by_id, &id)? else { return Ok(()) };
        let session = check.look_up(&db.sessions, &SessionKey { workspace, session: id })?;
        if session.and_then(Session::chat).is_some_and(|session| number > session.last_incarnation) {
            check.report(&db.incarnations, &key, "the session has not allocated it");
        }
        Ok(())
    })?;
    check.each(&db.stopped_turns, |check, key, _| {
        if check.look_up(&db.live_incarnations, &key.session)? != Some(key.number) {
            check.report(&db.stopped_turns, &key, "of a run that is not live");
        }
        Ok(())
    })
}
