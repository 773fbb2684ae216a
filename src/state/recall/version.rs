//! With which version the index was made.

use crate::search::VERSION;
use crate::{Number, Read, Result, Tables, Text};

/// The version with which the index was made; none is the first one.
pub(super) const MADE_WITH: &str = "recall_version";
/// There while the old index is removed.
pub(super) const CLEARING: &str = "recall_clearing";

/// Whether the index was made by another version, or is being removed.
///
/// # Errors
/// Those of reading rows.
pub fn is_old(db: &Tables, txn: &Read<'_>) -> Result<bool> {
    let made = db.retention_cursors.get(txn, &Text::new(MADE_WITH)?)?.map_or(1, |Number(version)| version);
    Ok(made != VERSION || is_clearing(db, txn)?)
}

/// Whether the old index is being removed.
pub(super) fn is_clearing(db: &Tables, txn: &Read<'_>) -> Result<bool> {
    db.retention_cursors.contains(txn, &Text::new(CLEARING)?)
}
