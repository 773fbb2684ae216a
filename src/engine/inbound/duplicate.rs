//! Events that arrive more than once.

use crate::lifecycle::dispatch::DueMessage;
use crate::lifecycle::mailbox_view::SessionRef;
use crate::lifecycle::{dispatch, mailbox_view};
use crate::model::id::{ChatId, MessageId};
use crate::model::input::InboundEvent;
use crate::model::journal::Event;
use crate::model::message::{MessageState, Reason, Seen};
use crate::model::report::{Decision, Outcome, Reply, RouteReport, WiringReport};
use crate::routing::weigh::InboundContext;
use crate::routing::{threads, weigh};
use crate::rows::{chats, journal, messages, people, session_files, sessions};
use crate::state::WiringKey;
use crate::tx::Tx;
use crate::{Result, routing};

/// Handles a repeated event. Nothing changes, except that a context message that engages now is raised to a trigger.
pub(crate) fn repeat(tx: &mut Tx<'_, '_>, event: &InboundEvent, threads: Option<bool>, seen: &Seen) -> Result<Reply> {
    let chat = chats::find(tx, &event.source.channel, &event.source.platform_id)?;
    let chat_id = chat.as_ref().map(|(id, _)| *id);
    let mut wirings = Vec::new();
    let sender = people::sender_of(event);
    if let Some((chat_id, chat)) = &chat {
        let heard = InboundContext { event, chat, sender: sender.as_ref(), threads };
        for message in &seen.messages {
            wirings.extend(look_again(tx, *chat_id, heard, *message)?);
        }
    }
    let reason = Some(seen.refused.unwrap_or(Reason::AlreadyStored));
    let report = RouteReport { outcome: Outcome::Duplicate, reason, wirings, ..routing::blank(event, chat_id) };
    Ok(Reply::Routed(report))
}

fn look_again(
    tx: &mut Tx<'_, '_>,
    chat_id: ChatId,
    heard: InboundContext<'_>,
    id: MessageId,
) -> Result<Option<WiringReport>> {
    let Some(message) = tx.db.messages.get(tx, &id)? else { return Ok(None) };
    let Some(agent) = tx.db.agents.get(tx, &message.agent)? else { return Ok(None) };
    let mut report = WiringReport {
        agent: agent.folder.clone(),
        session: Some(message.session),
        decision: if message.trigger { Decision::Engaged } else { Decision::Accumulated },
        why: Reason::AlreadyStored,
        message: Some(id),
    };
    let waits = !message.trigger && matches!(message.state, MessageState::Pending(_));
    let wiring = tx.db.wirings.get(tx, &WiringKey { chat: chat_id, agent: message.agent })?;
    let (Some(wiring), true) = (wiring, waits) else { return Ok(Some(report)) };
    if weigh::weigh(tx, heard, message.agent, &wiring)?.decision == Decision::Engaged {
        messages::update(tx, id, |message| message.trigger = true)?;
        journal::of_message(tx, id, Event::Raised)?;
        // The agent may have it as context already. Files are immutable, so the old one is removed first.
        session_files::discard(tx, message.session, vec![message.seq], Vec::new())?;
        let awaited = messages::is_awaited(tx, id)?;
        if let Some(session) = sessions::load(tx, message.session)?.filter(|_| !awaited) {
            let of = SessionRef { id: message.session, session: &session, agent: &agent };
            let message = mailbox_view::view(tx, id)?;
            dispatch::dispatch_visibly(tx, DueMessage { of, message, sender: None })?;
        }
        threads::engaged(tx, message.agent, &wiring, heard)?;
        (report.decision, report.why) = (Decision::Engaged, Reason::RaisedToTrigger);
    }
    Ok(Some(report))
}
