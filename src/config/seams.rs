//! Environment variables for tests only. A build without debug assertions does not contain them and ignores them.
//!
//! | variable | effect |
//! |---|---|
//! | `HEARTH_TEST_CRASH_AT=<point>[:<n>]` | the daemon, or a command, kills itself when it comes to a point of its work (`crash`) for the nth time; the point `any` is every point |
//! | `HEARTH_TEST_POINTS=<file>` | every point that is passed is noted there, a line each |
//! | `HEARTH_TEST_RUNNER=<path>` | this program is the runner of every agent |
//! | `HEARTH_TEST_BACKOFF_MS=<n>` | the first wait after a failed try |
//! | `HEARTH_TEST_HEARTBEAT_MS=<n>` | time without a heartbeat after which a runner counts as dead; runners beat every five seconds |
//! | `HEARTH_TEST_WAIT_MS=<n>` | the first wait for a provider that limits requests; people are told after two of them |
//! | `HEARTH_TEST_CHECK_MS=<n>` | time between two checks of the whole store by the daemon |
//! | `HEARTH_TEST_BACKUP_MS=<n>` | time between two scheduled backups, if there are any |
//! | `HEARTH_TEST_ROOTS=<file>` | certificates in this file are trusted as well where the gate looks inside of connections |
//! | `HEARTH_TEST_CRASH_AFTER_STEPS=<n>` | a runner, which reads it by itself (`roots.rs` of `agent-runner`), kills itself after so many durable steps |
//! | `HEARTH_TEST_HASTE=<n>` | a runner, which reads it by itself (`wedge.rs`), asks a silent agent CLI so many times sooner whether it lives |

use std::path::PathBuf;

#[cfg(debug_assertions)]
use super::env::env_lookup;
use crate::model::policy::Policy;
use crate::model::time::Millis;

/// The value of a variable for tests. The name is compiled in only with debug assertions.
macro_rules! variable {
    ($name:literal) => {{
        #[cfg(debug_assertions)]
        let value = env_lookup($name).filter(|value| !value.is_empty());
        #[cfg(not(debug_assertions))]
        let value = None::<String>;
        value
    }};
}

/// Where a process has to die, and at which visit.
#[must_use]
pub fn crash_at() -> Option<(String, u32)> {
    let value = variable!("HEARTH_TEST_CRASH_AT")?;
    match value.split_once(':') {
        Some((point, nth)) => Some((point.to_owned(), nth.parse().ok()?)),
        None => Some((value, 1)),
    }
}

/// The file in which reached points are recorded.
#[must_use]
pub fn points() -> Option<PathBuf> {
    variable!("HEARTH_TEST_POINTS").map(PathBuf::from)
}

/// The program that is the runner instead of this one.
#[must_use]
pub fn runner() -> Option<PathBuf> {
    variable!("HEARTH_TEST_RUNNER").map(PathBuf::from)
}

/// A file with more certificates that the gate trusts.
#[must_use]
pub fn roots() -> Option<PathBuf> {
    variable!("HEARTH_TEST_ROOTS").map(PathBuf::from)
}

/// Time between two checks of the whole store by a daemon.
#[must_use]
pub fn check_every() -> Millis {
    millis(variable!("HEARTH_TEST_CHECK_MS")).unwrap_or(Millis::minutes(7 * 24 * 60))
}

/// Time between two scheduled backups, instead of the configured one.
#[must_use]
pub fn backup_every() -> Option<Millis> {
    millis(variable!("HEARTH_TEST_BACKUP_MS"))
}

fn millis(value: Option<String>) -> Option<Millis> {
    value.and_then(|value| value.parse().ok()).map(Millis::new)
}

/// The policy, with the waits that tests ask for.
#[must_use]
pub fn policy() -> Policy {
    let standard = Policy::STANDARD;
    let wait_base = millis(variable!("HEARTH_TEST_WAIT_MS"));
    let wait_untold = wait_base.map_or(standard.wait_untold, |wait| Millis::new(wait.get().saturating_mul(2)));
    let backoff_base = millis(variable!("HEARTH_TEST_BACKOFF_MS")).unwrap_or(standard.backoff_base);
    let heartbeat_max = millis(variable!("HEARTH_TEST_HEARTBEAT_MS")).unwrap_or(standard.heartbeat_max);
    Policy { backoff_base, heartbeat_max, wait_base: wait_base.unwrap_or(standard.wait_base), wait_untold, ..standard }
}
