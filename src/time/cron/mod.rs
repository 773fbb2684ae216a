//! Unix cron expressions, in the local time of a time zone.
//!
//! The fields are parsed here (`field.rs`) and turned into lists, because dialects differ in meaning: Sunday is 0 and
//! 7, and if both the day of the month and the day of the week are restricted, either is enough. The crate `cron`
//! receives only lists and does the calendar arithmetic (`calendar.rs`).
//!
//! Rules for converting local times to instants:
//! * a time that the clocks skip is run as much later as they skip (02:30 at 03:30);
//! * a time that they show twice is run once, the first time; only what runs in every hour of the day runs in the repeated
//!   hour as well, so that it runs in every real hour;
//! * instants rise strictly.

mod calendar;
mod error;
mod field;

use std::fmt;

use chrono::{Duration, NaiveDateTime};
use hearth_zone::Resolved;

pub use error::{BadCron, Field, Problem};

use self::calendar::Calendar;
use super::zone::Zone;
use crate::model::time::Timestamp;

/// Seconds around an instant in which a change of the clocks matters: none moves them by more than a day.
const NEAR: i64 = 25 * 3_600;

/// The longest expression, in bytes.
const TEXT_MAX: usize = 1_000;

/// Short forms, and what they stand for.
const NAMED: [(&str, &str); 11] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekdays", "0 0 * * 1-5"),
    ("@weekends", "0 0 * * 0,6"),
    ("@hourly", "0 * * * *"),
    ("@minutely", "* * * * *"),
    ("@secondly", "* * * * * *"),
];

/// A cron expression.
#[derive(Debug, Clone)]
pub struct Cron {
    text: String,
    calendar: Calendar,
    /// It runs in every hour of the days on which it runs.
    is_hourly: bool,
}

impl Cron {
    /// Reads an expression: minute, hour, day of the month, month, day of the week; with six fields the first are
    /// seconds. Or a short form like `@daily`.
    ///
    /// # Errors
    /// [`BadCron`] names the field and what is wrong with it, also if the day never comes.
    pub fn parse(text: &str) -> Result<Self, BadCron> {
        let bad = |problem| BadCron::of(text, None, problem);
        if text.len() > TEXT_MAX {
            return Err(bad(Problem::TooLong));
        }
        let bare = text.trim();
        let named = NAMED.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(bare));
        if named.is_none() && bare.starts_with('@') {
            return Err(bad(Problem::NoSuchName));
        }
        let words: Vec<&str> = named.map_or(bare, |(_, full)| full).split_whitespace().collect();
        let words: [&str; 6] = match words.as_slice() {
            [minutes, hours, days, months, weekdays] => ["0", minutes, hours, days, months, weekdays],
            [seconds, minutes, hours, days, months, weekdays] => [seconds, minutes, hours, days, months, weekdays],
            [] => return Err(bad(Problem::Empty)),
            other => return Err(bad(Problem::Count(other.len()))),
        };
        let with_seconds = bare.split_whitespace().count() == 6 || named.is_some_and(|(name, _)| name == "@secondly");
        let fields = field::read(words).map_err(|(field, problem)| BadCron::of(text, Some(field), problem))?;
        let calendar = Calendar::of(&fields).map_err(|problem| BadCron::of(text, Some(Field::DayOfMonth), problem))?;
        Ok(Self { text: fields.written(with_seconds), calendar, is_hourly: fields.is_hourly() })
    }

    /// The first instant after `after` at which it runs; none after the year 2100.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let after = after.millis().div_euclid(1_000);
        let wall = zone.wall(after)?;
        let mut found = NextMatch { after, best: None };
        self.consider(self.calendar.after(wall), zone, &mut found);
        if let Some(change) = zone.change(after - NEAR, after).filter(|change| change.jump() > 0)
            && let Some(skipped) = self.calendar.after(wall - Duration::seconds(change.jump()))
            && Some(skipped) < change.end()
        {
            // In a gap: skipped times still follow, later by the length of the gap.
            found.note(zone.resolve(skipped).instant());
        }
        if self.is_hourly
            && let Some(change) = zone.change(after, after + NEAR)
            && let Some(start) = change.end().map(|end| end + Duration::seconds(change.jump().min(0)))
            && let Some(repeated) = self.calendar.after(start - Duration::seconds(1))
            && let Resolved::Fold { second, .. } = zone.resolve(repeated)
        {
            // Before or in the first pass of a fold: the second pass comes before any later local time.
            found.note(second);
        }
        found.best.map(|at| Timestamp::from_millis(at * 1_000))
    }

    /// The instants after `after` at which it runs, in order.
    pub fn iter<'a>(&'a self, after: Timestamp, zone: &'a Zone) -> impl Iterator<Item = Timestamp> + 'a {
        std::iter::successors(self.next(after, zone), |at| self.next(*at, zone))
    }

    /// Adds the instants that the first matching local time can mean, and the next one if that one is moved by a gap.
    fn consider(&self, wall: Option<NaiveDateTime>, zone: &Zone, found: &mut NextMatch) {
        let Some(wall) = wall else { return };
        let later = match zone.resolve(wall) {
            Resolved::Unique(at) => return found.note(at),
            Resolved::Gap { shifted, change } => {
                found.note(shifted);
                change.end()
            }
            Resolved::Fold { first, second, change } => {
                found.note(first);
                if self.is_hourly {
                    found.note(second);
                }
                change.end()
            }
        };
        let later = later.and_then(|end| self.calendar.after(end - Duration::seconds(1)));
        if let Some(later) = later {
            found.note(zone.resolve(later).instant());
        }
    }
}

/// The earliest instant after another one, in seconds since 1970 UTC.
struct NextMatch {
    after: i64,
    best: Option<i64>,
}

impl NextMatch {
    fn note(&mut self, at: i64) {
        if at > self.after && self.best.is_none_or(|best| at < best) {
            self.best = Some(at);
        }
    }
}

impl fmt::Display for Cron {
    /// The expression in canonical form: five or six fields, numbers for names, one space between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Cron {}

#[cfg(test)]
mod tests;
