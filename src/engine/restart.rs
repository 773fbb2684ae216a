//! What an operator does to sessions: start them again, let them begin anew, let something else drive them.

use std::collections::BTreeSet;

use super::configure::{self, Aftermath, Made, report};
use super::{Cx, Result, agents, journal, lifecycle, notice, places, renew, sessions, starts};
use crate::model::entity::{Folder, ProviderKind};
use crate::model::id::SessionId;
use crate::model::incarnation::{Phase, StopReason};
use crate::model::journal::Event;
use crate::model::report::Action;
use crate::model::session::{ChatSession, SessionStatus};
use crate::state::Write;

/// Ends the incarnations of an agent that live, at once: what they work on is given back and costs no try. Only the next
/// ones are told `message`, which is a reason to start them. One line for each session.
pub(super) fn agent(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (folder, message): (&Folder, Option<&str>),
    after: &mut Aftermath,
) -> Result<Made> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(agents::missing(folder))) };
    if message.is_some_and(|message| message.trim().is_empty()) {
        return Ok(Err("the message is empty: say something, or leave it out".to_owned()));
    }
    let mut reports = Vec::new();
    for (session, number) in lifecycle::living(cx, txn, |of| of == agent)? {
        let incarnation = cx.db.incarnations.require(txn, &(session, number))?;
        if !matches!(incarnation.phase, Phase::Starting | Phase::Running) {
            continue;
        }
        // One that is being stopped gets nothing more: the message is for the next one.
        lifecycle::stop(cx, txn, (session, number), StopReason::Restarted, &mut after.effects)?;
        if let Some(message) = message {
            notice::leave_request(cx, txn, session, message)?;
        }
        reports.push(report(format!("session {session} of agent {folder}"), Action::Restarted));
    }
    renew::agents(cx, txn, &BTreeSet::from([agent]), &mut after.effects)?;
    Ok(Ok(reports))
}

/// Ends the incarnation of one session, as [`agent`] does with all of an agent; a wait for its next start is over.
pub(super) fn one(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId, after: &mut Aftermath) -> Result<Made> {
    let row = match find(cx, txn, id)? {
        Ok(row) => row,
        Err(missing) => return Ok(Err(missing)),
    };
    let name = format!("session {id}");
    if let Some(number) = row.live {
        let incarnation = cx.db.incarnations.require(txn, &(id, number))?;
        let ends = matches!(incarnation.phase, Phase::Starting | Phase::Running);
        if ends {
            lifecycle::stop(cx, txn, (id, number), StopReason::Restarted, &mut after.effects)?;
        }
        return Ok(Ok(vec![report(name, if ends { Action::Restarted } else { Action::Unchanged })]));
    }
    try_start(cx, txn, (id, &row), after)?;
    let action = if row.failed_starts > 0 { Action::Updated } else { Action::Unchanged };
    Ok(Ok(vec![report(name, action)]))
}

/// A wait for the next start is over, if there is one.
fn try_start(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, row): (SessionId, &ChatSession),
    after: &mut Aftermath,
) -> Result<()> {
    if row.failed_starts == 0 {
        return Ok(());
    }
    starts::forget(cx, txn, id)?;
    places::hand_on(cx, txn, &mut after.effects)
}

/// Lets a session begin anew when its incarnation is next idle: what was said is kept, what its provider remembers does
/// not count any more.
pub(super) fn session(cx: &Cx<'_>, txn: &mut Write<'_>, id: SessionId, after: &mut Aftermath) -> Result<Made> {
    if let Err(missing) = find(cx, txn, id)? {
        return Ok(Err(missing));
    }
    let (row, ()) = sessions::update(cx, txn, id, |row| row.epoch = row.epoch.saturating_add(1))?;
    journal::of_session(cx, txn, id, Event::Reset(row.epoch))?;
    changed(cx, txn, (id, &row), after)
}

/// Lets something else drive a session, from its next incarnation on.
pub(super) fn provider(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, provider): (SessionId, Option<ProviderKind>),
    after: &mut Aftermath,
) -> Result<Made> {
    match find(cx, txn, id)? {
        Err(missing) => return Ok(Err(missing)),
        Ok(row) if row.provider == provider => {
            return Ok(Ok(vec![report(format!("session {id}"), Action::Unchanged)]));
        }
        Ok(_) => {}
    }
    let (row, ()) = sessions::update(cx, txn, id, |row| row.provider = provider)?;
    journal::of_session(cx, txn, id, Event::Driven(provider))?;
    changed(cx, txn, (id, &row), after)
}

fn changed(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, row): (SessionId, &ChatSession),
    after: &mut Aftermath,
) -> Result<Made> {
    try_start(cx, txn, (id, row), after)?;
    if let Some(number) = row.live {
        renew::look(cx, txn, (id, number), &mut after.effects)?;
    }
    Ok(Ok(vec![report(format!("session {id}"), Action::Updated)]))
}

fn find(cx: &Cx<'_>, txn: &Write<'_>, id: SessionId) -> Result<std::result::Result<ChatSession, String>> {
    Ok(match sessions::load(cx, txn, id)? {
        Some(row) if row.status == SessionStatus::Active => Ok(row),
        Some(_) => Err(format!("session {id} is archived: its agent was removed")),
        None => Err(configure::missing("session", id)),
    })
}
