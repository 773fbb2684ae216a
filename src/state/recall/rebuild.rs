//! Makes the index again after texts become terms in another way: some rows at a time, beside normal work.
//!
//! The old index is removed first. What is stored meanwhile is indexed as usual, removed with the rest, and then indexed
//! with everything else, so no text is left with terms that a removal would not find.

use super::build;
use super::version::{CLEARING, MADE_WITH, is_clearing, is_old};
use crate::search::VERSION;
use crate::{Number, Result, Tables, Text, Write};

/// Removes some more of an index of another version, or indexes some more of what has to be indexed. Returns whether there
/// may be more to do.
///
/// # Errors
/// Those of reading and writing rows.
pub fn step(db: &Tables, txn: &mut Write<'_>, limit: usize) -> Result<bool> {
    if !is_old(db, txn)? {
        return build::step(db, txn, limit);
    }
    if !is_clearing(db, txn)? {
        build::end(db, txn)?;
        db.retention_cursors.put(txn, &Text::new(CLEARING)?, &Number(VERSION))?;
        return Ok(true);
    }
    if clear(db, txn, limit)? {
        db.retention_cursors.delete(txn, &Text::new(CLEARING)?)?;
        db.retention_cursors.put(txn, &Text::new(MADE_WITH)?, &Number(VERSION))?;
        build::begin(db, txn)?;
    }
    Ok(true)
}

/// Removes at most `limit` rows. Returns whether none is left. The segments go first: without them, searches find none of
/// their terms.
fn clear(db: &Tables, txn: &mut Write<'_>, limit: usize) -> Result<bool> {
    for _ in 0..limit {
        if let Some((key, _)) = db.recall_segments.first(txn, ..)? {
            db.recall_segments.delete(txn, &key)?;
        } else if let Some((key, _)) = db.recall_texts.first(txn, ..)? {
            db.recall_texts.delete(txn, &key)?;
        } else if let Some((key, _)) = db.recall_terms.first(txn, ..)? {
            db.recall_terms.delete(txn, &key)?;
        } else if let Some((key, _)) = db.recall_new.first(txn, ..)? {
            db.recall_new.delete(txn, &key)?;
        } else {
            return Ok(true);
        }
    }
    Ok(false)
}
