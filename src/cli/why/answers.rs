//! `hearth why` for outgoing messages.

use super::json::AnswerJson;
use super::spoken;
use super::waits::Daemon;
use crate::cli::{labels, lookup};
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::id::OutboundId;
use crate::model::journal::Event;
use crate::model::time::Timestamp;
use crate::state::{self, Owned, Read, Tables};

/// Newest journal entries of a session that are searched for those about an outgoing message.
const ENTRIES_MAX: usize = 1_000;

/// An outgoing message and its state.
pub(super) fn shape(
    db: &Tables,
    txn: &Read<'_>,
    daemon: Daemon,
    id: OutboundId,
    outbound: &Outbound,
) -> Result<AnswerJson, state::Error> {
    let session = match &outbound.author {
        Author::Agent { session, .. } => Some(*session),
        Author::Hearth => None,
    };
    let platform_message = match &outbound.state {
        OutState::Delivered { platform_message, .. } => platform_message.as_ref().map(ToString::to_string),
        _ => None,
    };
    let about = match &outbound.act {
        Act::Ask(card) => Some(card.matter.to_string()),
        Act::Say | Act::Edit(_) | Act::React(_) => None,
    };
    let next_try = match &outbound.state {
        OutState::Waiting { until: Some(until), after: Some(_) } => daemon.time(*until),
        _ => None,
    };
    Ok(AnswerJson {
        outbound: id.to_string(),
        outgoing_id: db.outgoing(txn, id)?.to_string(),
        agent: session.map(|session| lookup::folder_of_session(db, txn, session)).transpose()?,
        session: session.map(|session| session.to_string()),
        incarnation: incarnation(&outbound.author),
        to: outbound.to.as_ref().map(lookup::place),
        to_words: outbound.to.as_ref().map(|to| lookup::place_words(db, txn, to)).transpose()?,
        text: labels::excerpt(&outbound.text),
        state: labels::delivery(&outbound.state),
        words: labels::delivery_detail(outbound),
        next_try: next_try.map(|at| at.to_string()),
        attempts: outbound.attempts,
        platform_message,
        about,
        speech: db.speeches.get(txn, &id)?.as_ref().map(spoken::json),
        spoken_form_of: spoken::answer_of(db, txn, id)?.map(|answer| answer.to_string()),
    })
}

/// Journal entries about an outgoing message that refers to no other message. Notices have none.
pub(super) fn entries(
    db: &Tables,
    txn: &Read<'_>,
    id: OutboundId,
    outbound: &Outbound,
) -> Result<Vec<(Timestamp, Event)>, state::Error> {
    let Author::Agent { session, .. } = &outbound.author else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (Owned { id: entry, .. }, ()) in db.journal_by_session.collect_last(txn, session, ENTRIES_MAX)? {
        let Some(row) = db.journal.get(txn, &entry)? else { continue };
        let about = match &row.event {
            Event::AnswerRefused(answer, _) | Event::AnswerAbandoned(answer) | Event::DeliveryUncertain(answer, _) => {
                *answer == id
            }
            _ => false,
        };
        if about {
            found.push((row.at, row.event));
        }
    }
    Ok(found)
}

/// The run that wrote a message; none if Hearth did.
pub(super) const fn incarnation(author: &Author) -> Option<u32> {
    match author {
        Author::Agent { incarnation, .. } => Some(*incarnation),
        Author::Hearth => None,
    }
}
