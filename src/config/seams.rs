//! Variables for tests, which nobody sets in earnest. They exist in every build, so that what is tested is what runs.
//!
//! | variable | effect |
//! |---|---|
//! | `HEARTH_TEST_CRASH_AT=<point>[:<n>]` | the daemon, or a command, kills itself when it comes to a point of its work (`crash`) for the nth time; the point `any` is every point |
//! | `HEARTH_TEST_POINTS=<file>` | every point that is passed is noted there, a line each |
//! | `HEARTH_TEST_RUNNER=<path>` | this program is the runner of every agent |
//! | `HEARTH_TEST_BACKOFF_MS=<n>` | the first wait after a failed try |
//! | `HEARTH_TEST_WAIT_MS=<n>` | the first wait for a provider that limits requests; people are told after two of them |
//! | `HEARTH_TEST_CRASH_AFTER_STEPS=<n>` | a runner, which reads it by itself (`roots.rs` of `agent-runner`), kills itself after so many durable steps |

use std::path::PathBuf;

use super::env::{env_lookup, path};
use crate::model::policy::Policy;
use crate::model::time::Millis;

/// Where a process has to die, and at which visit.
#[must_use]
pub fn crash_at() -> Option<(String, u32)> {
    let value = env_lookup("HEARTH_TEST_CRASH_AT")?;
    match value.split_once(':') {
        Some((point, nth)) => Some((point.to_owned(), nth.parse().ok()?)),
        None => Some((value, 1)),
    }
}

/// Where the points that are passed are noted.
#[must_use]
pub fn points() -> Option<PathBuf> {
    path("HEARTH_TEST_POINTS")
}

/// The program that is the runner instead of this one.
#[must_use]
pub fn runner() -> Option<PathBuf> {
    path("HEARTH_TEST_RUNNER")
}

/// The policy, with the waits that tests ask for.
#[must_use]
pub fn policy() -> Policy {
    let wanted = |name| env_lookup(name).and_then(|value| value.parse().ok()).map(Millis::new);
    let standard = Policy::STANDARD;
    let wait_base = wanted("HEARTH_TEST_WAIT_MS");
    let wait_untold = wait_base.map_or(standard.wait_untold, |wait| Millis::new(wait.get().saturating_mul(2)));
    let backoff_base = wanted("HEARTH_TEST_BACKOFF_MS").unwrap_or(standard.backoff_base);
    Policy { backoff_base, wait_base: wait_base.unwrap_or(standard.wait_base), wait_untold, ..standard }
}
