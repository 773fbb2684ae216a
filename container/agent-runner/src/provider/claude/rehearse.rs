//! Interprets the CLI's output without a process and without side effects, for tests.

use super::lines::{self, StreamLine};
use super::trouble::{Signs, failure};
use crate::outgoing::{Content, OutgoingRecipient};
use crate::provider::dispatch;

/// The parts of a final text in order: the destination's name, or `None` for the chat that asked, and the text.
#[must_use]
pub fn addressed(text: &str) -> Vec<(Option<String>, String)> {
    let said = dispatch::addressed(text).into_iter();
    said.map(|utterance| {
        let name = match utterance.target {
            OutgoingRecipient::Destination(name) => Some(name),
            OutgoingRecipient::Reply | OutgoingRecipient::Address(_) => None,
        };
        let words = match utterance.content {
            Content::Text(text) => text,
            Content::Payload { content, .. } => content.to_string(),
        };
        (name, words)
    })
    .collect()
}

/// The end of a turn in a line of the CLI: the text, or the error. `None` for every other line.
#[must_use]
pub fn ended(line: &str) -> Option<Result<String, String>> {
    let StreamLine::Result { outcome, .. } = lines::parse(line) else { return None };
    Some(outcome.map_err(|complaint| failure(&complaint, &Signs::default(), None, 0).error))
}
