//! The only reader of clocks in this crate.

use std::time::{Duration, Instant};

/// Now, as ISO 8601 in UTC with milliseconds: for people, the host goes by its own clock.
#[expect(clippy::disallowed_methods, reason = "the runner's one clock")]
pub(crate) fn now_iso() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// Now, in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the runner's one clock")]
pub(crate) fn now_ms() -> u64 {
    u64::try_from(chrono::Utc::now().timestamp_millis()).unwrap_or(0)
}

/// A time as people of a zone write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Local {
    /// `2026-01-02`.
    pub(crate) date: String,
    /// `0304`.
    pub(crate) hour_minute: String,
    /// `Jan 2, 3:04 AM`.
    pub(crate) shown: String,
}

/// Now in a zone; in UTC, if there is none of that name.
#[expect(clippy::disallowed_methods, reason = "the runner's one clock")]
pub(crate) fn local_now(zone: &str) -> Local {
    let zone = hearth_zone::Zone::parse(zone).unwrap_or_else(|_| hearth_zone::Zone::utc());
    let now = chrono::Utc::now();
    let now = zone.wall(now.timestamp()).unwrap_or(now.naive_utc());
    let shown = |format: &str| now.format(format).to_string();
    Local { date: shown("%Y-%m-%d"), hour_minute: shown("%H%M"), shown: shown("%b %-d, %-I:%M %p") }
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
