//! What the gateway decides and counts, without sockets: for the laws in `tests/fuzz/`.

use std::io;
use std::path::Path;

use axum::http::Request;

use super::judge::{BoundKey, judge};
use super::meter::{Form, Meter};
use super::placeholder::Seed;
use super::refusal::Refusal;
use crate::model::gateway::{KEY_VARIABLES, Operation};
use crate::model::id::SessionId;
use crate::model::spend::Tokens;

/// The unguessable part of the placeholders of [`judged`].
pub const PLACEHOLDER: &str = "hearth-0f";

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is no request.
    Malformed,
    NoKey,
    /// It is refused for another reason.
    Refused(String),
    /// It may pass.
    Passed(Operation),
}

/// Judges a request of an agent with a key in each known variable.
#[must_use]
pub fn judged(method: &str, target: &str, headers: &[(&str, &[u8])]) -> Verdict {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let Ok(request) = request.body(()) else { return Verdict::Malformed };
    let placeholder = |begins: &str| format!("{begins}{PLACEHOLDER}");
    let keys: Vec<BoundKey> =
        KEY_VARIABLES.iter().map(|variable| BoundKey { variable, placeholder: placeholder(variable.begins) }).collect();
    match judge(&request.into_parts().0, &keys) {
        Ok(allowed) => Verdict::Passed(allowed.operation),
        Err(Refusal::NoPlaceholder) => Verdict::NoKey,
        Err(refusal) => Verdict::Refused(refusal.to_string()),
    }
}

/// What the meter counts in an answer that comes in pieces and ends as it should: tokens, the model, and whether the
/// answer was seen to its end.
#[must_use]
pub fn counted(operation: Operation, events: bool, pieces: &[&[u8]]) -> (Option<Tokens>, Option<String>, bool) {
    let mut meter = Meter::new(operation, if events { Form::Events } else { Form::Whole });
    pieces.iter().for_each(|piece| meter.take(piece));
    let count = meter.finish(true);
    (count.usage, count.model, count.complete)
}

/// What an incarnation gets instead of its keys, by the key of an installation in a file.
///
/// # Errors
/// If the file has no such key.
pub fn placeholders(key: &Path, session: SessionId, incarnation: u32) -> io::Result<Vec<String>> {
    let seed = Seed::of_installation(key)?;
    Ok(KEY_VARIABLES.iter().map(|variable| seed.placeholder(session, incarnation, variable)).collect())
}
