//! Chats in which the bot is addressed and nobody listens: an owner says who is to listen, and the newest message goes
//! there.

use super::outcome::{self, Choice, Told};
use super::texts::{CONNECT, IGNORE, NEW_AGENT, living_agents};
use super::{approvers, ask, held, naming};
use crate::engine::access::{Standing, standing};
use crate::engine::configure::Aftermath;
use crate::engine::route::sender_of;
use crate::engine::{Cx, Result, agents, channels, chats, rights, wirings};
use crate::model::address::UserId;
use crate::model::approval::{Approval, ApprovalState, Decider, Held, Matters};
use crate::model::configure::WiringSpec;
use crate::model::effect::Effect;
use crate::model::entity::{Chat, Engage, Ignored, Origin, SenderScope, SessionMode};
use crate::model::id::{AgentId, ApprovalId, ChatId};
use crate::model::input::InboundEvent;
use crate::model::message::Reason;
use crate::state::Write;

/// Approvals that are looked through for one about the same chat; there are not as many within an hour.
const LOOK_BACK: u64 = 200;

/// What becomes of a message that was addressed to the bot where nobody listens.
pub(in crate::engine) enum Unheard {
    /// Somebody listens from now on.
    Wired,
    /// It waits for a decision.
    Held(ApprovalId),
    /// Nobody has it.
    Dropped(Reason),
}

/// Has an owner asked who is to listen in a chat. What an owner says themselves where there is only one agent needs no
/// question. While somebody is asked, the newest message takes the place of the one before.
pub(in crate::engine) fn unheard(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    event: &InboundEvent,
    (chat_id, chat): (ChatId, &Chat),
    effects: &mut Vec<Effect>,
) -> Result<Unheard> {
    let agents = living_agents(cx, txn)?;
    let sender = sender_of(event);
    match (agents.as_slice(), &sender) {
        ([], _) => return Ok(Unheard::Dropped(Reason::NoAgentWired)),
        ([(only, _)], Some(user)) if approvers::rules(cx, txn, user)? => {
            let threaded = is_threaded(cx, txn, chat, (event.threads, event.source.thread.is_some()))?;
            wire(cx, txn, (chat_id, *only), decide_engage(chat.group, threaded), effects)?;
            if let Some(id) = cx.db.approvals_by_chat.get(txn, &chat_id)? {
                reconsider(cx, txn, (id, chat_id), effects)?;
            }
            return Ok(Unheard::Wired);
        }
        _ => {}
    }
    if let Some(id) = cx.db.approvals_by_chat.get(txn, &chat_id)? {
        // The card goes on naming whom it named: an answer to it lets nobody else in.
        held::drop_all(cx, txn, (id, chat_id), Reason::Superseded, effects)?;
        return Ok(Unheard::Held(id));
    }
    if was_ignored(cx, txn, chat_id)? {
        return Ok(Unheard::Dropped(Reason::Rejected));
    }
    let name = event.content.sender_name.clone();
    Ok(match ask::ask(cx, txn, Matters::Channel { chat: chat_id, sender, name }, effects)? {
        Ok(id) => Unheard::Held(id),
        Err(reason) => Unheard::Dropped(reason),
    })
}

