//! Commands for sessions: restart, reset, and change of provider, model and effort.

use crate::entities::change;
use crate::entities::change::{ChangeResult, ChangedAgents};
use crate::lifecycle::{capacity, rollout, start_backoff};
use crate::model::entity::{Folder, ProviderKind};
use crate::model::id::SessionId;
use crate::model::incarnation::{IncarnationId, Phase, StopReason};
use crate::model::journal::Event;
use crate::model::report::Action;
use crate::model::session::{ChatSession, SessionChoice, SessionSettings, SessionStatus};
use crate::model::tool::GrantScope;
use crate::rows::{agents, journal, notes, session_files, session_providers, sessions, tool_grants};
use crate::rules::texts;
use crate::tx::Tx;
use crate::{Result, lifecycle, readable};
use std::collections::BTreeSet;

/// Stops the live incarnations of an agent at once. Their unfinished work is requeued and costs no try. Only their
/// successors receive `message`, which is a reason to start them. One report per session.
pub(crate) fn agent(
    tx: &mut Tx<'_, '_>,
    folder: &Folder,
    message: Option<&str>,
    _after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    let Some((agent, _)) = agents::find(tx, folder)? else { return Ok(Err(agents::missing(folder))) };
    if message.is_some_and(|message| message.trim().is_empty()) {
        return Ok(Err("the message is empty: say something, or leave it out".to_owned()));
    }
    let mut reports = Vec::new();
    for id in lifecycle::live_of(tx, |of| of == agent)? {
        let incarnation = tx.db.incarnations.require(tx, &id)?;
        if !matches!(incarnation.phase, Phase::Starting | Phase::Running) {
            continue;
        }
        // A stopping incarnation receives nothing more, so the message goes to the next one.
        lifecycle::stop(tx, id, StopReason::Restarted)?;
        if let Some(message) = message {
            notes::leave_request(tx, id.session, message)?;
        }
        reports.push(change::report(format!("session {} of agent {folder}", id.session), Action::Restarted));
    }
    rollout::agents(tx, &BTreeSet::from([agent]))?;
    Ok(Ok(reports))
}

/// Stops the incarnation of one session, as [`agent`] does for all of an agent. Without an incarnation, ends the wait
/// for the next start.
pub(crate) fn one(tx: &mut Tx<'_, '_>, id: SessionId, after: &mut ChangedAgents) -> Result<ChangeResult> {
    let row = match find(tx, id)? {
        Ok(row) => row,
        Err(missing) => return Ok(Err(missing)),
    };
    let name = format!("session {id}");
    if let Some(number) = row.live {
        let live = IncarnationId { session: id, number };
        let incarnation = tx.db.incarnations.require(tx, &live)?;
        let ends = matches!(incarnation.phase, Phase::Starting | Phase::Running);
        if ends {
            lifecycle::stop(tx, live, StopReason::Restarted)?;
        }
        return Ok(Ok(vec![change::report(name, if ends { Action::Restarted } else { Action::Unchanged })]));
    }
    try_start(tx, id, &row, after)?;
    let action = if row.failed_starts > 0 { Action::Updated } else { Action::Unchanged };
    Ok(Ok(vec![change::report(name, action)]))
}

/// Ends the wait for the next start, if there is one.
fn try_start(tx: &mut Tx<'_, '_>, id: SessionId, row: &ChatSession, _after: &mut ChangedAgents) -> Result<()> {
    if row.failed_starts == 0 {
        return Ok(());
    }
    start_backoff::forget(tx, id)?;
    capacity::assign_free_slots(tx)
}

/// Resets a session when its incarnation is next idle. Its messages are kept; its provider starts a new conversation,
/// without the files of the last one.
pub(crate) fn session(tx: &mut Tx<'_, '_>, id: SessionId, after: &mut ChangedAgents) -> Result<ChangeResult> {
    if let Err(missing) = find(tx, id)? {
        return Ok(Err(missing));
    }
    let (row, ()) = sessions::update(tx, id, |row| row.epoch = row.epoch.saturating_add(1))?;
    journal::of_session(tx, id, Event::Reset(row.epoch))?;
    session_files::forget_session(tx, id)?;
    tool_grants::forget(tx, row.agent, |grant| grant.scope == GrantScope::Session(id))?;
    session_providers::update(tx, id, |providers| providers.begin_anew(row.last_number))?;
    changed(tx, id, &row, after)
}

/// Changes the provider of a session, from its next incarnation on.
pub(crate) fn provider(
    tx: &mut Tx<'_, '_>,
    id: SessionId,
    provider: Option<ProviderKind>,
    after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    match find(tx, id)? {
        Err(missing) => return Ok(Err(missing)),
        Ok(row) if row.provider == provider => {
            return Ok(Ok(vec![change::report(format!("session {id}"), Action::Unchanged)]));
        }
        Ok(_) => {}
    }
    let (row, ()) = sessions::update(tx, id, |row| row.provider = provider)?;
    journal::of_session(tx, id, Event::Driven(provider))?;
    changed(tx, id, &row, after)
}

/// Chooses the model or the effort of a session, from its next incarnation on.
pub(crate) fn choose(
    tx: &mut Tx<'_, '_>,
    id: SessionId,
    choice: SessionChoice,
    after: &mut ChangedAgents,
) -> Result<ChangeResult> {
    if let Some(problem) = choice.problem() {
        return Ok(Err(problem));
    }
    let row = match find(tx, id)? {
        Ok(row) => row,
        Err(missing) => return Ok(Err(missing)),
    };
    let before = readable(tx.db.session_settings.get(tx, &id))?.unwrap_or_default();
    let chosen = before.clone().with(choice.clone());
    if chosen == before {
        return Ok(Ok(vec![change::report(format!("session {id}"), Action::Unchanged)]));
    }
    if chosen == SessionSettings::default() {
        tx.db.session_settings.delete(tx, &id)?;
    } else {
        tx.db.session_settings.put(tx, &id, &chosen)?;
    }
    journal::of_session(tx, id, Event::Chosen(choice))?;
    changed(tx, id, &row, after)
}

fn changed(tx: &mut Tx<'_, '_>, id: SessionId, row: &ChatSession, after: &mut ChangedAgents) -> Result<ChangeResult> {
    try_start(tx, id, row, after)?;
    if let Some(number) = row.live {
        rollout::look(tx, IncarnationId { session: id, number })?;
    }
    Ok(Ok(vec![change::report(format!("session {id}"), Action::Updated)]))
}

fn find(tx: &Tx<'_, '_>, id: SessionId) -> Result<std::result::Result<ChatSession, String>> {
    Ok(match sessions::load(tx, id)? {
        Some(row) if row.status == SessionStatus::Active => Ok(row),
        Some(_) => Err(format!("session {id} is archived: its agent was removed")),
        None => Err(texts::missing("session", id)),
    })
}
