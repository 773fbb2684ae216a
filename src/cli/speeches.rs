//! Warnings about spoken answers.

use super::{human_time, lookup};
use crate::console::Rank;
use crate::model::delivery::Author;
use crate::model::id::OutboundId;
use crate::model::voice::Speech;
use crate::state::{self, Read, Tables};

/// Newest speeches that are examined.
const NEWEST: usize = 20;

/// A warning if the tool failed the last time that an answer was to be spoken, of answers of agents that a person sees.
pub(super) fn failing(db: &Tables, txn: &Read<'_>, rank: &Rank) -> Result<Option<String>, state::Error> {
    for (id, speech) in db.speeches.collect_last_of(txn, .., NEWEST)? {
        let failed = match speech {
            Speech::Sent { .. } => None,
            Speech::Failed { why, by } if !by.tool.is_empty() => Some((why, by.at)),
            Speech::Failed { .. } | Speech::Waiting { .. } => continue,
        };
        if !sees(db, txn, id, rank)? {
            continue;
        }
        return Ok(failed.map(|(why, at)| {
            let ago = human_time::local(&at.to_string());
            format!("the answer {id} could not be spoken ({ago}): {why}; see `hearth why {id}`")
        }));
    }
    Ok(None)
}

/// Whether a person sees the agent of an answer.
fn sees(db: &Tables, txn: &Read<'_>, id: OutboundId, rank: &Rank) -> Result<bool, state::Error> {
    if *rank == Rank::Everything {
        return Ok(true);
    }
    match db.outbound.get(txn, &id)?.map(|answer| answer.author) {
        Some(Author::Agent { session, .. }) => Ok(rank.sees(&lookup::folder_of_session(db, txn, session)?)),
        Some(Author::Hearth) | None => Ok(false),
    }
}
