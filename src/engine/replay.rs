//! Messages that waited for a decision: routed like any other once it was made, or dropped with the reason.

use super::duplicate::{End, Remembered};
use super::route::{FanOut, record_drop};
use super::{Cx, Result, chats, threads};
use crate::model::approval::Held;
use crate::model::effect::Effect;
use crate::model::id::{AgentId, BodyId, ChatId};
use crate::model::input::InboundEvent;
use crate::model::message::{Body, Reason};
use crate::state::Write;

/// A message that waits.
pub(super) struct Waiting<'a> {
    /// Chat it was said in.
    pub(super) chat: ChatId,
    /// What it says.
    pub(super) body: (BodyId, &'a Body),
    /// Its row.
    pub(super) held: &'a Held,
}

/// Offers a message to agents, or to everybody who listens, with the time at which it was said. Tells whether anybody has
/// it or still waits for another decision about it.
pub(super) fn replay(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    waiting: &Waiting<'_>,
    agents: Option<&[AgentId]>,
    effects: &mut Vec<Effect>,
) -> Result<bool> {
    let Some(event) = event(waiting) else { return Ok(false) };
    let Some(chat) = cx.db.chats.get(txn, &waiting.chat)?.filter(|chat| chat.archived.is_none()) else {
        give_up(cx, txn, waiting, (None, Reason::ChatRemoved))?;
        return Ok(false);
    };
    let mut listeners = chats::listeners(cx, txn, waiting.chat)?;
    listeners.retain(|(id, _, _)| agents.is_none_or(|agents| agents.contains(id)));
    let threads = threads::known(cx, txn, &event)?;
    let mut fan_out = FanOut::of((&event, threads), waiting.body.1.sender.as_ref(), (waiting.chat, &chat), None);
    fan_out.body = Some(waiting.body.0);
    let wirings = fan_out.offer_all(cx, txn, &listeners)?;
    let end = fan_out.end(cx, txn, &wirings)?;
    effects.append(&mut fan_out.effects);
    let kept = !end.messages.is_empty() || end.held.is_some();
    if let Some(event) = Remembered::of(&event) {
        event.revise(cx, txn, end)?;
    }
    Ok(kept)
}

/// Records that a message which waited is dropped: for one agent, or for all.
pub(super) fn give_up(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    waiting: &Waiting<'_>,
    (agent, reason): (Option<AgentId>, Reason),
) -> Result<()> {
    let Some(event) = event(waiting) else { return Ok(()) };
    record_drop(cx, txn, &event, Some(waiting.chat), (agent, reason))?;
    match Remembered::of(&event) {
        Some(event) => event.revise(cx, txn, End::refused(reason)),
        None => Ok(()),
    }
}

/// The event that a message came from.
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
        chat_name: None,
        attachments: body.attachments.clone(),
    })
}
