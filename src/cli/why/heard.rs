//! What was heard in the audio files of a message.

use super::json::{StepJson, TranscriptJson};
use crate::cli::labels;
use crate::model::voice::{Made, Transcript, TranscriptState};

pub(super) fn json(heard: &Transcript) -> TranscriptJson {
    let made = made(heard);
    TranscriptJson {
        text: heard.state.get().ok().map(labels::excerpt),
        error: heard.state.get().err().map(str::to_owned),
        by: made.map(|made| made.tool.clone()),
        took_ms: made.map(|made| made.took.get()),
    }
}

/// What made a transcript, or failed to.
fn made(heard: &Transcript) -> Option<&Made> {
    match &heard.state {
        TranscriptState::Waiting => None,
        TranscriptState::Done { by, .. } | TranscriptState::Failed { by, .. } => tool(by),
    }
}

/// The tool, if one was asked.
pub(super) fn tool(by: &Made) -> Option<&Made> {
    Some(by).filter(|by| !by.tool.is_empty())
}

/// The tool and its time, if one was asked.
pub(super) fn after(by: &Made) -> String {
    let made = tool(by).map(|made| format!(" (by {}, {:.1} s)", made.tool, made.took.get() as f64 / 1_000.0));
    made.unwrap_or_default()
}

/// The line of the history about a transcript; none while it is being made.
pub(super) fn step(heard: &Transcript) -> Option<StepJson> {
    let Transcript { file, state } = heard;
    let (what, at) = match state {
        TranscriptState::Waiting => return None,
        TranscriptState::Done { by, .. } => (format!("{file} was transcribed{}", after(by)), by.at),
        TranscriptState::Failed { why, by } => (format!("{file} has no transcript{}: {why}", after(by)), by.at),
    };
    Some(StepJson { at: at.to_string(), message: None, what, order: at })
}
