//! Computes the local times that an expression matches. The crate `cron` does the calendar arithmetic. It gets lists,
//! several where one expression cannot describe the last day of a month, or days of the month or of the week.

use std::str::FromStr as _;

use chrono::{NaiveDateTime, Utc};
use cron::Schedule;

use super::error::Problem;
use super::field::{Fields, Item, Set};

/// Years that the crate supports.
const YEARS: std::ops::RangeInclusive<u32> = 1970..=2100;

/// Matches a time if one of its schedules does.
#[derive(Debug, Clone)]
pub(super) struct Calendar {
    schedules: Vec<Schedule>,
}

/// Days that are matched together: the days of these months and years that are in both sets. An empty set matches
/// everything.
#[derive(Debug, Clone, Copy, Default)]
struct Days {
    months: Option<Set>,
    years: Option<Leap>,
    days: Option<Set>,
    weekdays: Option<Set>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leap {
    Only,
    Never,
}

/// Lengths of months: the months, the years for which the entry holds, and the number of days.
const LENGTHS: [(&[u32], Option<Leap>, u32); 4] = [
    (&[1, 3, 5, 7, 8, 10, 12], None, 31),
    (&[4, 6, 9, 11], None, 30),
    (&[2], Some(Leap::Only), 29),
    (&[2], Some(Leap::Never), 28),
];

impl Calendar {
    pub(super) fn of(fields: &Fields) -> Result<Self, Problem> {
        let mut schedules = Vec::new();
        for days in decide_days(fields).into_iter().filter(Days::ever_come) {
            let text = days.expression(fields);
            schedules.push(Schedule::from_str(&text).map_err(|error| Problem::Calendar(error.to_string()))?);
        }
        if schedules.is_empty() { Err(Problem::Never) } else { Ok(Self { schedules }) }
    }

    /// The first match after a time, ignoring fractions of a second.
    pub(super) fn after(&self, wall: NaiveDateTime) -> Option<NaiveDateTime> {
        let wall = wall.and_utc();
        let next = |schedule: &Schedule| schedule.after::<Utc>(&wall).next();
        self.schedules.iter().filter_map(next).min().map(|time| time.naive_utc())
    }
}

/// Where both the day of the month and the day of the week are restricted, either is enough.
fn decide_days(fields: &Fields) -> Vec<Days> {
    let months = Some(fields.months.set());
    let any = Days { months, ..Days::default() };
    if fields.days.is_open() && fields.weekdays.is_open() {
        return vec![any];
    }
    let mut all = Vec::new();
    if !fields.days.is_open() {
        let days = fields.days.set();
        if !days.is_empty() {
            all.push(Days { days: Some(days), ..any });
        }
        if fields.days.items().contains(&Item::LastDay) {
            all.extend(at_the_end(fields.months.set(), 1, None));
        }
    }
    if !fields.weekdays.is_open() {
        let weekdays = fields.weekdays.set();
        if !weekdays.is_empty() {
            all.push(Days { weekdays: Some(weekdays), ..any });
        }
        for item in fields.weekdays.items() {
            match *item {
                Item::NthWeekday(day, nth) => {
                    let days = (nth * 7 - 6..=(nth * 7).min(31)).collect();
                    all.push(Days { days: Some(days), weekdays: Some(only(day)), ..any });
                }
                Item::LastWeekday(day) => all.extend(at_the_end(fields.months.set(), 7, Some(only(day)))),
                Item::All(_) | Item::One(..) | Item::Range(..) | Item::LastDay => {}
            }
        }
    }
    all
}

/// The last days of each of these months.
fn at_the_end(months: Set, count: u32, weekdays: Option<Set>) -> impl Iterator<Item = Days> {
    LENGTHS.into_iter().map(move |(those, years, length)| Days {
        months: Some(months.values().filter(|month| those.contains(month)).collect()),
        years,
        days: Some((length + 1 - count..=length).collect()),
        weekdays,
    })
}

fn only(value: u32) -> Set {
    std::iter::once(value).collect()
}

impl Days {
    /// Whether one of the months is long enough for one of the days.
    fn ever_come(&self) -> bool {
        let first = self.days.map_or(Some(1), |days| days.values().next());
        let months = self.months.map_or_else(Vec::new, |months| months.values().collect());
        let long =
            |month: &u32| LENGTHS.iter().any(|(those, _, length)| those.contains(month) && first <= Some(*length));
        first.is_some() && months.iter().any(long)
    }

    /// The expression for the crate: weekdays count from Sunday = 1, and there are years.
    fn expression(&self, fields: &Fields) -> String {
        let years = self.years.map(|leap| YEARS.filter(move |year| is_leap(*year) == (leap == Leap::Only)));
        let mut text = String::new();
        for set in [fields.seconds.set(), fields.minutes.set(), fields.hours.set()] {
            listed(&mut text, Some(set.values()));
        }
        listed(&mut text, self.days.map(Set::values));
        listed(&mut text, self.months.map(Set::values));
        listed(&mut text, self.weekdays.map(|set| set.values().map(|day| day + 1)));
        listed(&mut text, years);
        text
    }
}

/// A field: a list, or `*`.
fn listed(text: &mut String, values: Option<impl Iterator<Item = u32>>) {
    match values {
        None => text.push_str("* "),
        Some(values) => {
            text.push_str(&values.map(|value| value.to_string()).collect::<Vec<_>>().join(","));
            text.push(' ');
        }
    }
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}
