//! Parses times and ages in command options.

use crate::clock;
use crate::model::Timestamp;

/// The start of a period: a time, or an age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    At(Timestamp),
    /// Milliseconds before now.
    Ago(i64),
}

/// Reads `2026-04-20T12:00:00Z`, `2026-04-20`, `30m`, `2h` or `7d`.
pub(super) fn parse(text: &str) -> Result<Since, String> {
    if let Some(ms) = age(text) {
        return Ok(Since::Ago(ms));
    }
    let unknown = || {
        format!(
            "`{text}` is not a time; write one like 2026-04-20T12:00:00Z or 2026-04-20, or an age like 30m, 2h or 7d"
        )
    };
    time(text).map(Since::At).ok_or_else(unknown)
}

/// Parses a time. A date means its first moment.
fn time(text: &str) -> Option<Timestamp> {
    Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}T00:00:00Z")))
}

/// Reads `2026-04-20T12:00:00Z` or `2026-04-20`; a time without a zone is UTC.
pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    time(text).ok_or_else(|| format!("`{text}` is not a time; write one like 2026-04-20T12:00:00Z or 2026-04-20"))
}

fn age(text: &str) -> Option<i64> {
    let unit = match text.chars().last()? {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        _ => return None,
    };
    let number: u32 = text.get(..text.len().saturating_sub(1))?.parse().ok()?;
    Some(i64::from(number).saturating_mul(unit))
}

impl Since {
    /// The time, computed from the current time for an age.
    pub(super) fn start(self) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(ms) => Timestamp::from_millis(clock::wall().millis().saturating_sub(ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ages() {
        for (text, ms) in [("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000), ("7d", 604_800_000)] {
            assert_eq!(parse(text), Ok(Since::Ago(ms)), "{text}");
        }
        assert_eq!(parse("1970-01-01T00:00:01Z"), Ok(Since::At(Timestamp::from_millis(1_000))));
        assert_eq!(parse("1970-01-02"), Ok(Since::At(Timestamp::from_millis(86_400_000))));
        assert_eq!(parse_time("1970-01-02"), Ok(Timestamp::from_millis(86_400_000)));
        for text in ["", "h", "-1h", "yesterday", "ä", "1970-13-02", "1970-01-02T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
