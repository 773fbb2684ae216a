//! Finds a CLI that lives, says nothing and answers no request.
//!
//! The host ends a run that shows nothing at all after a claim. After the first sign of life it would wait for half an
//! hour, because a model may think for long. A CLI that waits for its model still answers requests at once.

use std::time::Duration;

/// How long a CLI may be silent before it is asked.
const QUIET: Duration = Duration::from_secs(60);
/// How long it may take to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Unanswered requests after which it is wedged.
const REQUESTS: u32 = 2;

/// What to do about a silent CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nothing yet.
    Wait,
    /// Ask whether it lives.
    Ask,
    Wedged,
}

/// [`decide`] for this process.
pub(super) fn judge(quiet: Duration, asked: u32) -> Silence {
    #[cfg(debug_assertions)]
    let quiet = {
        let haste = crate::env::variable(crate::roots::HASTE_VARIABLE).and_then(|haste| haste.parse().ok());
        quiet.saturating_mul(haste.unwrap_or(1))
    };
    decide(quiet, asked)
}

/// Decides about a CLI that has been silent for some time, and was asked so many times since its last line. Not to be
/// called before its first line of a turn, nor while a tool runs.
fn decide(quiet: Duration, asked: u32) -> Silence {
    match quiet >= QUIET.saturating_add(ANSWER.saturating_mul(asked)) {
        false => Silence::Wait,
        true if asked < REQUESTS => Silence::Ask,
        true => Silence::Wedged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_unanswered_requests_are_the_end() {
        for (quiet, asked, expected) in [
            (59, 0, Silence::Wait),
            (60, 0, Silence::Ask),
            (60, 1, Silence::Wait),
            (89, 1, Silence::Wait),
            (90, 1, Silence::Ask),
            (119, 2, Silence::Wait),
            (120, 2, Silence::Wedged),
            (9_000, 0, Silence::Ask),
        ] {
            assert_eq!(decide(Duration::from_secs(quiet), asked), expected, "{quiet} {asked}");
        }
    }
}
