//! Decisions about tool calls.

use crate::Result;
use crate::approvals::texts::{ALWAYS, REJECT, REJECT_WHY, SESSION};
use crate::decisions::naming;
use crate::decisions::outcome::{self, Choice, DecisionReply};
use crate::entities::change;
use crate::model::approval::{Approval, ApprovalState, ApprovalSubject, Decider};
use crate::model::id::{ApprovalId, MessageId, SessionId};
use crate::model::incarnation::IncarnationId;
use crate::model::tool::{GrantScope, ToolGrant, ToolRequest};
use crate::requests::tool_calls;
use crate::rows::{approvals, sessions, tool_grants};
use crate::tx::Tx;

/// Maximum length of a reason in characters.
const REASON_MAX: usize = 1_000;
/// Value of an option that rejects with a reason, which follows.
const REASON: &str = "reject_why:";

/// Carries out a choice.
pub(crate) fn decided(tx: &mut Tx<'_, '_>, choice: Choice) -> Result<DecisionReply> {
    let ApprovalSubject::Tool(request) = &choice.approval.about else {
        return Ok(Err("This is not about a tool.".to_owned()));
    };
    let value = choice.option.value.as_str();
    if let Some(reason) = value.strip_prefix(REASON) {
        let reason = reason.to_owned();
        return reject(tx, choice.id, choice.by, Some(&reason));
    }
    match value {
        REJECT => reject(tx, choice.id, choice.by, None),
        REJECT_WHY => naming::begin_reason(tx, choice),
        value => {
            let scope = match value {
                SESSION => Some(GrantScope::Session(request.session)),
                ALWAYS => Some(GrantScope::Agent),
                _ => None,
            };
            let request = request.as_ref().clone();
            allow(tx, choice, &request, scope)
        }
    }
}

fn allow(
    tx: &mut Tx<'_, '_>,
    choice: Choice,
    request: &ToolRequest,
    scope: Option<GrantScope>,
) -> Result<DecisionReply> {
    let Choice { id, option, by, .. } = choice;
    if let Some(scope) = scope
        && let Err(why) = grant(tx, request, scope, by.clone())?
    {
        return Ok(Err(why));
    }
    outcome::finish(tx, id, ApprovalState::Approved { by, at: tx.now.wall }, &option.chosen)?;
    tool_calls::pass_on(tx, id)?;
    Ok(Ok(option.chosen))
}

fn grant(
    tx: &mut Tx<'_, '_>,
    request: &ToolRequest,
    scope: GrantScope,
    by: Decider,
) -> Result<std::result::Result<(), String>> {
    let Some(pattern) = request.pattern.clone() else {
        return Ok(Err("This call can only be allowed once, because no pattern names it.".to_owned()));
    };
    let Some(session) = sessions::load(tx, request.session)? else {
        return Ok(Err("The session is gone.".to_owned()));
    };
    let agent = session.agent;
    let row = ToolGrant { agent, scope, pattern, by, at: tx.now.wall };
    if tool_grants::add(tx, &row)?.is_none() {
        let why = "The agent has too many such answers: remove some with `hearth agents rules remove`.";
        return Ok(Err(why.to_owned()));
    }
    let mut after = change::ChangedAgents::default();
    after.changed.insert(agent);
    change::renew_contexts(tx, &mut after).map(Ok)
}

/// Says no, with the reason if there is one.
pub(crate) fn reject(tx: &mut Tx<'_, '_>, id: ApprovalId, by: Decider, reason: Option<&str>) -> Result<DecisionReply> {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    if reason.is_some_and(|reason| reason.chars().count() > REASON_MAX) {
        return Ok(Err(format!("A reason has at most {REASON_MAX} characters: say it in fewer words.")));
    }
    approvals::update(tx, id, |approval| {
        if let ApprovalSubject::Tool(request) = &mut approval.about {
            request.reason = reason.map(str::to_owned);
        }
    })?;
    let said = if reason.is_some() { "❌ Denied, with a reason" } else { "❌ Denied" };
    outcome::finish(tx, id, ApprovalState::Rejected { by, at: tx.now.wall }, said)?;
    tool_calls::pass_on(tx, id)?;
    Ok(Ok(said.to_owned()))
}

/// Whether an approval is about a tool call.
pub(crate) const fn is_tool(approval: &Approval) -> bool {
    matches!(approval.about, ApprovalSubject::Tool(_))
}

/// A message ended: the open questions of its turn are over.
pub(crate) fn message_ended(tx: &mut Tx<'_, '_>, session: SessionId, message: MessageId) -> Result<()> {
    withdraw(tx, session, Some(message), "the turn ended")
}

/// A run is gone. Questions that belong to no message go with it; the others wait for the next run.
pub(crate) fn run_closed(tx: &mut Tx<'_, '_>, run: IncarnationId) -> Result<()> {
    withdraw(tx, run.session, None, "the run ended")?;
    tool_calls::lost(tx, run)
}

fn withdraw(tx: &mut Tx<'_, '_>, session: SessionId, message: Option<MessageId>, why: &str) -> Result<()> {
    for id in tool_calls::open_of(tx, session, message)? {
        outcome::not_needed(tx, id, why)?;
    }
    Ok(())
}
