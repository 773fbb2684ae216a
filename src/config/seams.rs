//! Variables for tests, which nobody sets in earnest. They exist in every build, so that what is tested is what runs.
//!
//! | variable | effect |
//! |---|---|
//! | `HEARTH_TEST_CRASH_AT=<point>[:<n>]` | the daemon kills itself when it comes to a point of its work for the nth time |
//! | `HEARTH_TEST_RUNNER=<path>` | this program is the runner of every agent |
//! | `HEARTH_TEST_BACKOFF_MS=<n>` | the first wait after a failed try |

use std::path::PathBuf;

use super::env::{env_lookup, path};
use crate::model::policy::Policy;
use crate::model::time::Millis;

/// Where the daemon has to die, and at which visit.
#[must_use]
pub fn crash_at() -> Option<(String, u32)> {
    let value = env_lookup("HEARTH_TEST_CRASH_AT")?;
    match value.split_once(':') {
        Some((point, nth)) => Some((point.to_owned(), nth.parse().ok()?)),
        None => Some((value, 1)),
    }
}

/// The program that is the runner instead of this one.
#[must_use]
pub fn runner() -> Option<PathBuf> {
    path("HEARTH_TEST_RUNNER")
}

/// The policy, with the waits that tests ask for.
#[must_use]
pub fn policy() -> Policy {
    let wanted = env_lookup("HEARTH_TEST_BACKOFF_MS").and_then(|value| value.parse().ok());
    let backoff_base = wanted.map_or(Policy::STANDARD.backoff_base, Millis::new);
    Policy { backoff_base, ..Policy::STANDARD }
}
