//! Carries out decisions: their effects and the end of the approval are one transaction.

use crate::approvals::texts::{APPROVE, REJECT, TOMORROW};
use crate::approvals::waitlist;
use crate::decisions::{channels, hosts, senders, tools};
use crate::delivery::prompts;
use crate::lifecycle::budget;
use crate::model::address::Address;
use crate::model::approval::{Approval, ApprovalState, ApprovalSubject, Decider};
use crate::model::budget::BudgetRequest;
use crate::model::card::CardOption;
use crate::model::id::{ApprovalId, SessionId};
use crate::model::message::Reason;
use crate::model::report::Reply;
use crate::requests::Denial;
use crate::routing::held;
use crate::rows::approvals;
use crate::state::InboxKey;
use crate::tx::Tx;
use crate::{Result, requests};

/// A valid choice: the person may decide, and the approval is open.
pub(crate) struct Choice {
    /// The approval's id.
    pub(crate) id: ApprovalId,
    /// The approval before the decision.
    pub(crate) approval: Approval,
    /// The chosen option.
    pub(crate) option: CardOption,
    /// The person or operator who chose it.
    pub(crate) by: Decider,
    /// The address at which it was chosen; none for a command.
    pub(crate) at: Option<Address>,
}

/// The text for the person who decided: the result, or why nothing was done.
pub(crate) type DecisionReply = std::result::Result<String, String>;

/// Carries out a choice and replies with the result.
pub(crate) fn answer(tx: &mut Tx<'_, '_>, choice: Choice) -> Result<Reply> {
    let (decided, text) = match carry_out(tx, choice)? {
        Ok(text) => (true, text),
        Err(why) => (false, why),
    };
    Ok(Reply::Answered { decided, text })
}

fn carry_out(tx: &mut Tx<'_, '_>, choice: Choice) -> Result<DecisionReply> {
    match choice.approval.about {
        ApprovalSubject::Sender { .. } => senders::decided(tx, choice),
        ApprovalSubject::Channel { .. } => channels::decided(tx, choice),
        ApprovalSubject::Packages { .. } | ApprovalSubject::McpServer { .. } | ApprovalSubject::CreateAgent { .. } => {
            of_request(tx, choice)
        }
        ApprovalSubject::Host(_) | ApprovalSubject::Hosts(_) => hosts::decided(tx, choice),
        ApprovalSubject::Tool(_) => tools::decided(tx, choice),
        ApprovalSubject::Budget(ref request) => {
            let request = request.clone();
            of_budget(tx, choice, &request)
        }
    }
}

/// Extends a budget, or drops the messages that wait for it.
fn of_budget(tx: &mut Tx<'_, '_>, choice: Choice, request: &BudgetRequest) -> Result<DecisionReply> {
    let Choice { id, option, by, .. } = choice;
    let at = tx.now.wall;
    if option.value != REJECT {
        finish(tx, id, ApprovalState::Approved { by, at }, &option.chosen)?;
        budget::extend(tx, request, option.value == TOMORROW)?;
        return Ok(Ok(option.chosen));
    }
    finish(tx, id, ApprovalState::Rejected { by, at }, &option.chosen)?;
    budget::drop_waiting(tx, id, InboxKey { session: SessionId::new(0), seq: 0 })?;
    Ok(Ok(option.chosen))
}

fn of_request(tx: &mut Tx<'_, '_>, choice: Choice) -> Result<DecisionReply> {
    let Choice { id, approval, option, by, .. } = choice;
    let at = tx.now.wall;
    if option.value != APPROVE {
        requests::denied(tx, id, &approval, Denial::Rejected)?;
        finish(tx, id, ApprovalState::Rejected { by, at }, &option.chosen)?;
        return Ok(Ok(option.chosen));
    }
    match requests::granted(tx, id, &approval, &by)? {
        Ok(()) => {
            finish(tx, id, ApprovalState::Approved { by, at }, &option.chosen)?;
            Ok(Ok(option.chosen))
        }
        Err(why) => {
            supersede(tx, id, &why)?;
            Ok(Err(not_any_more(&why)))
        }
    }
}

/// Ends an approval: sets its state and closes its card with a text.
pub(crate) fn finish(tx: &mut Tx<'_, '_>, id: ApprovalId, state: ApprovalState, said: &str) -> Result<()> {
    let approval = approvals::update(tx, id, |approval| approval.state = state)?;
    if let Some(card) = approval.card {
        prompts::close(tx, card, said)?;
    }
    if let Some(user) = &approval.approver {
        waitlist::fill(tx, user)?;
    }
    match &approval.about {
        ApprovalSubject::Hosts(request) => hosts::show_gathered(tx, request.agent),
        _ => Ok(()),
    }
}

/// Ends an approval whose subject is gone. Messages that waited for it are dropped, and the card tells the approver.
pub(crate) fn supersede(tx: &mut Tx<'_, '_>, id: ApprovalId, why: &str) -> Result<()> {
    let state = ApprovalState::Superseded { why: why.to_owned(), at: tx.now.wall };
    lapse(tx, id, state, Reason::Superseded, why)
}

/// Ends an approval that needs no decision any more. The caller handles the messages that waited for it.
pub(crate) fn not_needed(tx: &mut Tx<'_, '_>, id: ApprovalId, why: &str) -> Result<()> {
    let state = ApprovalState::Superseded { why: why.to_owned(), at: tx.now.wall };
    finish(tx, id, state, &not_any_more(why))
}

/// Ends an approval that was not decided in time.
pub(crate) fn expire(tx: &mut Tx<'_, '_>, id: ApprovalId) -> Result<()> {
    let state = ApprovalState::Expired { at: tx.now.wall };
    lapse(tx, id, state, Reason::ApprovalExpired, "no one answered in time")
}

fn lapse(tx: &mut Tx<'_, '_>, id: ApprovalId, state: ApprovalState, reason: Reason, why: &str) -> Result<()> {
    let Some(approval) = approvals::open(tx, id)? else { return Ok(()) };
    let expired = matches!(state, ApprovalState::Expired { .. });
    match &approval.about {
        ApprovalSubject::Sender { chat, .. } | ApprovalSubject::Channel { chat, .. } => {
            held::drop_all(tx, id, *chat, reason)?;
        }
        ApprovalSubject::Packages { .. } | ApprovalSubject::McpServer { .. } | ApprovalSubject::CreateAgent { .. } => {
            let denial = if expired { Denial::Lapsed } else { Denial::Impossible(why) };
            requests::denied(tx, id, &approval, denial)?;
        }
        about @ (ApprovalSubject::Host(_) | ApprovalSubject::Hosts(_)) if expired => hosts::lapsed(tx, about)?,
        ApprovalSubject::Host(_) | ApprovalSubject::Hosts(_) => {}
        // The messages go on waiting.
        ApprovalSubject::Budget(_) | ApprovalSubject::Tool(_) => {}
    }
    let said = if expired { format!("⌛ Expired: {why}") } else { not_any_more(why) };
    let is_tool = tools::is_tool(&approval);
    finish(tx, id, state, &said)?;
    if is_tool { requests::tool_calls::pass_on(tx, id) } else { Ok(()) }
}

pub(crate) fn not_any_more(why: &str) -> String {
    format!("🚫 No longer needed: {why}")
}
