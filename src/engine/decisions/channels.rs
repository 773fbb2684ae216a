//! Approvals for chats without an agent in which the bot was addressed: an owner chooses the agent, and the newest
//! message is routed to it.

use crate::approvals::texts::{CONNECT, IGNORE, NEW_AGENT};
use crate::decisions::outcome::{Choice, DecisionReply};
use crate::decisions::{naming, outcome};
use crate::entities::change::ChangedAgents;
use crate::entities::{change, roles, wirings};
use crate::model::address::UserId;
use crate::model::approval::{Approval, ApprovalState, ApprovalSubject, Decider, Held};
use crate::model::configure::WiringSpec;
use crate::model::entity::{Chat, Engage, Ignored, Origin, SenderScope, SessionMode};
use crate::model::id::{AgentId, ApprovalId, ChatId};
use crate::model::message::Reason;
use crate::routing::held;
use crate::rows::{channels, chats, people};
use crate::rules::access::AccessLevel;
use crate::tx::Tx;
use crate::{Result, decisions};

/// Carries out a decision about a chat.
pub(crate) fn decided(tx: &mut Tx<'_, '_>, choice: Choice) -> Result<DecisionReply> {
    let ApprovalSubject::Channel { chat, .. } = choice.approval.about else {
        return Ok(Err("This is about no chat.".to_owned()));
    };
    let value = choice.option.value.clone();
    if value == IGNORE {
        // The rejection is not stored permanently: a later message asks again.
        let rejected = ApprovalState::Rejected { by: choice.by, at: tx.now.wall };
        outcome::finish(tx, choice.id, rejected, &choice.option.chosen)?;
        held::drop_all(tx, choice.id, chat, Reason::Rejected)?;
        return Ok(Ok(choice.option.chosen));
    }
    if value == NEW_AGENT {
        return naming::begin(tx, choice);
    }
    if let Some(name) = value.strip_prefix(NEW_AGENT).and_then(|rest| rest.strip_prefix(':')) {
        return naming::create(tx, choice.id, &choice.approval, name, choice.by);
    }
    match value.strip_prefix(CONNECT).and_then(|id| id.parse().ok()) {
        Some(agent) => {
            let said = choice.option.chosen.clone();
            connect(tx, choice.id, &choice.approval, agent, choice.by, said)
        }
        None => Ok(Err(format!("`{value}` is not an answer to this."))),
    }
}

/// Wires an agent to the chat, makes the sender named on the card a member, and routes the held message.
pub(crate) fn connect(
    tx: &mut Tx<'_, '_>,
    id: ApprovalId,
    approval: &Approval,
    agent: AgentId,
    by: Decider,
    said: String,
) -> Result<DecisionReply> {
    let ApprovalSubject::Channel { chat: chat_id, sender, name } = &approval.about else {
        return Ok(Err("This is about no chat.".to_owned()));
    };
    let chat = tx.db.chats.get(tx, chat_id)?.filter(|chat| chat.archived.is_none());
    let alive = tx.db.agents.get(tx, &agent)?.is_some_and(|agent| agent.archived.is_none());
    let (Some(chat), true) = (chat, alive) else {
        let why = if alive { "the chat was removed" } else { "the agent was removed" };
        return superseded(tx, id, why);
    };
    let threaded = match tx.db.held_messages.first_in(tx, &id)? {
        Some((key, held)) => threaded(tx, &chat, &held, tx.db.bodies.require(tx, &key.body)?.source)?,
        None => false,
    };
    wire(tx, *chat_id, agent, decide_engage(chat.group, threaded))?;
    if let Some(sender) = sender
        && people::standing(tx, Some(sender), agent)? == AccessLevel::Stranger
    {
        roles::let_in(tx, agent, sender, name.as_deref(), by_whom(&by))?;
    }
    let approved = ApprovalState::Approved { by, at: tx.now.wall };
    outcome::finish(tx, id, approved, &said)?;
    held::route_all(tx, id, *chat_id)?;
    if let Some(sender) = sender {
        decisions::reconsider::about(tx, sender)?;
    }
    Ok(Ok(said))
}

