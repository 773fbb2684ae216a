//! Spoken forms of agents' messages.

use crate::Result;
use crate::model::delivery::{Author, Outbound};
use crate::model::id::{MessageId, OutboundId, SessionId};
use crate::model::voice::{Speaker, Speech};
use crate::rows::budgets;
use crate::state::Owned;
use crate::tx::Tx;

/// How answers are spoken, if that is configured.
pub(crate) fn speaker(tx: &Tx<'_, '_>) -> Result<Option<Speaker>> {
    Ok(budgets::settings(tx)?.voice.as_ref().and_then(|voice| voice.speak.clone()))
}

/// The message that an outgoing message is the spoken form of.
pub(crate) fn answer_of(tx: &Tx<'_, '_>, id: OutboundId, outbound: &Outbound) -> Result<Option<OutboundId>> {
    // Of Hearth's own messages only these have files.
    match outbound.author {
        Author::Hearth if !outbound.files.is_empty() => tx.db.speeches_by_message.get(tx, &id),
        Author::Hearth | Author::Agent { .. } => Ok(None),
    }
}

/// The session whose agent an outgoing message comes from, also in its spoken form.
pub(crate) fn session_of(tx: &Tx<'_, '_>, id: OutboundId, outbound: &Outbound) -> Result<Option<SessionId>> {
    let said = match answer_of(tx, id, outbound)? {
        Some(answer) => crate::readable(tx.db.outbound.get(tx, &answer))?.map(|answer| answer.author),
        None => Some(outbound.author.clone()),
    };
    Ok(match said {
        Some(Author::Agent { session, .. }) => Some(session),
        Some(Author::Hearth) | None => None,
    })
}

/// How many answers to a message are spoken, or were to be.
pub(crate) fn to_message(tx: &Tx<'_, '_>, message: MessageId, limit: usize) -> Result<usize> {
    let mut count = 0;
    for (Owned { id, .. }, ()) in tx.db.outbound_by_message.collect_prefix(tx, &message, limit)? {
        count += usize::from(tx.db.speeches.contains(tx, &id)?);
    }
    Ok(count)
}

/// The answers whose audio is being made.
pub(crate) fn waiting(tx: &Tx<'_, '_>, limit: usize) -> Result<Vec<OutboundId>> {
    Ok(tx.db.speeches_waiting.collect_range(tx, .., limit)?.into_iter().map(|(id, ())| id).collect())
}

/// Removes the record of a message that is removed.
pub(crate) fn forget(tx: &mut Tx<'_, '_>, id: OutboundId) -> Result<()> {
    // Most installations do not speak.
    if tx.db.speeches.is_empty(tx)? { Ok(()) } else { tx.db.speeches.delete(tx, &id).map(drop) }
}

/// Whether the audio of an answer is being made.
pub(crate) const fn is_waiting(speech: &Speech) -> bool {
    matches!(speech, Speech::Waiting { .. })
}
