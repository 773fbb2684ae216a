//! Where the answers of tasks go, in words.

use crate::cli::{lookup, watch};
use crate::model::delivery::{OutState, Outbound};
use crate::model::id::MessageId;
use crate::model::task::{Task, TaskHome};
use crate::state::{self, Owned, Read, Tables};

/// Answers of one run that are read.
const ANSWERS_READ: usize = 20;

/// Where the answers of a run went, each place once.
pub(super) fn sent_to(db: &Tables, txn: &Read<'_>, message: MessageId) -> Result<Vec<String>, state::Error> {
    let mut places = Vec::new();
    for (Owned { id, .. }, ()) in db.outbound_by_message.collect_prefix(txn, &message, ANSWERS_READ)? {
        let Some(Outbound { to: Some(to), state, .. }) = db.outbound.get(txn, &id)? else { continue };
        let state = match state {
            OutState::Delivered { .. } => "",
            OutState::Later(_) | OutState::Waiting { .. } | OutState::Attempting { .. } => ": not sent yet",
            OutState::Failed { .. } | OutState::Refused { .. } => ": could not be delivered",
            OutState::Abandoned { .. } => ": discarded",
            OutState::Carried { .. } => ": passed on",
        };
        let place = format!("{}{state}", lookup::place_words(db, txn, &to)?);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// The chat that a task's answers go to.
pub(super) fn goes_to(db: &Tables, txn: &Read<'_>, task: &Task) -> Result<Option<String>, state::Error> {
    if let Some(to) = &task.reply {
        return lookup::place_words(db, txn, to).map(Some);
    }
    let TaskHome::Session(session) = task.home else { return Ok(None) };
    let session = lookup::session(db, txn, session)?;
    session.map(|session| watch::chat(db, txn, &session)).transpose()
}
