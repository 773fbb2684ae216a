//! Decides whether an agent engages with a message.

use crate::Result;
use crate::model::address::UserId;
use crate::model::entity::{Chat, Engage, Wiring};
use crate::model::id::AgentId;
use crate::model::input::InboundEvent;
use crate::routing::threads;
use crate::rows::people;
use crate::rules::engage;
use crate::rules::engage::{EngageDecision, EngageFacts};
use crate::tx::Tx;

/// A message on its way to a wiring.
#[derive(Clone, Copy)]
pub(crate) struct InboundContext<'a> {
    /// The event. Its source has no thread if its channel has none.
    pub(crate) event: &'a InboundEvent,
    /// The chat it was sent in.
    pub(crate) chat: &'a Chat,
    pub(crate) sender: Option<&'a UserId>,
    /// Whether its channel has threads, if known.
    pub(crate) threads: Option<bool>,
}

/// Collects the facts for the decision, and decides.
pub(crate) fn weigh(
    tx: &Tx<'_, '_>,
    heard: InboundContext<'_>,
    agent: AgentId,
    wiring: &Wiring,
) -> Result<EngageDecision> {
    let (event, source) = (heard.event, &heard.event.source);
    let may_stick = wiring.engage == Engage::MentionSticky && heard.chat.group && !event.mention;
    let facts = EngageFacts {
        text: &event.content.text,
        kind: event.kind,
        mention: event.mention,
        sticky: may_stick && threads::sticks(tx, agent, source)?,
        muted: threads::is_muted(tx, agent, source)?,
        unknown_senders: heard.chat.unknown_senders,
        standing: people::standing(tx, heard.sender, agent)?,
    };
    Ok(engage::decide(wiring, &facts, tx.cx.patterns))
}
