//! Decisions by command on approvals and questions, through the daemon or, without one, on the store directly.

use serde::Serialize;

use super::offline::{Host, SubmitError, host, mismatch};
use super::{Done, Failure, print};
use crate::config::Paths;
use crate::model::card::PromptSubject;
use crate::socket::command::{Answer, ClientCommand};
use crate::state::Reader;

/// The answer of a command that decides.
#[derive(Debug, Serialize)]
struct DecidedJson<'a> {
    id: String,
    decided: bool,
    text: &'a str,
}

/// Decides a matter. `value` is the value, label or number of an option.
pub(super) fn decide(paths: &Paths, matter: PromptSubject, value: &str, json: bool) -> Done {
    let (decided, text) = submit(paths, matter, value)?;
    if json {
        print::json(&DecidedJson { id: matter.to_string(), decided, text: &text })?;
    } else if decided {
        print::line(&format!("{matter} {text}"))?;
    }
    match (decided, json) {
        (true, _) => Ok(()),
        (false, true) => Err(Failure::Told),
        (false, false) => Err(Failure::Failed(format!("{matter}: {text}"))),
    }
}

/// Submits a decision without output. Returns whether it decided anything, and a message for the user.
pub(super) fn submit(paths: &Paths, matter: PromptSubject, value: &str) -> Result<(bool, String), Failure> {
    match ask(&mut open(paths)?, matter, value)? {
        DecisionAnswer::Answered(decided, text) => Ok((decided, text)),
        DecisionAnswer::Refused(failure) => Err(failure),
    }
}

/// Whether something was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchDecision {
    /// Just now.
    Now,
    /// Decided earlier.
    Before,
}

/// Submits the same decision for many matters. Skips those that were decided meanwhile.
pub(super) fn submit_each(
    paths: &Paths,
    matters: impl Iterator<Item = PromptSubject>,
    value: &str,
) -> Result<Vec<(PromptSubject, BatchDecision)>, Failure> {
    let mut host = open(paths)?;
    let decided = matters.map(|matter| {
        let decided = match ask(&mut host, matter, value)? {
            DecisionAnswer::Answered(true, _) => BatchDecision::Now,
            DecisionAnswer::Answered(false, _) | DecisionAnswer::Refused(_) => BatchDecision::Before,
        };
        Ok((matter, decided))
    });
    decided.collect()
}

/// Result of one decision.
enum DecisionAnswer {
    /// Whether it decided anything, and a message for the user.
    Answered(bool, String),
    /// It was refused, with the reason.
    Refused(Failure),
}

fn open(paths: &Paths) -> Result<Host, Failure> {
    // A decision must not create a store.
    Reader::open(paths.data()).map(drop)?;
    host(paths)
}

fn ask(host: &mut Host, matter: PromptSubject, value: &str) -> Result<DecisionAnswer, Failure> {
    match host.submit(ClientCommand::Decide { matter, value: value.to_owned() }) {
        Ok(Answer::Decided { decided, text }) => Ok(DecisionAnswer::Answered(decided, text)),
        Ok(other) => Err(mismatch(&other)),
        Err(refused @ SubmitError::Refused(_)) => Ok(DecisionAnswer::Refused(refused.into())),
        Err(SubmitError::Failed(failure)) => Err(failure),
    }
}
