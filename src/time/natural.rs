//! Times as people say them in commands: `+10m`, `8am`, `tomorrow 8am`, `mon 9:00`. Pure.

use chrono::{Datelike, Days, NaiveDate, NaiveTime, Weekday};

use super::every::Every;
use super::zone::Zone;
use crate::model::time::Timestamp;

/// Examples of all forms, for errors and help.
pub const EXAMPLES: &str = "+10m, 8am, 17:30, tomorrow 8am, mon 9:00, 2026-01-15T21:00";

/// Rewrites a time as people say it to one that [`super::local::instant`] reads in the same zone: an instant for
/// `+10m`, a local time for the others. A time of day without a day is the next one; a weekday is never today. Other
/// texts give `None`.
#[must_use]
pub fn expand(text: &str, zone: &Zone, now: Timestamp) -> Option<String> {
    let text = text.trim().to_lowercase().replace(" am", "am").replace(" pm", "pm");
    if let Some(length) = text.strip_prefix('+').or_else(|| text.strip_prefix("in ")) {
        let length = Every::parse(length.trim()).ok()?.length();
        return Some(now.plus(length).to_string());
    }
    let local = zone.wall(now.millis().div_euclid(1_000))?;
    let (day, time) = match text.rsplit_once(' ') {
        Some((day, time)) => (Some(day.trim()), time_of_day(time)?),
        None => (None, time_of_day(&text)?),
    };
    let today = local.date();
    let date = match day {
        None if time > local.time() => today,
        None | Some("tomorrow") => today.checked_add_days(Days::new(1))?,
        Some("today") => today,
        Some(day) => next(weekday(day)?, today)?,
    };
    Some(date.and_time(time).format("%Y-%m-%dT%H:%M").to_string())
}

/// `8am`, `8:30pm`, `17:30`.
fn time_of_day(text: &str) -> Option<NaiveTime> {
    let (clock, noon) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(clock), _) => (clock, Some(0)),
        (_, Some(clock)) => (clock, Some(12)),
        (None, None) => (text, None),
    };
    let number = |text: &str| {
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| digits)
    };
    let (hour, minute) = match (clock.split_once(':'), noon) {
        (Some((hour, minute)), _) => (number(hour)?, number(minute).filter(|_| minute.len() == 2)?),
        (None, Some(_)) => (number(clock)?, 0),
        // A bare number is ambiguous.
        (None, None) => return None,
    };
    let hour = match noon {
        None => hour,
        Some(noon) => (1..=12).contains(&hour).then(|| hour % 12 + noon)?,
    };
    NaiveTime::from_hms_opt(hour, minute, 0)
}

fn weekday(text: &str) -> Option<Weekday> {
    let day = text.strip_prefix("next ").unwrap_or(text);
    day.parse().ok()
}

/// The first such day after `today`.
fn next(weekday: Weekday, today: NaiveDate) -> Option<NaiveDate> {
    let ahead = (weekday.num_days_from_monday() + 6 - today.weekday().num_days_from_monday()) % 7 + 1;
    today.checked_add_days(Days::new(u64::from(ahead)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::local;

    /// Wednesday, 10:00 in New York.
    const NOW: &str = "2026-03-04T15:00:00.000Z";

    #[test]
    fn times_are_read_as_people_say_them() {
        let zone = Zone::parse("America/New_York").unwrap();
        let now = Timestamp::parse(NOW).unwrap();
        for (text, expected) in [
            ("+10m", Some("2026-03-04T15:10:00.000Z")),
            ("in 2h", Some("2026-03-04T17:00:00.000Z")),
            ("+1d", Some("2026-03-05T15:00:00.000Z")),
            ("11am", Some("2026-03-04T11:00")),
            ("8am", Some("2026-03-05T08:00")),
            ("10:00", Some("2026-03-05T10:00")),
            ("17:30", Some("2026-03-04T17:30")),
            ("today 8am", Some("2026-03-04T08:00")),
            ("Tomorrow 8AM", Some("2026-03-05T08:00")),
            ("tomorrow 8:05 pm", Some("2026-03-05T20:05")),
            ("tomorrow 12am", Some("2026-03-05T00:00")),
            ("tomorrow 12:15pm", Some("2026-03-05T12:15")),
            ("thu 9:00", Some("2026-03-05T09:00")),
            ("wed 9:00", Some("2026-03-11T09:00")),
            ("tuesday 23:59", Some("2026-03-10T23:59")),
            ("next monday 9am", Some("2026-03-09T09:00")),
            // Other texts are parsed as they are, or refused with their own error.
            ("2026-01-15T21:00", None),
            ("8", None),
            ("25:00", None),
            ("13pm", None),
            ("0am", None),
            ("8:5", None),
            ("tomorrow", None),
            ("someday 8am", None),
            ("+", None),
            ("+5", None),
            ("+99999999999999999999d", None),
            ("", None),
            ("\u{0661}:00", None),
        ] {
            let read = expand(text, &zone, now);
            assert_eq!(read.as_deref(), expected, "{text}");
            assert!(read.is_none_or(|read| local::instant(&read, &zone).is_ok()), "{text}");
        }
    }

    /// The clocks skip 02:00 to 03:00 on 8 March: as everywhere, such a time is shifted by the gap.
    #[test]
    fn a_time_that_the_clocks_skip_is_shifted() {
        let zone = Zone::parse("America/New_York").unwrap();
        let read = expand("sun 2:30", &zone, Timestamp::parse(NOW).unwrap()).unwrap();
        assert_eq!(read, "2026-03-08T02:30");
        assert_eq!(local::instant(&read, &zone).unwrap().to_string(), "2026-03-08T07:30:00.000Z");
    }
}