/// Whether the chat of the approval was removed.
pub(crate) fn is_gone(tx: &Tx<'_, '_>, approval: &Approval) -> Result<bool> {
    let ApprovalSubject::Channel { chat, .. } = &approval.about else { return Ok(true) };
    Ok(tx.db.chats.get(tx, chat)?.is_none_or(|chat| chat.archived.is_some()))
}

/// Ends an approval whose chat or agent is gone, and tells the person who decided.
pub(crate) fn superseded(tx: &mut Tx<'_, '_>, id: ApprovalId, why: &str) -> Result<DecisionReply> {
    outcome::supersede(tx, id, why)?;
    Ok(Err(format!("No longer needed: {why}.")))
}

const fn by_whom(by: &Decider) -> Option<&UserId> {
    match by {
        Decider::Person(user) => Some(user),
        Decider::Operator => None,
    }
}

/// Re-examines an open approval after a configuration change. It ends if the chat is removed or denied. If an agent
/// listens there now, the held message is routed to it.
pub(crate) fn reconsider(tx: &mut Tx<'_, '_>, id: ApprovalId, chat_id: ChatId) -> Result<()> {
    let chat = tx.db.chats.require(tx, &chat_id)?;
    if chat.archived.is_some() || chat.denied.is_some() {
        let why = if chat.archived.is_some() { "the chat was removed" } else { "the chat was denied" };
        return outcome::supersede(tx, id, why);
    }
    if chats::listeners(tx, chat_id)?.is_empty() {
        return Ok(());
    }
    outcome::not_needed(tx, id, "an agent listens there by now")?;
    held::route_all(tx, id, chat_id)
}

/// Wires an agent to a chat. The chat also becomes one of its destinations.
pub(crate) fn wire(tx: &mut Tx<'_, '_>, chat: ChatId, agent: AgentId, engage: Engage) -> Result<()> {
    let spec = WiringSpec {
        agent: tx.db.agents.require(tx, &agent)?.folder,
        engage,
        senders: SenderScope::Known,
        ignored: Ignored::Accumulate,
        session: SessionMode::Shared,
        priority: 0,
        context_from: None,
    };
    wirings::put(tx, chat, agent, &spec, Origin::Runtime)?;
    let mut after = ChangedAgents::default();
    after.changed.insert(agent);
    change::renew_contexts(tx, &mut after)
}

fn threaded(tx: &Tx<'_, '_>, chat: &Chat, held: &Held, source: Option<crate::model::address::Address>) -> Result<bool> {
    is_threaded(tx, chat, held.threads, source.is_some_and(|source| source.thread.is_some()))
}

/// Whether a message was sent in a thread. The adapter may say whether its threads count as such; otherwise the kind of
/// channel decides.
pub(crate) fn is_threaded(tx: &Tx<'_, '_>, chat: &Chat, says: Option<bool>, in_thread: bool) -> Result<bool> {
    let can = channels::capabilities(tx, &chat.channel)?.is_none_or(|can| can.threads);
    Ok(in_thread && says.unwrap_or(can))
}

/// The default engage mode. In a direct message: every message. In a thread: the thread, after a mention. Otherwise:
/// mentions only.
pub(crate) fn decide_engage(group: bool, threaded: bool) -> Engage {
    match (group, threaded) {
        (false, _) => Engage::Pattern(".".to_owned()),
        (true, true) => Engage::MentionSticky,
        (true, false) => Engage::Mention,
    }
}

#[cfg(test)]
mod tests {
    use crate::decisions::channels::*;

    /// NanoClaw treats every chat without threads as a direct message, so it engages on everything in plain groups.
    #[test]
    fn agents_listen_according_to_the_kind_of_chat() {
        for (group, threaded, engage) in [
            (false, false, Engage::Pattern(".".to_owned())),
            (false, true, Engage::Pattern(".".to_owned())),
            (true, true, Engage::MentionSticky),
            (true, false, Engage::Mention),
        ] {
            assert_eq!(decide_engage(group, threaded), engage, "{group} {threaded}");
        }
    }
}
