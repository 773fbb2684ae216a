//! What the CLI writes, by itself: what it would come to, with no process behind it and nobody told.

use super::dispatch;
use super::lines::{self, Line};
use super::trouble::{Signs, failure};
use crate::outgoing::{Content, Target};

/// What a final text says to whom, in its order: the name of a destination, or none where the question came from.
#[must_use]
pub fn addressed(text: &str) -> Vec<(Option<String>, String)> {
    let said = dispatch::addressed(text).into_iter();
    said.map(|utterance| {
        let name = match utterance.target {
            Target::Destination(name) => Some(name),
            Target::Reply | Target::Address(_) => None,
        };
        let words = match utterance.content {
            Content::Text(text) => text,
            Content::Payload { content, .. } => content.to_string(),
        };
        (name, words)
    })
    .collect()
}

/// The end of a turn that a line of the CLI tells: its text, or why it failed. None for every other line.
#[must_use]
pub fn ended(line: &str) -> Option<Result<String, String>> {
    let Line::Result { outcome, .. } = lines::parse(line) else { return None };
    Some(outcome.map_err(|complaint| failure(&complaint, &Signs::default(), (None, 0)).error))
}
