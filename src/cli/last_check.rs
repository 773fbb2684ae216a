//! The last check of the whole store.

use serde::Serialize;

use crate::cli::human_time;
use crate::clock;
use crate::daemon::proof;
use crate::model::time::Millis;

/// The last check of the whole store by a daemon.
#[derive(Debug, Serialize)]
pub(super) struct LastCheck {
    at: String,
    /// Milliseconds since the check.
    age_ms: u64,
    sound: bool,
    /// The failure; null if the store is sound.
    found: Option<String>,
}

impl LastCheck {
    pub(super) fn of(last: &proof::Last) -> Self {
        let age = clock::wall().millis().saturating_sub(last.at.millis());
        Self {
            at: last.at.to_string(),
            age_ms: u64::try_from(age).unwrap_or(0),
            sound: last.found.is_none(),
            found: last.found.clone(),
        }
    }

    pub(super) fn warning(&self) -> Option<String> {
        let found = self.found.as_ref()?;
        Some(format!("the check of the store at {} failed: {found}; run `hearth check`", human_time::local(&self.at)))
    }

    /// The result in one line.
    pub(super) fn line(&self) -> String {
        let found = if self.sound { "sound" } else { "failed, see above" };
        format!("check: {found}, {} ago", Millis::new(self.age_ms))
    }
}
