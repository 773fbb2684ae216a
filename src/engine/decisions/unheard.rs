//! Messages that address the bot in a chat without an agent.

use crate::approvals::ask::Waits;
use crate::approvals::{approvers, ask, texts};
use crate::model::approval::{ApprovalState, ApprovalSubject};
use crate::model::channel::UnknownChats;
use crate::model::entity::Chat;
use crate::model::id::ChatId;
use crate::model::input::InboundEvent;
use crate::model::message::Reason;
use crate::routing::held;
use crate::rows::people;
use crate::state::Owned;
use crate::tx::Tx;
use crate::{Result, decisions, rows};

/// The outcome for a message that addresses the bot in a chat without an agent.
pub(crate) enum Unheard {
    /// An agent is wired to the chat now.
    Wired,
    /// The message waits for an approval.
    Held(Waits),
    /// The message is dropped.
    Dropped(Reason),
}

/// Asks an owner which agent should listen in a chat. If there is only one agent and an owner sent the message, the
/// agent is wired without asking. While the approval is open, each new message replaces the one before.
pub(crate) fn unheard(tx: &mut Tx<'_, '_>, event: &InboundEvent, chat_id: ChatId, chat: &Chat) -> Result<Unheard> {
    let agents = texts::living_agents(tx)?;
    let sender = people::sender_of(event);
    match (agents.as_slice(), &sender) {
        ([], _) => return Ok(Unheard::Dropped(Reason::NoAgentWired)),
        ([(only, _)], Some(user)) if approvers::rules(tx, user)? => {
            let threaded = decisions::channels::is_threaded(tx, chat, event.threads, event.source.thread.is_some())?;
            decisions::channels::wire(tx, chat_id, *only, decisions::channels::decide_engage(chat.group, threaded))?;
            if let Some(id) = tx.db.approvals_by_chat.get(tx, &chat_id)? {
                decisions::channels::reconsider(tx, id, chat_id)?;
            }
            return Ok(Unheard::Wired);
        }
        _ => {}
    }
    if ignores(tx, event)? {
        return Ok(Unheard::Dropped(Reason::NoAgentWired));
    }
    if let Some(id) = tx.db.approvals_by_chat.get(tx, &chat_id)? {
        // The card keeps naming the first sender: approving it lets no other sender in.
        held::drop_all(tx, id, chat_id, Reason::Superseded)?;
        return Ok(Unheard::Held(Waits { approval: id, is_new: false }));
    }
    if was_ignored(tx, chat_id)? {
        return Ok(Unheard::Dropped(Reason::Rejected));
    }
    let name = event.content.sender_name.clone();
    Ok(match ask::ask(tx, ApprovalSubject::Channel { chat: chat_id, sender, name })? {
        Ok(approval) => Unheard::Held(Waits { approval, is_new: true }),
        Err(reason) => Unheard::Dropped(reason),
    })
}

/// Whether messages in unknown chats of this channel are dropped without asking. Messages of owners and global
/// administrators are never dropped this way.
pub(crate) fn ignores(tx: &Tx<'_, '_>, event: &InboundEvent) -> Result<bool> {
    let channel = rows::channels::row(tx, &event.source.channel)?;
    if channel.is_none_or(|channel| channel.unknown_chats == UnknownChats::Ask) {
        return Ok(false);
    }
    Ok(match people::sender_of(event) {
        Some(user) => !approvers::rules(tx, &user)?,
        None => true,
    })
}

/// Whether a card about the chat was recently answered with no. It is asked about again later.
fn was_ignored(tx: &Tx<'_, '_>, chat: ChatId) -> Result<bool> {
    let Some((Owned { id: newest, .. }, ())) = tx.db.approvals_of_chat.last_in(tx, &chat)? else { return Ok(false) };
    let approval = tx.db.approvals.require(tx, &newest)?;
    let ignored = matches!(approval.state, ApprovalState::Rejected { .. });
    Ok(ignored && tx.now.wall < approval.created.plus(tx.policy.channel_card_again))
}
