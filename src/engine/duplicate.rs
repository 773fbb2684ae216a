//! The same event again.

use super::engage::{Heard, weigh};
use super::{Applied, Cx, Result, chats, journal, messages, route, threads, wake};
use crate::model::address::ForeignId;
use crate::model::effect::{Discard, Effect};
use crate::model::id::{ChatId, MessageId};
use crate::model::input::InboundEvent;
use crate::model::journal::Event;
use crate::model::message::{MessageState, Reason, Seen};
use crate::model::report::{Decision, Outcome, Reply, RouteReport, WiringReport};
use crate::state::{ForeignKey, Write};

/// What is remembered of an event; events without an id are never duplicates.
pub(super) fn find(cx: &Cx<'_>, txn: &Write<'_>, event: &InboundEvent) -> Result<Option<Seen>> {
    let Some(id) = &event.platform_message else { return Ok(None) };
    let seen = cx.db.seen.get(txn, &key(event, id))?;
    Ok(seen.filter(|seen| seen.platform_message == *id))
}

/// Under which key an event is remembered.
pub(super) fn key(event: &InboundEvent, id: &ForeignId) -> (ForeignKey, ForeignKey, ForeignKey) {
    let (channel, chat) = ForeignKey::chat(&event.source.channel, &event.source.platform_id);
    (channel, chat, ForeignKey::of(id))
}

/// Changes nothing, except that a context message which engages now becomes one that asks for a turn.
pub(super) fn repeat(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (event, threads): (&InboundEvent, Option<bool>),
    seen: &Seen,
) -> Result<Applied> {
    let chat = chats::find(cx, txn, &event.source.channel, &event.source.platform_id)?;
    let chat_id = chat.as_ref().map(|(id, _)| *id);
    let mut effects = Vec::new();
    let mut wirings = Vec::new();
    let sender = route::sender_of(event);
    if let Some((chat_id, chat)) = &chat {
        let heard = Heard { event, chat, sender: sender.as_ref(), threads };
        for message in &seen.messages {
            wirings.extend(look_again(cx, txn, (*chat_id, heard), *message, &mut effects)?);
        }
    }
    let reason = Some(seen.refused.unwrap_or(Reason::AlreadyStored));
    let report = RouteReport { outcome: Outcome::Duplicate, reason, wirings, ..route::blank(event, chat_id) };
    Ok(Applied::new(Reply::Routed(report), effects))
}

fn look_again(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (chat_id, heard): (ChatId, Heard<'_>),
    id: MessageId,
    effects: &mut Vec<Effect>,
) -> Result<Option<WiringReport>> {
    let Some(message) = cx.db.messages.get(txn, &id)? else { return Ok(None) };
    let Some(agent) = cx.db.agents.get(txn, &message.agent)? else { return Ok(None) };
    let mut report = WiringReport {
        agent: agent.folder,
        session: Some(message.session),
        decision: if message.trigger { Decision::Engaged } else { Decision::Accumulated },
        why: Reason::AlreadyStored,
        message: Some(id),
    };
    let waits = !message.trigger && matches!(message.state, MessageState::Pending(_));
    let wiring = cx.db.wirings.get(txn, &(chat_id, message.agent))?;
    let (Some(wiring), true) = (wiring, waits) else { return Ok(Some(report)) };
    if weigh(cx, txn, heard, (message.agent, &wiring))?.decision == Decision::Engaged {
        messages::update(cx, txn, id, |message| message.trigger = true)?;
        journal::of_message(cx, txn, id, Event::Raised)?;
        // The agent may have it as context already; files are immutable, so the old one goes first.
        effects.push(Effect::Discard(Discard {
            session: message.session,
            seqs: vec![message.seq],
            agent_files: vec![],
        }));
        wake::wake_visibly(cx, txn, (message.session, message.seq, id), message.reply, effects)?;
        threads::engaged(cx, txn, (message.agent, &wiring), heard, effects)?;
        (report.decision, report.why) = (Decision::Engaged, Reason::RaisedToTrigger);
    }
    Ok(Some(report))
}
