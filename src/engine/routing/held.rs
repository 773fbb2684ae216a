//! Held messages, which wait for an approval. Each message is in exactly one state: held, with agents, or dropped.

use crate::Result;
use crate::approvals::ask::Waits;
use crate::approvals::{ask, send};
use crate::model::address::UserId;
use crate::model::approval::{Approval, ApprovalSubject, Held};
use crate::model::content::FileBytes;
use crate::model::effect::Effect;
use crate::model::id::{AgentId, ApprovalId, BodyId, ChatId};
use crate::model::message::{Body, Reason};
use crate::routing::replay;
use crate::routing::replay::Waiting;
use crate::rows::messages::Removed;
use crate::rows::{approvals, messages, recall};
use crate::state::{HeldKey, Owned, PersonKey, SenderKey, held_bytes};
use crate::tx::Tx;

/// Shown to agents and people for a file that was not kept.
const LEFT_OUT: &str = "it was not kept, because too many bytes of files waited for approval; ask for it again";

/// Stores a held message.
pub(crate) fn hold(tx: &mut Tx<'_, '_>, id: ApprovalId, body: BodyId, held: &Held) -> Result<()> {
    let row = tx.db.bodies.require(tx, &body)?;
    let bytes = held_bytes::file_bytes(&row);
    if tx.db.held_messages_by_body.get(tx, &Owned { owner: body, id })?.is_none() {
        held_bytes::count_held(tx.db, tx, &row, |held| held.saturating_add(bytes))?;
    }
    tx.db.held_messages_by_body.put(tx, &Owned { owner: body, id }, &bytes)?;
    tx.db.held_messages.put(tx, &HeldKey { approval: id, body }, held)?;
    recall::held(tx, id, body, &row)
}

/// Removes the files of a message that would exceed the limits for held files. Their bytes are not needed any more and
/// are removed when the message is committed.
pub(crate) fn leave_out(tx: &Tx<'_, '_>, body: &mut Body) -> Result<()> {
    let mut person = match held_bytes::holder(body) {
        Some(holder) => tx.db.held_bytes_by_person.get(tx, &holder)?.unwrap_or(0),
        None => 0,
    };
    let mut all = tx.db.held_bytes.get(tx, &())?.unwrap_or(0);
    for file in body.attachments.iter_mut().filter(|file| file.blob.stored().is_some()) {
        let (with_person, with_all) = (person.saturating_add(file.size), all.saturating_add(file.size));
        if with_person > tx.policy.held_bytes_per_person || with_all > tx.policy.held_bytes {
            file.blob = FileBytes::Missing(LEFT_OUT.to_owned());
        } else {
            (person, all) = (with_person, with_all);
        }
    }
    Ok(())
}

/// The number of messages held for an approval, counted up to a limit.
pub(crate) fn count(tx: &Tx<'_, '_>, id: ApprovalId, limit: usize) -> Result<usize> {
    Ok(tx.db.held_messages.collect_prefix(tx, &id, limit)?.len())
}

/// What happens to messages held for certain agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settlement {
    /// Agents that receive them.
    pub(crate) go: Vec<AgentId>,
    /// Agents for which they stay held.
    pub(crate) stay: Vec<AgentId>,
    /// Agents that do not receive them, and why.
    pub(crate) refuse: Vec<(AgentId, Reason)>,
}

/// Applies a verdict to all messages held for an approval, in order of arrival.
pub(crate) fn settle(tx: &mut Tx<'_, '_>, id: ApprovalId, chat: ChatId, verdict: &Settlement) -> Result<()> {
    for (HeldKey { body: body_id, .. }, mut held) in tx.db.held_messages.collect_prefix(tx, &id, usize::MAX)? {
        let body = tx.db.bodies.require(tx, &body_id)?;
        let agents = held.agents.clone();
        let waiting = Waiting { chat, body: (body_id, &body), held: &held };
        let mut kept = held.heard;
        let go: Vec<AgentId> = agents.iter().copied().filter(|agent| verdict.go.contains(agent)).collect();
        if !go.is_empty() {
            kept |= replay::replay(tx, &waiting, Some(&go))?;
        }
        for (agent, reason) in verdict.refuse.iter().filter(|(agent, _)| agents.contains(agent)) {
            replay::give_up(tx, &waiting, Some(*agent), *reason)?;
        }
        let stay: Vec<AgentId> = agents.into_iter().filter(|agent| verdict.stay.contains(agent)).collect();
        if !stay.is_empty() {
            (held.agents, held.heard) = (stay, kept);
            tx.db.held_messages.put(tx, &HeldKey { approval: id, body: body_id }, &held)?;
            continue;
        }
        let_go(tx, id, body_id, body, kept)?;
    }
    Ok(())
}

