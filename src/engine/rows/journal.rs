//! The journal, which explains decisions to `why`.

use crate::Result;
use crate::model::id::{MessageId, SessionId};
use crate::model::journal::{Event, JournalEntry};
use crate::state::Owned;
use crate::tx::Tx;

/// Records an event of a message.
pub(crate) fn of_message(tx: &mut Tx<'_, '_>, message: MessageId, event: Event) -> Result<()> {
    general(tx, JournalEntry { at: tx.now.wall, message: Some(message), session: None, event })
}

/// Records an event of a session.
pub(crate) fn of_session(tx: &mut Tx<'_, '_>, session: SessionId, event: Event) -> Result<()> {
    general(tx, JournalEntry { at: tx.now.wall, message: None, session: Some(session), event })
}

/// The newest events of a session, more than one collection of its mailbox can produce.
pub(crate) fn last_of_session(tx: &Tx<'_, '_>, session: SessionId) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for (Owned { id, .. }, ()) in tx.db.journal_by_session.collect_last(tx, &session, LAST_MAX)? {
        events.extend(tx.db.journal.get(tx, &id)?.map(|entry| entry.event));
    }
    Ok(events)
}

/// The newest events of a message, more than there can be claims of it.
pub(crate) fn last_of_message(tx: &Tx<'_, '_>, message: MessageId) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for (Owned { id, .. }, ()) in tx.db.journal_by_message.collect_last(tx, &message, LAST_MAX)? {
        events.extend(tx.db.journal.get(tx, &id)?.map(|entry| entry.event));
    }
    Ok(events)
}

/// Maximum number of these events.
const LAST_MAX: usize = 500;

/// Records an event.
pub(crate) fn general(tx: &mut Tx<'_, '_>, entry: JournalEntry) -> Result<()> {
    let id = tx.db.allocate(tx)?;
    tx.db.journal.append(tx, &id, &entry)
}
