//! Time formats of these files.

use chrono::{DateTime, NaiveDate, NaiveDateTime};

/// Seconds since 1970 as `2026-01-02T03:04:05Z`.
pub(crate) fn utc(seconds: i64) -> String {
    shown(seconds, "%Y-%m-%dT%H:%M:%SZ")
}

/// Seconds since 1970 in a `strftime` format, in UTC.
pub(crate) fn shown(seconds: i64, format: &str) -> String {
    DateTime::from_timestamp(seconds, 0).unwrap_or_default().format(format).to_string()
}

/// Parses a time in this format to seconds since 1970. A date means its midnight.
pub(crate) fn seconds(text: &str, format: &str) -> Option<i64> {
    let date = || NaiveDate::parse_from_str(text, format).ok().and_then(|date| date.and_hms_opt(0, 0, 0));
    let time = NaiveDateTime::parse_from_str(text, format).ok().or_else(date)?;
    if time.format(format).to_string() == text { Some(time.and_utc().timestamp()) } else { None }
}

/// Whether a text is a time in this format.
pub(crate) fn is(text: &str, format: &str) -> bool {
    seconds(text, format).is_some()
}