/// Whether a card about the chat was answered with no not long ago: it is asked about again, but not at once.
fn was_ignored(cx: &Cx<'_>, txn: &Write<'_>, chat: ChatId) -> Result<bool> {
    let last = cx.db.approvals.last(txn, ..)?.map_or(0, |(last, _)| last.number());
    let from = ApprovalId::new(last.saturating_sub(LOOK_BACK));
    for row in cx.db.approvals.range(txn, from..)? {
        let (_, approval) = row?;
        let same = matches!(approval.about, Matters::Channel { chat: asked, .. } if asked == chat);
        let ignored = matches!(approval.state, ApprovalState::Rejected { .. });
        if same && ignored && cx.now.wall < approval.created.plus(cx.policy.channel_card_again) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Carries out what somebody decided about a chat.
pub(super) fn decided(cx: &Cx<'_>, txn: &mut Write<'_>, choice: Choice, effects: &mut Vec<Effect>) -> Result<Told> {
    let Matters::Channel { chat, .. } = choice.approval.about else {
        return Ok(Err("This is about no chat.".to_owned()));
    };
    let value = choice.option.value.clone();
    if value == IGNORE {
        // Nothing of it is kept: a later message asks again.
        let rejected = ApprovalState::Rejected { by: choice.by, at: cx.now.wall };
        outcome::finish(cx, txn, choice.id, (rejected, &choice.option.chosen), effects)?;
        held::drop_all(cx, txn, (choice.id, chat), Reason::Rejected, effects)?;
        return Ok(Ok(choice.option.chosen));
    }
    if value == NEW_AGENT {
        return naming::begin(cx, txn, choice, effects);
    }
    if let Some(name) = value.strip_prefix(NEW_AGENT).and_then(|rest| rest.strip_prefix(':')) {
        return naming::create(cx, txn, (choice.id, &choice.approval), (name, choice.by), effects);
    }
    match value.strip_prefix(CONNECT).and_then(|id| id.parse().ok()) {
        Some(agent) => {
            let said = choice.option.chosen.clone();
            connect(cx, txn, (choice.id, &choice.approval), (agent, choice.by, said), effects)
        }
        None => Ok(Err(format!("`{value}` is not an answer to this."))),
    }
}

/// Makes an agent listen in the chat, lets whom the card names talk to it, and routes what waits.
pub(super) fn connect(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, approval): (ApprovalId, &Approval),
    (agent, by, said): (AgentId, Decider, String),
    effects: &mut Vec<Effect>,
) -> Result<Told> {
    let Matters::Channel { chat: chat_id, sender, name } = &approval.about else {
        return Ok(Err("This is about no chat.".to_owned()));
    };
    let chat = cx.db.chats.get(txn, chat_id)?.filter(|chat| chat.archived.is_none());
    let alive = cx.db.agents.get(txn, &agent)?.is_some_and(|agent| agent.archived.is_none());
    let (Some(chat), true) = (chat, alive) else {
        let why = if alive { "the chat was removed" } else { "the agent was removed" };
        return superseded(cx, txn, id, why, effects);
    };
    let threaded = match cx.db.held.first_in(txn, &id)? {
        Some(((_, body), held)) => threaded(cx, txn, &chat, (&held, cx.db.bodies.require(txn, &body)?.source))?,
        None => false,
    };
    wire(cx, txn, (*chat_id, agent), decide_engage(chat.group, threaded), effects)?;
    if let Some(sender) = sender
        && standing(cx, txn, Some(sender), agent)? == Standing::Stranger
    {
        rights::let_in(cx, txn, agent, (sender, name.as_deref()), by_whom(&by))?;
    }
    let approved = ApprovalState::Approved { by, at: cx.now.wall };
    outcome::finish(cx, txn, id, (approved, &said), effects)?;
    held::route_all(cx, txn, (id, *chat_id), effects)?;
    Ok(Ok(said))
}

/// Whether the chat that is asked about is not there any more.
pub(super) fn is_gone(cx: &Cx<'_>, txn: &Write<'_>, approval: &Approval) -> Result<bool> {
    let Matters::Channel { chat, .. } = &approval.about else { return Ok(true) };
    Ok(cx.db.chats.get(txn, chat)?.is_none_or(|chat| chat.archived.is_some()))
}

/// The decision came too late for what it was about.
pub(super) fn superseded(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    id: ApprovalId,
    why: &str,
    effects: &mut Vec<Effect>,
) -> Result<Told> {
    outcome::supersede(cx, txn, id, why, effects)?;
    Ok(Err(format!("Not needed any more: {why}.")))
}

const fn by_whom(by: &Decider) -> Option<&UserId> {
    match by {
        Decider::Person(user) => Some(user),
        Decider::Operator => None,
    }
}

/// Looks at an open approval after something was configured: a chat that is gone or denied is asked about no more, and
/// where somebody listens by now the message that waited goes there.
pub(super) fn reconsider(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (id, chat_id): (ApprovalId, ChatId),
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let chat = cx.db.chats.require(txn, &chat_id)?;
    if chat.archived.is_some() || chat.denied.is_some() {
        let why = if chat.archived.is_some() { "the chat was removed" } else { "the chat was denied" };
        return outcome::supersede(cx, txn, id, why, effects);
    }
    if chats::listeners(cx, txn, chat_id)?.is_empty() {
        return Ok(());
    }
    outcome::not_needed(cx, txn, id, "an agent listens there by now", effects)?;
    held::route_all(cx, txn, (id, chat_id), effects)
}

/// Makes an agent listen in a chat; it can write there from now on.
fn wire(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (chat, agent): (ChatId, AgentId),
    engage: Engage,
    effects: &mut Vec<Effect>,
) -> Result<()> {
    let spec = WiringSpec {
        agent: cx.db.agents.require(txn, &agent)?.folder,
        engage,
        senders: SenderScope::Known,
        ignored: Ignored::Accumulate,
        session: SessionMode::Shared,
        priority: 0,
    };
    wirings::put(cx, txn, (chat, agent), &spec, Origin::Runtime)?;
    let mut after = Aftermath::default();
    after.changed.insert(agent);
    agents::renew_contexts(cx, txn, &mut after)?;
    effects.append(&mut after.effects);
    Ok(())
}

fn threaded(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    chat: &Chat,
    (held, source): (&Held, Option<crate::model::address::Address>),
) -> Result<bool> {
    is_threaded(cx, txn, chat, (held.threads, source.is_some_and(|source| source.thread.is_some())))
}

/// Whether what was said in a chat was said in a thread: its adapter says whether its threads are any, or else its kind.
fn is_threaded(cx: &Cx<'_>, txn: &Write<'_>, chat: &Chat, (says, in_thread): (Option<bool>, bool)) -> Result<bool> {
    let can = channels::capabilities(cx, txn, &chat.channel)?.is_none_or(|can| can.threads);
    Ok(in_thread && says.unwrap_or(can))
}

/// When an agent listens by default: to everything in a direct message, in a thread where it was addressed, otherwise
/// only when it is addressed.
fn decide_engage(group: bool, threaded: bool) -> Engage {
    match (group, threaded) {
        (false, _) => Engage::Pattern(".".to_owned()),
        (true, true) => Engage::MentionSticky,
        (true, false) => Engage::Mention,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NanoClaw takes every chat without a thread for a direct message, so that plain groups are always listened to.
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
