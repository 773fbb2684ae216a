//! Warnings about spoken answers.

use super::human_time;
use crate::model::voice::Speech;
use crate::state::{self, Read, Tables};

/// Newest speeches that are examined.
const NEWEST: usize = 20;

/// A warning if the tool failed the last time that an answer was to be spoken.
pub(super) fn failing(db: &Tables, txn: &Read<'_>) -> Result<Option<String>, state::Error> {
    let newest = db.speeches.collect_last_of(txn, .., NEWEST)?;
    let tried = newest.into_iter().find(|(_, speech)| match speech {
        Speech::Sent { .. } => true,
        Speech::Failed { by, .. } => !by.tool.is_empty(),
        Speech::Waiting { .. } => false,
    });
    let Some((id, Speech::Failed { why, by })) = tried else { return Ok(None) };
    let ago = human_time::local(&by.at.to_string());
    Ok(Some(format!("the answer {id} could not be spoken ({ago}): {why}; see `hearth why {id}`")))
}
