//! Re-examines open approvals after a configuration change or a decision: it may answer them or make them pointless.
//!
//! Approvals about people whose roles changed are examined in the same transaction. A configuration change can affect
//! any approval, so a walk over all of them follows, slice by slice, in further inputs. After a crash, the next sweep
//! continues it.

use crate::Result;
use crate::approvals::{approvers, send};
use crate::decisions::{channels, hosts, outcome, senders};
use crate::model::address::UserId;
use crate::model::approval::ApprovalSubject;
use crate::model::effect::Effect;
use crate::model::id::{ApprovalId, SessionId};
use crate::model::input::Continuation;
use crate::rows::settings::RECONSIDERED;
use crate::rows::{agents, approvals, sessions};
use crate::state::{Number, PersonKey, Text};
use crate::tx::Tx;
use std::collections::BTreeSet;

/// Approvals examined per transaction. Each may also move the messages that wait for it.
const SLICE: usize = 50;

/// Examines the open approvals about these people, then starts a walk over all open approvals.
pub(crate) fn reconsider(tx: &mut Tx<'_, '_>, people: &BTreeSet<UserId>) -> Result<()> {
    if tx.db.approvals_open.is_empty(tx)? {
        return Ok(());
    }
    for user in people {
        about_some(tx, user)?;
    }
    begin(tx)
}

/// Examines the open approvals about a person who may talk to more agents than before.
pub(crate) fn about(tx: &mut Tx<'_, '_>, user: &UserId) -> Result<()> {
    if about_some(tx, user)? < SLICE { Ok(()) } else { begin(tx) }
}

/// Examines up to [`SLICE`] open approvals about a person and returns their number.
fn about_some(tx: &mut Tx<'_, '_>, user: &UserId) -> Result<usize> {
    let found = tx.db.approvals_by_person.collect_prefix(tx, &PersonKey::of(user), SLICE)?;
    for (key, ()) in &found {
        one(tx, key.approval)?;
    }
    Ok(found.len())
}

fn begin(tx: &mut Tx<'_, '_>) -> Result<()> {
    tx.db.retention_cursors.put(tx, &Text::new(RECONSIDERED)?, &Number(0))?;
    go_on(tx)
}

/// Continues the walk, if one is in progress.
pub(crate) fn go_on(tx: &mut Tx<'_, '_>) -> Result<()> {
    let key = Text::new(RECONSIDERED)?;
    let Some(Number(passed)) = tx.db.retention_cursors.get(tx, &key)? else { return Ok(()) };
    let from = ApprovalId::new(passed.saturating_add(1));
    let slice = tx.db.approvals_open.collect_range(tx, from.., SLICE)?;
    for (id, ()) in &slice {
        tx.isolated(|tx| one(tx, *id))?;
    }
    match slice.last() {
        Some((last, ())) if slice.len() >= SLICE => {
            tx.effects.push(Effect::Continue(Continuation::Reconsider));
            tx.db.retention_cursors.put(tx, &key, &Number(last.number()))
        }
        _ => tx.db.retention_cursors.delete(tx, &key).map(drop),
    }
}

/// Examines one approval.
fn one(tx: &mut Tx<'_, '_>, id: ApprovalId) -> Result<()> {
    let Some(approval) = approvals::open(tx, id)? else { return Ok(()) };
    match &approval.about {
        ApprovalSubject::Sender { .. } => senders::reconsider(tx, id, &approval)?,
        ApprovalSubject::Channel { chat, .. } => channels::reconsider(tx, id, *chat)?,
        ApprovalSubject::Budget(_) if tx.db.budget_waits.is_empty(tx)? => {
            outcome::not_needed(tx, id, "no message waits for the budget any more")?;
        }
        ApprovalSubject::Budget(_) => {}
        about @ (ApprovalSubject::Host(_) | ApprovalSubject::Hosts(_)) => hosts::reconsider(tx, id, about)?,
        ApprovalSubject::Packages { session, .. }
        | ApprovalSubject::McpServer { session, .. }
        | ApprovalSubject::CreateAgent { session, .. } => of_session(tx, id, *session)?,
        ApprovalSubject::Tool(request) => of_session(tx, id, request.session)?,
    }
    ask_somebody_else(tx, id)
}

fn of_session(tx: &mut Tx<'_, '_>, id: ApprovalId, session: SessionId) -> Result<()> {
    let removed = match sessions::load(tx, session)? {
        Some(session) => agents::is_removed(tx, session.agent)?,
        None => true,
    };
    if removed { outcome::supersede(tx, id, "the agent was removed") } else { Ok(()) }
}

/// Asks another approver if the one who was asked may not decide any more.
fn ask_somebody_else(tx: &mut Tx<'_, '_>, id: ApprovalId) -> Result<()> {
    let Some(approval) = approvals::open(tx, id)? else { return Ok(()) };
    let Some(asked) = &approval.approver else { return Ok(()) };
    let scope = approvers::scope(tx, &approval.about)?;
    if approvers::may_decide(tx, asked, &scope)? {
        return Ok(());
    }
    send::show_again(tx, id)
}
