//! Notes of what happened, for `why`.

use super::{Cx, Result};
use crate::model::id::{MessageId, SessionId};
use crate::model::journal::{Event, JournalEntry};
use crate::state::Write;

/// Notes something that happened to a message.
pub(super) fn of_message(cx: &Cx<'_>, txn: &mut Write<'_>, message: MessageId, event: Event) -> Result<()> {
    general(cx, txn, JournalEntry { at: cx.now.wall, message: Some(message), session: None, event })
}

/// Notes something that happened in a session.
pub(super) fn of_session(cx: &Cx<'_>, txn: &mut Write<'_>, session: SessionId, event: Event) -> Result<()> {
    general(cx, txn, JournalEntry { at: cx.now.wall, message: None, session: Some(session), event })
}

/// What was last noted of a session: more than one look into its mailbox can find.
pub(super) fn last_of_session(cx: &Cx<'_>, txn: &Write<'_>, session: SessionId) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for ((_, id), ()) in cx.db.journal_by_session.collect_last(txn, &session, LAST_MAX)? {
        events.extend(cx.db.journal.get(txn, &id)?.map(|entry| entry.event));
    }
    Ok(events)
}

/// What was last noted of a message: more than there can be claims of it.
pub(super) fn last_of_message(cx: &Cx<'_>, txn: &Write<'_>, message: MessageId) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    for ((_, id), ()) in cx.db.journal_by_message.collect_last(txn, &message, LAST_MAX)? {
        events.extend(cx.db.journal.get(txn, &id)?.map(|entry| entry.event));
    }
    Ok(events)
}

/// How many those are.
const LAST_MAX: usize = 500;

/// Notes something that happened.
pub(super) fn general(cx: &Cx<'_>, txn: &mut Write<'_>, entry: JournalEntry) -> Result<()> {
    let id = cx.db.allocate(txn)?;
    cx.db.journal.append(txn, &id, &entry)?;
    if let Some(message) = entry.message {
        cx.db.journal_by_message.put(txn, &(message, id), &())?;
    }
    if let Some(session) = entry.session {
        cx.db.journal_by_session.put(txn, &(session, id), &())?;
    }
    Ok(())
}
