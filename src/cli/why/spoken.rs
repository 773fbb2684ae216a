//! Spoken forms of answers.

use super::heard;
use super::json::{SpeechJson, StepJson};
use crate::model::id::OutboundId;
use crate::model::voice::Speech;
use crate::state::{self, Read, Tables};

pub(super) fn json(speech: &Speech) -> SpeechJson {
    let by = match speech {
        Speech::Waiting { .. } => None,
        Speech::Sent { by, .. } | Speech::Failed { by, .. } => heard::tool(by),
    };
    SpeechJson {
        message: match speech {
            Speech::Sent { message, .. } => Some(message.to_string()),
            Speech::Waiting { .. } | Speech::Failed { .. } => None,
        },
        error: match speech {
            Speech::Failed { why, .. } => Some(why.clone()),
            Speech::Waiting { .. } | Speech::Sent { .. } => None,
        },
        by: by.map(|by| by.tool.clone()),
        took_ms: by.map(|by| by.took.get()),
    }
}

/// The line of the history about an answer's speech.
pub(super) fn step(id: OutboundId, speech: &Speech) -> StepJson {
    let (what, at) = match speech {
        Speech::Waiting { since, .. } => (format!("{id} is being spoken"), *since),
        Speech::Sent { message, by } => (format!("{id} was spoken as {message}{}", heard::after(by)), by.at),
        Speech::Failed { why, by } => (format!("{id} was not spoken{}: {why}", heard::after(by)), by.at),
    };
    StepJson { at: at.to_string(), message: None, what, order: at }
}

/// The answer that a message is the spoken form of.
pub(super) fn answer_of(db: &Tables, txn: &Read<'_>, id: OutboundId) -> Result<Option<OutboundId>, state::Error> {
    db.speeches_by_message.get(txn, &id)
}
