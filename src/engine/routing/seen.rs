//! Detection of duplicate events.

use crate::Result;
use crate::model::address::ForeignId;
use crate::model::id::{ApprovalId, MessageId};
use crate::model::input::InboundEvent;
use crate::model::message::{Reason, Seen};
use crate::state::SeenKey;
use crate::tx::Tx;

/// An event that can be remembered, with its key. Events without an id are never duplicates.
pub(crate) struct EventKey<'a> {
    id: &'a ForeignId,
    key: SeenKey,
}

impl<'a> EventKey<'a> {
    /// The event's key; none without an id.
    pub(crate) fn of(event: &'a InboundEvent) -> Option<Self> {
        let id = event.platform_message.as_ref()?;
        Some(Self { id, key: SeenKey::of(&event.source, id) })
    }

    /// The remembered result of the event.
    pub(crate) fn find(&self, tx: &Tx<'_, '_>) -> Result<Option<Seen>> {
        let seen = tx.db.seen_events.get(tx, &self.key)?;
        Ok(seen.filter(|seen| seen.platform_message == *self.id))
    }

    /// Remembers the result of the event.
    pub(crate) fn remember(self, tx: &mut Tx<'_, '_>, end: SeenOutcome) -> Result<()> {
        let at = tx.now.wall;
        let SeenOutcome { messages, refused, held } = end;
        tx.db.seen_events.put(tx, &self.key, &Seen { platform_message: self.id.clone(), at, messages, refused, held })
    }

    /// Updates the remembered result after a held message was decided.
    pub(crate) fn revise(&self, tx: &mut Tx<'_, '_>, end: SeenOutcome) -> Result<()> {
        let Some(mut seen) = self.find(tx)? else { return Ok(()) };
        seen.messages.extend(end.messages);
        seen.refused = if seen.messages.is_empty() { end.refused.or(seen.refused) } else { None };
        seen.held = end.held.or(seen.held);
        tx.db.seen_events.put(tx, &self.key, &seen)
    }
}

/// The result of routing an event.
pub(crate) struct SeenOutcome {
    /// The messages made from it.
    pub(crate) messages: Vec<MessageId>,
    /// Why there are none.
    pub(crate) refused: Option<Reason>,
    /// The approval it waits for.
    pub(crate) held: Option<ApprovalId>,
}

impl SeenOutcome {
    /// The result of an event that no agent received.
    pub(crate) const fn refused(reason: Reason) -> Self {
        Self { messages: Vec::new(), refused: Some(reason), held: None }
    }
}
