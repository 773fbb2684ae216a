//! The only reader of clocks in this crate.

use std::time::{Duration, Instant};

/// Now, as ISO 8601 in UTC with milliseconds: for people, the host goes by its own clock.
#[expect(clippy::disallowed_methods, reason = "the runner's one clock")]
pub(crate) fn now_iso() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// Counts from its creation, unmoved by clock steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "the runner's one clock")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// What is left of `whole`; zero when it is over.
    pub(crate) fn left_of(&self, whole: Duration) -> Duration {
        whole.saturating_sub(self.elapsed())
    }
}
