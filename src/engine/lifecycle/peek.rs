//! Read-only view of what an agent would receive now, for display.

use crate::Result;
use crate::lifecycle::mailbox_view;
use crate::model::effect::{ContextView, ExportedMessage};
use crate::model::id::SessionId;
use crate::model::session::ChatSession;
use crate::state::{Read, Tables};

/// The context and messages that a session's next turn would get now. Excess context is skipped but stays in the store.
///
/// # Errors
/// The store's.
pub fn peek(
    db: &Tables,
    txn: &Read<'_>,
    id: SessionId,
    session: &ChatSession,
) -> Result<(ContextView, Vec<ExportedMessage>)> {
    mailbox_view::peek(db, txn, id, session)
}
