//! What an agent would be given now, for people who want to see it. Reads only.

use super::{Result, export};
use crate::model::effect::{ContextView, ExportedMessage};
use crate::model::id::SessionId;
use crate::model::session::ChatSession;
use crate::state::{Read, Tables};

/// The context and the messages of a session's next turn as things are now. Context that would be capped is left out, and
/// stays.
///
/// # Errors
/// The store's.
pub fn peek(
    db: &Tables,
    txn: &Read<'_>,
    (id, session): (SessionId, &ChatSession),
) -> Result<(ContextView, Vec<ExportedMessage>)> {
    export::peek(db, txn, (id, session))
}
