//! Parses times and ages in command options. A time without an offset is local, like the times that commands print.

use super::human_time::machine_zone;
use crate::clock;
use crate::model::Timestamp;
use crate::model::time::Day;
use crate::time::local;
use crate::time::zone::Zone;

/// The start of a period: a day, a time, or an age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    Day(Day),
    At(Timestamp),
    /// Milliseconds before now.
    Ago(i64),
}

/// Reads `2026-04-20`, `2026-04-20T12:00`, `2026-04-20T12:00:00Z`, `30m`, `2h` or `7d`.
pub(super) fn parse(text: &str) -> Result<Since, String> {
    if let Some(ms) = age(text) {
        return Ok(Since::Ago(ms));
    }
    if let Some(day) = Day::parse(text) {
        return Ok(Since::Day(day));
    }
    let unknown = || {
        format!("`{text}` is not a time; write one like 2026-04-20T12:00 or 2026-04-20, or an age like 30m, 2h or 7d")
    };
    time(text, machine_zone()).map(Since::At).ok_or_else(unknown)
}

/// Reads `2026-04-20T12:00`, `2026-04-20T12:00:00Z` or `2026-04-20`, which means its first moment.
pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    let unknown = || format!("`{text}` is not a time; write one like 2026-04-20T12:00 or 2026-04-20");
    time(text, machine_zone()).ok_or_else(unknown)
}

/// The rules of zones are known until 2100; a later time is UTC.
fn time(text: &str, zone: &Zone) -> Option<Timestamp> {
    local::instant(text, zone).ok().or_else(|| Timestamp::parse(text))
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
    /// Its first moment.
    pub(super) fn start(self) -> Timestamp {
        match self {
            Self::Day(day) => local::begin_of_day(day, clock::wall(), machine_zone()),
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
        assert_eq!(parse("1970-01-02"), Ok(Since::Day(Day::new(1))));
        for text in ["", "h", "-1h", "yesterday", "ä", "1970-13-02", "1970-01-02T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_without_an_offset_are_local() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let at = |text: &str| time(text, &berlin).map(|at| at.to_string());
        for (text, instant) in [
            ("2026-04-20", "2026-04-19T22:00:00.000Z"),
            ("2026-04-20T12:00", "2026-04-20T10:00:00.000Z"),
            ("2026-04-20 12:00:05", "2026-04-20T10:00:05.000Z"),
            ("2026-04-20T12:00:00Z", "2026-04-20T12:00:00.000Z"),
            ("2126-01-01T00:00:00Z", "2126-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(at(text).as_deref(), Some(instant), "{text}");
        }
    }
}
