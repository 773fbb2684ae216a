//! Slots of a series, computed differently than in the engine: day by day, by the rules of the time zone.

use std::collections::BTreeSet;

use chrono::{
    DateTime, Datelike as _, Days, Duration, LocalResult, NaiveDate, NaiveDateTime, Offset as _, TimeZone as _,
};
use chrono_tz::Tz;

/// The schedule of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Once,
    Cron(Simple),
    /// Milliseconds, on a grid.
    Every(i64),
}

/// Expressions that are simple enough to be expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Simple {
    pub(super) minutes: Vec<u32>,
    /// None is every hour.
    pub(super) hours: Option<Vec<u32>>,
    pub(super) days: On,
}

/// Days on which something runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum On {
    All,
    /// Days of the week, Sunday is 0.
    Week(Vec<u32>),
    /// Days of the month.
    Month(Vec<u32>),
}

impl Simple {
    pub(super) fn text(&self) -> String {
        let list = |all: &[u32]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let (month, week) = match &self.days {
            On::All => ("*".to_owned(), "*".to_owned()),
            On::Week(days) => ("*".to_owned(), list(days)),
            On::Month(days) => (list(days), "*".to_owned()),
        };
        let hours = self.hours.as_deref().map_or_else(|| "*".to_owned(), list);
        format!("{} {hours} {month} * {week}", list(&self.minutes))
    }

    fn on(&self, day: NaiveDate) -> bool {
        match &self.days {
            On::All => true,
            On::Week(days) => days.contains(&day.weekday().num_days_from_sunday()),
            On::Month(days) => days.contains(&day.day()),
        }
    }

    fn slots(&self, (from, to): (i64, i64), zone: Tz) -> BTreeSet<i64> {
        let mut slots = BTreeSet::new();
        let mut day = local(from, zone).date() - Days::new(1);
        let last = local(to, zone).date();
        while day <= last {
            if self.on(day) {
                let all: Vec<u32> = (0..24).collect();
                for hour in self.hours.as_ref().unwrap_or(&all) {
                    for minute in &self.minutes {
                        slots.extend(self.instants(day.and_hms_opt(*hour, *minute, 0).unwrap(), zone));
                    }
                }
            }
            day = day + Days::new(1);
        }
        slots.into_iter().filter(|slot| *slot > from && *slot <= to).collect()
    }

    fn instants(&self, wall: NaiveDateTime, zone: Tz) -> Vec<i64> {
        match zone.from_local_datetime(&wall) {
            LocalResult::Single(at) => vec![at.timestamp_millis()],
            LocalResult::Ambiguous(first, _) if self.hours.is_some() => vec![first.timestamp_millis()],
            LocalResult::Ambiguous(first, second) => vec![first.timestamp_millis(), second.timestamp_millis()],
            LocalResult::None => {
                // Shifted by the length of the gap, using the offset before it.
                let before =
                    (1..).find_map(|step| zone.from_local_datetime(&(wall - Duration::minutes(15 * step))).latest());
                let offset = before.unwrap().offset().fix().local_minus_utc();
                vec![(wall - Duration::seconds(i64::from(offset))).and_utc().timestamp_millis()]
            }
        }
    }
}

fn local(at: i64, zone: Tz) -> NaiveDateTime {
    DateTime::from_timestamp_millis(at).unwrap().with_timezone(&zone).naive_local()
}

/// The slots after `from` up to `to`.
pub(super) fn slots(kind: &Kind, anchor: i64, (from, to): (i64, i64), zone: Tz) -> BTreeSet<i64> {
    match kind {
        Kind::Once => BTreeSet::new(),
        Kind::Cron(simple) => simple.slots((from, to), zone),
        Kind::Every(length) => {
            let first = anchor + ((from - anchor).div_euclid(*length) + 1) * length;
            (0..).map(|step| first + step * length).take_while(|slot| *slot <= to).collect()
        }
    }
}

/// The offset changes of a time zone, to the minute.
pub(crate) fn changes((from, to): (i64, i64), zone: Tz) -> Vec<i64> {
    const DAY: i64 = 86_400_000;
    let offset =
        |at: i64| zone.offset_from_utc_datetime(&DateTime::from_timestamp_millis(at).unwrap().naive_utc()).fix();
    let mut found = Vec::new();
    let mut at = from;
    while at < to {
        let (mut low, mut high) = (at, at + DAY);
        if offset(low) != offset(high) {
            while high - low > 60_000 {
                let middle = i64::midpoint(low, high);
                if offset(middle) == offset(low) { low = middle } else { high = middle }
            }
            found.push(high);
        }
        at += DAY;
    }
    found
}

#[test]
fn the_oracle_knows_the_nights_on_which_clocks_change() {
    let at = |text: &str| DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis();
    let daily = |hour: u32| Simple { minutes: vec![30], hours: Some(vec![hour]), days: On::All };
    let hourly = Simple { minutes: vec![30], hours: None, days: On::All };
    let zone = chrono_tz::America::New_York;
    let spring = (at("2026-03-08T05:00:00Z"), at("2026-03-08T09:00:00Z"));
    assert_eq!(daily(2).slots(spring, zone), BTreeSet::from([at("2026-03-08T07:30:00Z")]));
    let autumn = (at("2026-11-01T04:00:00Z"), at("2026-11-01T08:00:00Z"));
    assert_eq!(daily(1).slots(autumn, zone), BTreeSet::from([at("2026-11-01T05:30:00Z")]));
    assert_eq!(hourly.slots(autumn, zone).len(), 4);
    assert_eq!(changes((at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z")), zone).len(), 2);
}
