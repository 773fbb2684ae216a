//! Converts between local times and instants.

pub use hearth_zone::{BadTime, TimeField};

use chrono::DateTime;
use hearth_zone::Resolved;

use super::zone::Zone;
use crate::model::time::{Day, Timestamp};

/// Parses a time from a person or an agent: with an offset it is an instant, without one it is local time in `zone`. A
/// local time that the clocks skip is shifted forward by the length of the gap. Of a time that occurs twice, the first
/// one counts.
///
/// # Errors
/// [`BadTime`] names the part that is wrong; years are from 1970 to 2100.
pub fn instant(text: &str, zone: &Zone) -> Result<Timestamp, BadTime> {
    hearth_zone::instant(text, zone).map(Timestamp::from_millis)
}

/// An instant for people: `Jan 1, 2024, 1:30 PM` in `zone`.
#[must_use]
pub fn show(at: Timestamp, zone: &Zone) -> String {
    hearth_zone::show(at.millis(), zone)
}

/// An instant that is soon, for people: `14:05` in `zone`, or `14:05 on Jan 2` if that is not the day of `now`. Rounded up
/// to a minute.
#[must_use]
pub fn clock(at: Timestamp, now: Timestamp, zone: &Zone) -> String {
    hearth_zone::clock(at.millis(), now.millis(), zone)
}

/// The day of an instant.
#[must_use]
pub fn day(at: Timestamp, zone: &Zone) -> Day {
    Day::of(at, zone.offset_at(at.millis().div_euclid(1_000)))
}

/// The first instant of a day after `now`. The day need not begin at midnight: clocks may skip it, or go back over it.
#[must_use]
pub fn begin_of_day(day: Day, now: Timestamp, zone: &Zone) -> Timestamp {
    let seconds = i64::from(day.number()) * 86_400;
    let Some(midnight) = DateTime::from_timestamp(seconds, 0) else { return Timestamp::from_millis(i64::MAX) };
    let at = |seconds: i64| Timestamp::from_millis(seconds.saturating_mul(1_000));
    match zone.resolve(midnight.naive_utc()) {
        Resolved::Fold { first, second, .. } if at(first) <= now => at(second),
        resolved => at(resolved.instant()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_shown_again() {
        let zone = Zone::parse("America/New_York").unwrap();
        let at = instant("2024-01-01T13:30:12.345", &zone).unwrap();
        assert_eq!(at.to_string(), "2024-01-01T18:30:12.345Z");
        assert_eq!(show(at, &zone), "Jan 1, 2024, 1:30 PM");
    }
}
