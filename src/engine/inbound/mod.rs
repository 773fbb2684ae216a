//! Inbound events: which agents receive them, which refuse them, and why.

use crate::decisions::unheard;
use crate::decisions::unheard::Unheard;
use crate::entities::wirings;
use crate::model::input::InboundEvent;
use crate::model::message::Reason;
use crate::model::report::{Outcome, Reply, RouteReport, WiringReport};
use crate::routing::seen::{EventKey, SeenOutcome};
use crate::routing::{FanOut, threads};
use crate::rows::{chats, people};
use crate::tx::Tx;
use crate::{Result, routing};
use std::borrow::Cow;

pub(crate) mod answer;
mod cards;
pub(crate) mod duplicate;
pub(crate) mod login;
pub(crate) mod pairing;

/// Routes an inbound message in one transaction: duplicate check, chat, sender, then each wiring on its own.
pub(crate) fn route(tx: &mut Tx<'_, '_>, event: &InboundEvent) -> Result<Reply> {
    let threads = threads::known(tx, event)?;
    let without_thread;
    let event = match (threads, &event.source.thread) {
        (Some(false), Some(_)) => {
            without_thread = threads::without(event);
            &without_thread
        }
        _ => event,
    };
    let remembered = EventKey::of(event);
    if let Some(seen) = remembered.as_ref().map(|event| event.find(tx)).transpose()?.flatten() {
        return duplicate::repeat(tx, event, threads, &seen);
    }
    if let Some(answered) = answer::answer(tx, event)? {
        return Ok(answered);
    }
    let known = chats::known(tx, &event.source.channel, &event.source.platform_id)?;
    let (chat_id, mut chat) = match &*known {
        Some((id, chat)) => (*id, Cow::Borrowed(chat)),
        None if event.mention && unheard::ignores(tx, event)? => {
            routing::record_drop(tx, event, None, None, Reason::NoAgentWired)?;
            if let Some(remembered) = remembered {
                remembered.remember(tx, SeenOutcome::refused(Reason::NoAgentWired))?;
            }
            return Ok(routing::silent(event, None, Reason::NoAgentWired));
        }
        None if event.mention => {
            let (id, chat) = chats::discover(tx, &event.source, event.group)?;
            (id, Cow::Owned(chat))
        }
        // Unknown senders in chats that the bot only sits in leave no rows.
        None => return Ok(routing::silent(event, None, Reason::UnknownChat)),
    };
    wirings::refresh(tx, chat_id, &mut chat, event)?;
    let sender = people::sender_of(event);
    let mut fan_out = FanOut::of(event, threads, sender.as_ref(), chat_id, &chat, remembered);
    let mut listeners = chats::listening(tx, chat_id)?;
    if listeners.is_empty() {
        if let Some(done) = nobody_listens(tx, &mut fan_out)? {
            return Ok(done);
        }
        listeners = chats::listening(tx, chat_id)?;
    }
    people::refresh_name(tx, sender.as_ref(), event.content.sender_name.as_deref())?;
    let wirings = fan_out.offer_all(tx, &listeners)?;
    conclude(tx, fan_out, wirings)
}

/// Handles a message in a chat without an agent. If it addresses the bot, an owner is asked to choose an agent, unless
/// the chat is denied. Otherwise it is dropped silently. Returns `None` if an agent is wired to the chat now.
fn nobody_listens(tx: &mut Tx<'_, '_>, fan_out: &mut FanOut<'_>) -> Result<Option<Reply>> {
    let (event, chat) = (fan_out.event, Some(fan_out.chat_id));
    if fan_out.chat.denied.is_some() {
        return Ok(Some(routing::silent(event, chat, Reason::ChatDenied)));
    }
    if !event.mention {
        return Ok(Some(routing::silent(event, chat, Reason::NoAgentWired)));
    }
    match unheard::unheard(tx, event, fan_out.chat_id, fan_out.chat)? {
        Unheard::Wired => Ok(None),
        Unheard::Held(waits) => {
            fan_out.hold(tx, waits, Vec::new(), false)?;
            fan_out.remember(tx, SeenOutcome { held: fan_out.held, ..SeenOutcome::refused(Reason::ChannelHeld) })?;
            let report = RouteReport {
                outcome: Outcome::Held,
                reason: Some(Reason::ChannelHeld),
                ..routing::blank(event, chat)
            };
            Ok(Some(Reply::Routed(report)))
        }
        Unheard::Dropped(reason) => {
            routing::record_drop(tx, event, chat, None, reason)?;
            fan_out.remember(tx, SeenOutcome::refused(reason))?;
            Ok(Some(routing::silent(event, chat, reason)))
        }
    }
}

/// Combines the decisions of the wirings and remembers the event.
fn conclude(tx: &mut Tx<'_, '_>, fan_out: FanOut<'_>, wirings: Vec<WiringReport>) -> Result<Reply> {
    let end = fan_out.end(tx, &wirings)?;
    let outcome = match (end.refused, end.held) {
        (None, _) => Outcome::Routed,
        (Some(_), Some(_)) => Outcome::Held,
        (Some(Reason::OwnCommand), None) => Outcome::Consumed,
        (Some(_), None) => Outcome::Dropped,
    };
    let answer = fan_out.answer.map(|answer| tx.db.outgoing(tx, answer)).transpose()?;
    let report = RouteReport {
        outcome,
        reason: end.refused,
        wirings,
        answer,
        ..routing::blank(fan_out.event, Some(fan_out.chat_id))
    };
    if let Some(event) = fan_out.remembered {
        event.remember(tx, end)?;
    }
    Ok(Reply::Routed(report))
}
