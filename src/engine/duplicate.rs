//! The same event again.

use super::engage::{Heard, weigh};
use super::export::Of;
use super::wake::Arrival;
use super::{Applied, Cx, Result, chats, export, journal, messages, route, sessions, threads, wake};
use crate::model::address::ForeignId;
use crate::model::effect::{Discard, Effect};
use crate::model::id::{ApprovalId, ChatId, MessageId};
use crate::model::input::InboundEvent;
use crate::model::journal::Event;
use crate::model::message::{MessageState, Reason, Seen};
use crate::model::report::{Decision, Outcome, Reply, RouteReport, WiringReport};
use crate::state::{ForeignKey, Write};

/// An event that can be remembered, and the key for that. Events without an id are never duplicates.
pub(super) struct Remembered<'a> {
    id: &'a ForeignId,
    key: (ForeignKey, ForeignKey, ForeignKey),
}

impl<'a> Remembered<'a> {
    /// Of an event.
    pub(super) fn of(event: &'a InboundEvent) -> Option<Self> {
        let id = event.platform_message.as_ref()?;
        let (channel, chat) = ForeignKey::chat(&event.source.channel, &event.source.platform_id);
        Some(Self { id, key: (channel, chat, ForeignKey::of(id)) })
    }

    /// What is remembered of it.
    pub(super) fn find(&self, cx: &Cx<'_>, txn: &Write<'_>) -> Result<Option<Seen>> {
        let seen = cx.db.seen.get(txn, &self.key)?;
        Ok(seen.filter(|seen| seen.platform_message == *self.id))
    }

    /// Remembers what became of it.
    pub(super) fn remember(self, cx: &Cx<'_>, txn: &mut Write<'_>, end: End) -> Result<()> {
        let at = cx.now.wall;
        let End { messages, refused, held } = end;
        cx.db.seen.put(txn, &self.key, &Seen { platform_message: self.id.clone(), at, messages, refused, held })?;
        let (channel, chat, message) = self.key;
        cx.db.seen_by_time.put(txn, &(at, channel, chat, message), &())
    }

    /// Remembers what became of it in the end, after it had waited.
    pub(super) fn revise(&self, cx: &Cx<'_>, txn: &mut Write<'_>, end: End) -> Result<()> {
        let Some(mut seen) = self.find(cx, txn)? else { return Ok(()) };
        seen.messages.extend(end.messages);
        seen.refused = if seen.messages.is_empty() { end.refused.or(seen.refused) } else { None };
        seen.held = end.held.or(seen.held);
        cx.db.seen.put(txn, &self.key, &seen)
    }
}

/// What became of an event.
pub(super) struct End {
    /// The messages it became.
    pub(super) messages: Vec<MessageId>,
    /// Why it became none.
    pub(super) refused: Option<Reason>,
    /// The decision it waits for.
    pub(super) held: Option<ApprovalId>,
}

impl End {
    /// Of an event that nobody has.
    pub(super) const fn refused(reason: Reason) -> Self {
        Self { messages: Vec::new(), refused: Some(reason), held: None }
    }
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
        agent: agent.folder.clone(),
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
        if let Some(session) = sessions::load(cx, txn, message.session)? {
            let of = Of { id: message.session, session: &session, agent: &agent };
            let message = export::view(cx, txn, id)?;
            wake::wake_visibly(cx, txn, Arrival { of, message }, effects)?;
        }
        threads::engaged(cx, txn, (message.agent, &wiring), heard, effects)?;
        (report.decision, report.why) = (Decision::Engaged, Reason::RaisedToTrigger);
    }
    Ok(Some(report))
}