/// Routes all messages held for an approval to the agents that listen in the chat now.
pub(crate) fn route_all(tx: &mut Tx<'_, '_>, id: ApprovalId, chat: ChatId) -> Result<()> {
    for (HeldKey { body: body_id, .. }, held) in tx.db.held_messages.collect_prefix(tx, &id, usize::MAX)? {
        let body = tx.db.bodies.require(tx, &body_id)?;
        let waiting = Waiting { chat, body: (body_id, &body), held: &held };
        let kept = replay::replay(tx, &waiting, None)?;
        let_go(tx, id, body_id, body, kept)?;
    }
    Ok(())
}

/// Drops all messages held for an approval, with a reason.
pub(crate) fn drop_all(tx: &mut Tx<'_, '_>, id: ApprovalId, chat: ChatId, reason: Reason) -> Result<()> {
    for (HeldKey { body: body_id, .. }, held) in tx.db.held_messages.collect_prefix(tx, &id, usize::MAX)? {
        let body = tx.db.bodies.require(tx, &body_id)?;
        let only = if let [only] = held.agents.as_slice() { Some(*only) } else { None };
        let waiting = Waiting { chat, body: (body_id, &body), held: &held };
        replay::give_up(tx, &waiting, only, reason)?;
        let_go(tx, id, body_id, body, held.heard)?;
    }
    Ok(())
}

/// Ends the hold of a message. Its body is removed unless an agent has it or another approval waits for it.
fn let_go(tx: &mut Tx<'_, '_>, id: ApprovalId, body_id: BodyId, body: Body, kept: bool) -> Result<()> {
    recall::let_go(tx, id, body_id, &body)?;
    tx.db.held_messages.delete(tx, &HeldKey { approval: id, body: body_id })?;
    let bytes = tx.db.held_messages_by_body.get(tx, &Owned { owner: body_id, id })?.unwrap_or(0);
    tx.db.held_messages_by_body.delete(tx, &Owned { owner: body_id, id })?;
    held_bytes::count_held(tx.db, tx, &body, |held| held.saturating_sub(bytes))?;
    if kept {
        return Ok(());
    }
    let unneeded = messages::remove_files(tx, body_id, body, Removed::Body)?;
    if !unneeded.is_empty() {
        tx.effects.push(Effect::Unneeded(unneeded));
    }
    Ok(())
}

/// An unknown sender.
pub(crate) struct Stranger<'a> {
    /// The chat of their message.
    pub(crate) chat: ChatId,
    pub(crate) sender: &'a UserId,
    /// Their display name.
    pub(crate) name: Option<&'a str>,
    /// Agents that would have received the message.
    pub(crate) agents: &'a [AgentId],
}

/// The open approval of an unknown sender, if it can hold one more message. Created if there is none.
pub(crate) fn admit(tx: &mut Tx<'_, '_>, stranger: Stranger<'_>) -> Result<std::result::Result<Waits, Reason>> {
    let Stranger { chat, sender, name, agents } = stranger;
    let key = SenderKey { chat, sender: PersonKey::of(sender) };
    let Some(id) = tx.db.approvals_by_sender.get(tx, &key)? else {
        let open = tx.db.approvals_by_sender.collect_prefix(tx, &chat, tx.policy.approvals_per_chat)?.len();
        if open >= tx.policy.approvals_per_chat {
            return Ok(Err(Reason::ApprovalsFull));
        }
        let (sender, name, agents) = (sender.clone(), name.map(str::to_owned), agents.to_vec());
        let asked = ask::ask(tx, ApprovalSubject::Sender { chat, sender, name, agents })?;
        return Ok(asked.map(|approval| Waits { approval, is_new: true }));
    };
    if count(tx, id, tx.policy.held_max)? >= tx.policy.held_max {
        return Ok(Err(Reason::HeldFull));
    }
    let known = tx.db.approvals.require(tx, &id)?;
    if let ApprovalSubject::Sender { agents: asking, .. } = &known.about
        && agents.iter().any(|agent| !asking.contains(agent))
    {
        let approval = approvals::update(tx, id, |approval| add_agents(approval, agents))?;
        // The approver must see all agents that the approval covers.
        if approval.card.is_some() {
            send::show_again(tx, id)?;
        }
    }
    Ok(Ok(Waits { approval: id, is_new: false }))
}

fn add_agents(approval: &mut Approval, more: &[AgentId]) {
    if let ApprovalSubject::Sender { agents, .. } = &mut approval.about {
        let new: Vec<AgentId> = more.iter().copied().filter(|agent| !agents.contains(agent)).collect();
        agents.extend(new);
    }
}

/// What the approval of an unknown sender is about.
pub(crate) struct About {
    pub(crate) chat: ChatId,
    pub(crate) sender: UserId,
    pub(crate) name: Option<String>,
    pub(crate) agents: Vec<AgentId>,
}

pub(crate) fn about(approval: &Approval) -> Option<About> {
    match approval.about.clone() {
        ApprovalSubject::Sender { chat, sender, name, agents } => Some(About { chat, sender, name, agents }),
        _ => None,
    }
}
