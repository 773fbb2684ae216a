//! Routes held messages after a decision, or drops them with a reason.

use crate::model::approval::Held;
use crate::model::id::{AgentId, BodyId, ChatId};
use crate::model::input::InboundEvent;
use crate::model::message::{Body, Reason};
use crate::routing::seen::{EventKey, SeenOutcome};
use crate::routing::{FanOut, threads};
use crate::rows::chats;
use crate::tx::Tx;
use crate::{Result, routing};

/// A held message.
pub(crate) struct Waiting<'a> {
    /// The chat it was sent in.
    pub(crate) chat: ChatId,
    pub(crate) body: (BodyId, &'a Body),
    pub(crate) held: &'a Held,
}

/// Offers a held message to some agents, or to all that listen, with its original time. Returns whether an agent
/// received it or it is held for another approval.
pub(crate) fn replay(tx: &mut Tx<'_, '_>, waiting: &Waiting<'_>, agents: Option<&[AgentId]>) -> Result<bool> {
    let Some(event) = event(waiting) else { return Ok(false) };
    let Some(chat) = tx.db.chats.get(tx, &waiting.chat)?.filter(|chat| chat.archived.is_none()) else {
        give_up(tx, waiting, None, Reason::ChatRemoved)?;
        return Ok(false);
    };
    let mut listeners = chats::listeners(tx, waiting.chat)?;
    listeners.retain(|(id, _, _)| agents.is_none_or(|agents| agents.contains(id)));
    let threads = threads::known(tx, &event)?;
    let mut fan_out = FanOut::of(&event, threads, waiting.body.1.sender.as_ref(), waiting.chat, &chat, None);
    fan_out.body = Some(waiting.body.0);
    let wirings = fan_out.offer_all(tx, &listeners)?;
    let end = fan_out.end(tx, &wirings)?;
    let kept = !end.messages.is_empty() || end.held.is_some();
    if let Some(event) = EventKey::of(&event) {
        event.revise(tx, end)?;
    }
    Ok(kept)
}

/// Records that a held message is dropped, for one agent or for all.
pub(crate) fn give_up(
    tx: &mut Tx<'_, '_>,
    waiting: &Waiting<'_>,
    agent: Option<AgentId>,
    reason: Reason,
) -> Result<()> {
    let Some(event) = event(waiting) else { return Ok(()) };
    routing::record_drop(tx, &event, Some(waiting.chat), agent, reason)?;
    match EventKey::of(&event) {
        Some(event) => event.revise(tx, SeenOutcome::refused(reason)),
        None => Ok(()),
    }
}

/// Rebuilds the event that a held message came from.
fn event(waiting: &Waiting<'_>) -> Option<InboundEvent> {
    let (body, held) = (waiting.body.1, waiting.held);
    Some(InboundEvent {
        source: body.source.clone()?,
        platform_message: body.platform_message.clone(),
        kind: body.kind,
        content: body.content.clone(),
        said: Some(body.said),
        mention: held.mention,
        group: held.group,
        reply_to: held.reply_to.clone(),
        threads: held.threads,
        cursors: Vec::new(),
        chat_name: None,
        attachments: body.attachments.clone(),
    })
}
