//! The index of everything that was said, for searches.
//!
//! Its keys begin with where a text is found: an agent and a chat, or an approval. A search reads only what its asker may
//! see. A new text is one row (`recall_new`). When many have gathered, they become a segment ([`segments`]), which is made
//! beside the transactions, and many segments become a larger one in small steps (`merge.rs`). So a text costs one write at
//! first, and little room later.
//!
//! What a row of the store has to say is a function of the row ([`source`]), so that a removed text can be taken out, and
//! [`crate::check`] can compare. The words are counted before the transaction.

mod best;
pub mod build;
pub mod find;
pub mod keys;
pub(crate) mod merge;
mod place;
pub mod rebuild;
pub mod segments;
pub mod source;
mod tally;
pub(crate) mod terms;
pub mod version;

use crate::model::Timestamp;
use crate::model::id::AgentId;
use crate::model::recall::{RecallScope, SaidId};
use crate::recall::keys::Packed;
use crate::search::Words;
use crate::search::packed::{put_signed, take_signed};
use crate::{RecallKey, Result, Tables, Write};

/// A text in the index that is in no segment yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewText {
    /// When it was said, in seconds since 1970.
    pub at: i64,
    /// Its words.
    pub words: Words,
}

impl NewText {
    fn of(mut bytes: &[u8]) -> Self {
        let at = take_signed(&mut bytes).unwrap_or_default();
        Self { at, words: Words::from_bytes(bytes.to_vec()) }
    }

    pub(crate) fn to_packed(at: Timestamp, words: &Words) -> Packed {
        let mut bytes = Vec::with_capacity(words.as_bytes().len().saturating_add(8));
        put_signed(&mut bytes, at.millis().div_euclid(1_000));
        bytes.extend_from_slice(words.as_bytes());
        Packed(bytes)
    }
}

/// Adds a text.
///
/// # Errors
/// Those of writing rows.
pub fn add(
    db: &Tables,
    txn: &mut Write<'_>,
    scope: RecallScope,
    id: SaidId,
    at: Timestamp,
    words: &Words,
) -> Result<()> {
    if words.is_empty() {
        return Ok(());
    }
    db.recall_new.put(txn, &RecallKey { scope, id }, &NewText::to_packed(at, words))?;
    // Counting the new texts costs more than adding one, so it is done for one of many.
    if id.number().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59 == 0 { segments::gather(db, txn, scope) } else { Ok(()) }
}

/// Removes a text with these words. Returns whether it was there.
///
/// # Errors
/// Those of reading and writing rows.
pub fn remove(db: &Tables, txn: &mut Write<'_>, scope: RecallScope, id: SaidId, words: &Words) -> Result<bool> {
    if words.is_empty() {
        return Ok(false);
    }
    Ok(db.recall_new.delete(txn, &RecallKey { scope, id })? || segments::remove(db, txn, scope, id, words)?)
}

/// Removes a text of an agent. It usually was said in the chat `likely`. Returns where it was, if it was there.
///
/// # Errors
/// Those of reading and writing rows.
pub fn remove_of(
    db: &Tables,
    txn: &mut Write<'_>,
    likely: RecallScope,
    id: SaidId,
    words: &Words,
) -> Result<Option<RecallScope>> {
    if remove(db, txn, likely, id, words)? {
        return Ok(Some(likely));
    }
    let RecallScope::Chat(agent, _) = likely else { return Ok(None) };
    for scope in scopes_of(db, txn, agent)? {
        if scope != likely && remove(db, txn, scope, id, words)? {
            return Ok(Some(scope));
        }
    }
    Ok(None)
}

/// Where texts of an agent are found.
///
/// # Errors
/// Those of reading rows.
pub fn scopes_of(db: &Tables, txn: &crate::Read<'_>, agent: AgentId) -> Result<Vec<RecallScope>> {
    let all = scopes(db, txn, Some(RecallScope::Chat(agent, None)), |scope| match scope {
        RecallScope::Chat(of, _) => of == agent,
        RecallScope::Held(_) => false,
    })?;
    Ok(all)
}

/// All scopes with texts.
///
/// # Errors
/// Those of reading rows.
pub fn all_scopes(db: &Tables, txn: &crate::Read<'_>) -> Result<Vec<RecallScope>> {
    scopes(db, txn, None, |_| true)
}

/// Scopes from one on, as long as they fit. Each takes two look-ups, however many texts it has.
fn scopes(
    db: &Tables,
    txn: &crate::Read<'_>,
    from: Option<RecallScope>,
    fits: impl Fn(RecallScope) -> bool,
) -> Result<Vec<RecallScope>> {
    let mut found = Vec::new();
    let lowest = RecallScope::Chat(AgentId::new(0), None);
    let mut next = Some((from.unwrap_or(lowest), true));
    while let Some((scope, inclusive)) = next {
        // The id that no text has: the lowest key of this scope, or a key beyond its last one.
        let id = if inclusive { keys::said(1, 0) } else { keys::said(4, u64::MAX) };
        let Some(id) = id else { break };
        let segment = if inclusive { 0 } else { u32::MAX };
        let new = db.recall_new.first(txn, RecallKey { scope, id }..)?.map(|(key, _)| key.scope);
        let old =
            db.recall_segments.first(txn, crate::RecallSegmentKey { scope, segment }..)?.map(|(key, _)| key.scope);
        next = match (new, old) {
            (Some(new), Some(old)) => Some(new.min(old)),
            (one, other) => one.or(other),
        }
        .filter(|scope| fits(*scope))
        .map(|scope| (scope, false));
        found.extend(next.map(|(scope, _)| scope));
    }
    Ok(found)
}
