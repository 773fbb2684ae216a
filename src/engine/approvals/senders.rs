//! Strangers in chats where somebody is asked about them: their messages wait, all of them, until somebody answers.

use super::held::{self, Verdict};
use super::outcome::{self, Choice, Told};
use super::texts::{APPROVE, REJECT};
use super::{approvers, ask, rows, send};
use crate::engine::access::{decide_access, standing};
use crate::engine::{Cx, Result, rights};
use crate::model::address::UserId;
use crate::model::approval::{Approval, ApprovalState, Decider, Matters};
use crate::model::effect::Effect;
use crate::model::id::{AgentId, ApprovalId, ChatId};
use crate::model::message::Reason;
use crate::state::{ForeignKey, Write};

/// Somebody whom agents do not know.
pub(in crate::engine) struct Stranger<'a> {
    /// Where they talk.
    pub(in crate::engine) chat: ChatId,
    /// Who they are.
    pub(in crate::engine) sender: &'a UserId,
    /// How they call themselves.
    pub(in crate::engine) name: Option<&'a str>,
    /// Agents that would have heard them.
    pub(in crate::engine) agents: &'a [AgentId],
}

/// The open approval about a stranger, if one more of their messages may wait for it; made if there is none.
pub(in crate::engine) fn admit(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    stranger: Stranger<'_>,
    effects: &mut Vec<Effect>,
) -> Result<std::result::Result<ApprovalId, Reason>> {
    let Stranger { chat, sender, name, agents } = stranger;
    let (channel, handle) = ForeignKey::user(sender);
    let Some(id) = cx.db.approvals_by_sender.get(txn, &(chat, channel, handle))? else {
        let open = cx.db.approvals_by_sender.collect_prefix(txn, &chat, cx.policy.approvals_per_chat)?.len();
        if open >= cx.policy.approvals_per_chat {
            return Ok(Err(Reason::ApprovalsFull));
        }
        let (sender, name, agents) = (sender.clone(), name.map(str::to_owned), agents.to_vec());
        return ask::ask(cx, txn, Matters::Sender { chat, sender, name, agents }, effects);
    };
    if held::count(cx, txn, id, cx.policy.held_max)? >= cx.policy.held_max {
        return Ok(Err(Reason::HeldFull));
    }
    let known = cx.db.approvals.require(txn, &id)?;
    if let Matters::Sender { agents: asking, .. } = &known.about
        && agents.iter().any(|agent| !asking.contains(agent))
    {
        let approval = rows::update(cx, txn, id, |approval| add_agents(approval, agents))?;
        // A yes is to what the card says.
        if approval.card.is_some() {
            send::show_again(cx, txn, id, effects)?;
        }
    }
    Ok(Ok(id))
}

fn add_agents(approval: &mut Approval, more: &[AgentId]) {
    if let Matters::Sender { agents, .. } = &mut approval.about {
        let new: Vec<AgentId> = more.iter().copied().filter(|agent| !agents.contains(agent)).collect();
        agents.extend(new);
    }
}

/// What is asked about a stranger.
struct About {
    chat: ChatId,
    sender: UserId,
    name: Option<String>,
    agents: Vec<AgentId>,
}

fn about(approval: &Approval) -> Option<About> {
    match approval.about.clone() {
        Matters::Sender { chat, sender, name, agents } => Some(About { chat, sender, name, agents }),
        _ => None,
    }
}

/// Carries out what somebody decided about a stranger.
pub(super) fn decided(cx: &Cx<'_>, txn: &mut Write<'_>, choice: Choice, effects: &mut Vec<Effect>) -> Result<Told> {
    let Some(about) = about(&choice.approval) else { return Ok(Err("This is about nobody.".to_owned())) };
    match choice.option.value.as_str() {
        APPROVE => allow(cx, txn, choice, &about, effects),
        REJECT => {
            // Nothing of it is kept: the next message asks again.
            let rejected = ApprovalState::Rejected { by: choice.by, at: cx.now.wall };
            outcome::finish(cx, txn, choice.id, (rejected, &choice.option.chosen), effects)?;
            held::drop_all(cx, txn, (choice.id, about.chat), Reason::Rejected, effects)?;
            Ok(Ok(choice.option.chosen))
        }
        other => Ok(Err(format!("`{other}` is not an answer to this."))),
    }
}

/// Lets the stranger talk to the agents over which the decider has authority, and routes what waited for them.
fn allow(cx: &Cx<'_>, txn: &mut Write<'_>, choice: Choice, about: &About, effects: &mut Vec<Effect>) -> Result<Told> {
    let mut verdict = Verdict::default();
    for agent in &about.agents {
        if !listens(cx, txn, (about.chat, *agent))? {
            verdict.refuse.push((*agent, Reason::Superseded));
        } else if has_authority(cx, txn, &choice.by, *agent)? {
            verdict.go.push(*agent);
        } else {
            verdict.refuse.push((*agent, Reason::Rejected));
        }
    }
    if verdict.go.is_empty() {
        let why = "no agent that heard them is left in that chat";
        outcome::supersede(cx, txn, choice.id, why, effects)?;
        return Ok(Err(format!("Not needed any more: {why}.")));
    }
    let by = match &choice.by {
        Decider::Person(user) => Some(user.clone()),
        Decider::Operator => None,
    };
    for agent in &verdict.go {
        rights::let_in(cx, txn, *agent, (&about.sender, about.name.as_deref()), by.as_ref())?;
    }
    let approved = ApprovalState::Approved { by: choice.by, at: cx.now.wall };
    outcome::finish(cx, txn, choice.id, (approved, &choice.option.chosen), effects)?;
    held::settle(cx, txn, (choice.id, about.chat), &verdict, effects)?;
    Ok(Ok(choice.option.chosen))
}

fn has_authority(cx: &Cx<'_>, txn: &Write<'_>, by: &Decider, agent: AgentId) -> Result<bool> {
    match by {
        Decider::Person(user) => approvers::administers(cx, txn, user, agent),
        Decider::Operator => Ok(true),
    }
}

/// Whether an agent still listens in a chat.
fn listens(cx: &Cx<'_>, txn: &Write<'_>, (chat, agent): (ChatId, AgentId)) -> Result<bool> {
    let alive = cx.db.agents.get(txn, &agent)?.is_some_and(|agent| agent.archived.is_none());
    let there = cx.db.chats.get(txn, &chat)?.is_some_and(|chat| chat.archived.is_none());
    Ok(alive && there && cx.db.wirings.contains(txn, &(chat, agent))?)
}

/// Looks at an open approval after something was configured: agents that are gone wait for nothing any more, and agents
/// to which the person may talk by now have what waited for them at once. A chat that became strict changes nothing:
/// somebody was asked, and the answer counts.
pub(super) fn reconsider(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, approval): (ApprovalId, &Approval),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let Some(about) = about(approval) else { return Ok(()) };
    let chat = cx.db.chats.require(txn, &about.chat)?;
    let mut verdict = Verdict::default();
    for agent in &about.agents {
        let policy = chat.unknown_senders;
        if !listens(cx, txn, (about.chat, *agent))? {
            verdict.refuse.push((*agent, Reason::Superseded));
        } else if decide_access(policy, standing(cx, txn, Some(&about.sender), *agent)?).is_ok() {
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
        outcome::not_needed(cx, txn, id, why, effects)?;
    } else {
        let stay = verdict.stay.clone();
        rows::update(cx, txn, id, |approval| {
            if let Matters::Sender { agents, .. } = &mut approval.about {
                *agents = stay;
            }
        })?;
    }
    held::settle(cx, txn, (id, about.chat), &verdict, effects)
}
