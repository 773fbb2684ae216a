//! Times as these files have them.

use chrono::DateTime;

/// Seconds since 1970 as `2026-01-02T03:04:05Z`.
pub(crate) fn utc(seconds: i64) -> String {
    shown(seconds, "%Y-%m-%dT%H:%M:%SZ")
}

/// Seconds since 1970 in a form of `strftime`, in UTC.
pub(crate) fn shown(seconds: i64, format: &str) -> String {
    DateTime::from_timestamp(seconds, 0).unwrap_or_default().format(format).to_string()
}
