//! Formats instants for people.

use chrono::{DateTime, Datelike as _, NaiveDateTime, Timelike as _};

use crate::parse;
use crate::zone::Zone;

/// Shown for a text that is not a time.
const NO_TIME: &str = "Invalid Date";

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// An instant in milliseconds since 1970 UTC as local time: `Jan 1, 2024, 1:30 PM`.
#[must_use]
pub fn show(at: i64, zone: &Zone) -> String {
    zone.wall(at.div_euclid(1_000)).map_or_else(|| NO_TIME.to_owned(), written)
}

/// A timestamp as local time. A timestamp without an offset is UTC; an invalid one is `Invalid Date`.
#[must_use]
pub fn show_text(text: &str, zone: &Zone) -> String {
    parse::parse(text, &Zone::utc()).map_or_else(|_| NO_TIME.to_owned(), |at| show(at, zone))
}

/// An instant in milliseconds since 1970 UTC, rounded up to a minute, as the local time of day: `14:05`. If it is on
/// another local day than `now`: `14:05 on Jan 2`.
#[must_use]
pub fn clock(at: i64, now: i64, zone: &Zone) -> String {
    let minute = at.saturating_add(59_999).div_euclid(60_000).saturating_mul(60);
    let Some(wall) = zone.wall(minute) else { return NO_TIME.to_owned() };
    let time = format!("{:02}:{:02}", wall.hour(), wall.minute());
    match zone.wall(now.div_euclid(1_000)) {
        Some(today) if today.date() == wall.date() => time,
        _ => format!("{time} on {} {}", month(wall), wall.day()),
    }
}

fn month(wall: NaiveDateTime) -> &'static str {
    usize::try_from(wall.month0()).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&NO_TIME)
}

fn written(wall: NaiveDateTime) -> String {
    let month = month(wall);
    let (is_afternoon, hour) = wall.hour12();
    let half = if is_afternoon { "PM" } else { "AM" };
    // The calendar has a year 0, but people do not use it.
    let (is_current, year) = wall.year_ce();
    let before = if is_current { "" } else { " BC" };
    format!("{month} {}, {year}{before}, {hour}:{:02} {half}", wall.day(), wall.minute())
}

/// Seconds since 1970 UTC of a local time that is taken as UTC.
pub(crate) fn utc_seconds(wall: NaiveDateTime) -> i64 {
    DateTime::timestamp(&wall.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instant;

    #[test]
    fn soon_is_a_time_of_day() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let at = |text: &str| instant(text, &Zone::utc()).unwrap();
        let now = at("2026-04-20T12:00:00Z");
        for (text, expected) in [
            ("2026-04-20T12:05:00Z", "14:05"),
            ("2026-04-20T12:04:01Z", "14:05"),
            ("2026-04-20T21:59:00Z", "23:59"),
            ("2026-04-20T21:59:59.999Z", "00:00 on Apr 21"),
            ("2026-04-21T12:00:00Z", "14:00 on Apr 21"),
        ] {
            assert_eq!(clock(at(text), now, &berlin), expected, "{text}");
        }
        assert_eq!(clock(i64::MAX, now, &berlin), NO_TIME);
    }

    #[test]
    fn times_are_shown_as_the_table_says() {
        for (text, zone, expected) in [
            ("2024-01-01T00:00:00.000Z", "UTC", "Jan 1, 2024, 12:00 AM"),
            ("2024-01-01T12:00:00.000Z", "UTC", "Jan 1, 2024, 12:00 PM"),
            ("2024-01-01T18:30:00.000Z", "America/New_York", "Jan 1, 2024, 1:30 PM"),
            ("2026-02-04T18:30:00.000Z", "America/New_York", "Feb 4, 2026, 1:30 PM"),
            ("2026-06-15T12:00:00.000Z", "America/New_York", "Jun 15, 2026, 8:00 AM"),
            ("2026-06-15T12:00:00.000Z", "Asia/Tokyo", "Jun 15, 2026, 9:00 PM"),
            ("2026-01-01T12:00:00.000Z", "IST-2", "Jan 1, 2026, 12:00 PM"),
            ("2026-01-01T00:00:00.000Z", "Asia/Jerusalem", "Jan 1, 2026, 2:00 AM"),
            ("2026-06-15T12:00:00Z", "Asia/Kolkata", "Jun 15, 2026, 5:30 PM"),
            ("2026-06-15T12:00:00Z", "Asia/Kathmandu", "Jun 15, 2026, 5:45 PM"),
            ("2026-06-15T12:00:00Z", "Australia/Lord_Howe", "Jun 15, 2026, 10:30 PM"),
            ("2026-01-15T23:59:59.999Z", "UTC", "Jan 15, 2026, 11:59 PM"),
            ("2026-01-15T23:59:59.999Z", "Pacific/Auckland", "Jan 16, 2026, 12:59 PM"),
            ("2026-03-08T06:59:59Z", "America/New_York", "Mar 8, 2026, 1:59 AM"),
            ("2026-03-08T07:00:00Z", "America/New_York", "Mar 8, 2026, 3:00 AM"),
            ("2026-11-01T05:30:00Z", "America/New_York", "Nov 1, 2026, 1:30 AM"),
            ("2026-11-01T06:30:00Z", "America/New_York", "Nov 1, 2026, 1:30 AM"),
            ("2026-06-15", "America/New_York", "Jun 14, 2026, 8:00 PM"),
            ("", "UTC", "Invalid Date"),
            ("garbage", "UTC", "Invalid Date"),
            ("2024-02-29T05:05:00Z", "America/Los_Angeles", "Feb 28, 2024, 9:05 PM"),
            ("2026-06-15T12:00:00+02:00", "Europe/Berlin", "Jun 15, 2026, 12:00 PM"),
            ("1999-12-31T23:59:00Z", "Europe/London", "Dec 31, 1999, 11:59 PM"),
            ("2026-09-01T00:09:00Z", "Etc/GMT+5", "Aug 31, 2026, 7:09 PM"),
            ("2026-12-25T17:00:00Z", "America/Sao_Paulo", "Dec 25, 2026, 2:00 PM"),
            ("0999-01-01T00:00:00Z", "UTC", "Jan 1, 999, 12:00 AM"),
            ("0000-01-01T00:00:00Z", "UTC", "Jan 1, 1 BC, 12:00 AM"),
            ("2026-05-05T15:05:00Z", "Pacific/Kiritimati", "May 6, 2026, 5:05 AM"),
            ("2024-01-01 18:30:00", "America/New_York", "Jan 1, 2024, 1:30 PM"),
        ] {
            let zone = Zone::parse(zone).unwrap_or_else(|_| Zone::utc());
            assert_eq!(show_text(text, &zone), expected, "{text} {zone}");
        }
    }

    /// A text of people, in contrast to timestamps of messages: without an offset it is in their time zone.
    #[test]
    fn what_people_write_is_shown_as_they_wrote_it() {
        let zone = Zone::parse("America/New_York").unwrap();
        for text in ["2026-06-15 12:00:00", "2026-06-15T12:00:00"] {
            assert_eq!(show(instant(text, &zone).unwrap(), &zone), "Jun 15, 2026, 12:00 PM");
        }
        assert_eq!(show(i64::MAX, &zone), "Invalid Date");
    }
}
