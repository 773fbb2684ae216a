//! All access of this crate to clocks.

use std::time::{Duration, Instant};

/// The current time as ISO 8601 in UTC with milliseconds, for people. The host uses its own clock.
#[expect(clippy::disallowed_methods, reason = "the runner's one clock")]
pub(crate) fn now_iso() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// Now, in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the runner's one clock")]
pub(crate) fn now_ms() -> u64 {
    u64::try_from(chrono::Utc::now().timestamp_millis()).unwrap_or(0)
}

/// Milliseconds until a time as HTTP writes it, 0 if it has passed. None for anything else.
pub(crate) fn until_http_date(text: &str) -> Option<u64> {
    let at = chrono::DateTime::parse_from_rfc2822(text.trim()).ok()?.timestamp_millis();
    Some(u64::try_from(at).unwrap_or(0).saturating_sub(now_ms()))
}

/// A local time in display formats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Local {
    /// `2026-01-02`.
    pub(crate) date: String,
    /// `0304`.
    pub(crate) hour_minute: String,
    /// `Jan 2, 3:04 AM`.
    pub(crate) shown: String,
}

/// The current time in a time zone, or in UTC if the zone is unknown.
#[expect(clippy::disallowed_methods, reason = "the runner's one clock")]
pub(crate) fn local_now(zone: &str) -> Local {
    let zone = hearth_zone::Zone::parse(zone).unwrap_or_else(|_| hearth_zone::Zone::utc());
    let now = chrono::Utc::now();
    let now = zone.wall(now.timestamp()).unwrap_or(now.naive_utc());
    let shown = |format: &str| now.format(format).to_string();
    Local { date: shown("%Y-%m-%d"), hour_minute: shown("%H%M"), shown: shown("%b %-d, %-I:%M %p") }
}

/// Measures the time since its creation, independent of clock changes.
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

    /// The remainder of `whole`; zero when it has elapsed.
    pub(crate) fn left_of(&self, whole: Duration) -> Duration {
        whole.saturating_sub(self.elapsed())
    }
}
