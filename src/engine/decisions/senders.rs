//! Approvals of unknown senders: all messages of a sender are held until the approval is decided.

use crate::approvals::approvers;
use crate::approvals::texts::{APPROVE, REJECT};
use crate::decisions::outcome;
use crate::decisions::outcome::{Choice, DecisionReply};
use crate::entities::roles;
use crate::model::approval::{Approval, ApprovalState, ApprovalSubject, Decider};
use crate::model::id::{AgentId, ApprovalId, ChatId};
use crate::model::message::Reason;
use crate::routing::held;
use crate::routing::held::{About, Settlement};
use crate::rows::{approvals, people};
use crate::rules::access;
use crate::state::WiringKey;
use crate::tx::Tx;
use crate::{Result, decisions};

/// Carries out a decision about an unknown sender.
pub(crate) fn decided(tx: &mut Tx<'_, '_>, choice: Choice) -> Result<DecisionReply> {
    let Some(about) = held::about(&choice.approval) else {
        return Ok(Err("This approval is not about a sender.".to_owned()));
    };
    match choice.option.value.as_str() {
        APPROVE => allow(tx, choice, &about),
        REJECT => {
            // The rejection is not remembered: the next message asks again.
            let rejected = ApprovalState::Rejected { by: choice.by, at: tx.now.wall };
            outcome::finish(tx, choice.id, rejected, &choice.option.chosen)?;
            held::drop_all(tx, choice.id, about.chat, Reason::Rejected)?;
            Ok(Ok(choice.option.chosen))
        }
        other => Ok(Err(format!("`{other}` is not an answer to this."))),
    }
}

/// Makes the sender a member of the agents over which the decider has authority, and routes the held messages.
fn allow(tx: &mut Tx<'_, '_>, choice: Choice, about: &About) -> Result<DecisionReply> {
    let mut verdict = Settlement::default();
    for agent in &about.agents {
        if !listens(tx, about.chat, *agent)? {
            verdict.refuse.push((*agent, Reason::Superseded));
        } else if has_authority(tx, &choice.by, *agent)? {
            verdict.go.push(*agent);
        } else {
            verdict.refuse.push((*agent, Reason::Rejected));
        }
    }
    if verdict.go.is_empty() {
        let why = "no agent that heard them is left in that chat";
        outcome::supersede(tx, choice.id, why)?;
        return Ok(Err(format!("No longer needed: {why}.")));
    }
    let by = match &choice.by {
        Decider::Person(user) => Some(user.clone()),
        Decider::Operator => None,
    };
    for agent in &verdict.go {
        roles::let_in(tx, *agent, &about.sender, about.name.as_deref(), by.as_ref())?;
    }
    let approved = ApprovalState::Approved { by: choice.by, at: tx.now.wall };
    outcome::finish(tx, choice.id, approved, &choice.option.chosen)?;
    held::settle(tx, choice.id, about.chat, &verdict)?;
    decisions::reconsider::about(tx, &about.sender)?;
    Ok(Ok(choice.option.chosen))
}

fn has_authority(tx: &Tx<'_, '_>, by: &Decider, agent: AgentId) -> Result<bool> {
    match by {
        Decider::Person(user) => approvers::administers(tx, user, agent),
        Decider::Operator => Ok(true),
    }
}

/// Whether an agent is still wired to a chat.
fn listens(tx: &Tx<'_, '_>, chat: ChatId, agent: AgentId) -> Result<bool> {
    let alive = tx.db.agents.get(tx, &agent)?.is_some_and(|agent| agent.archived.is_none());
    let there = tx.db.chats.get(tx, &chat)?.is_some_and(|chat| chat.archived.is_none());
    Ok(alive && there && tx.db.wirings.contains(tx, &WiringKey { chat, agent })?)
}

/// Re-examines an open approval after a configuration change. Agents that are gone are taken off it. Agents to which
/// the sender may talk by now receive the held messages at once. If the chat became strict, nothing changes: the
/// question was asked, and its answer counts.
pub(crate) fn reconsider(tx: &mut Tx<'_, '_>, id: ApprovalId, approval: &Approval) -> Result<()> {
    let Some(about) = held::about(approval) else { return Ok(()) };
    let chat = tx.db.chats.require(tx, &about.chat)?;
    let mut verdict = Settlement::default();
    for agent in &about.agents {
        let policy = chat.unknown_senders;
        if !listens(tx, about.chat, *agent)? {
            verdict.refuse.push((*agent, Reason::Superseded));
        } else if access::decide_access(policy, people::standing(tx, Some(&about.sender), *agent)?).is_ok() {
            verdict.go.push(*agent);
        } else {
            verdict.stay.push(*agent);
        }
    }
    if verdict.stay.len() == about.agents.len() {
        return Ok(());
    }
    if verdict.stay.is_empty() {
        let why = if verdict.go.is_empty() {
            "no agent that heard them is left in that chat"
        } else {
            "they may talk there by now"
        };
        outcome::not_needed(tx, id, why)?;
    } else {
        let stay = verdict.stay.clone();
        approvals::update(tx, id, |approval| {
            if let ApprovalSubject::Sender { agents, .. } = &mut approval.about {
                *agents = stay;
            }
        })?;
    }
    held::settle(tx, id, about.chat, &verdict)
}
