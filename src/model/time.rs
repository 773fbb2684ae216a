//! Time as data. Only `clock.rs` creates moments from clocks.

use serde::{Deserialize, Serialize};

/// An instant: milliseconds since 1970 UTC, by the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(i64);

/// A day of the calendar of the installation's users: days since 1970-01-01.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Day(u32);

impl Day {
    /// The day of an instant where clocks are ahead of UTC by so many seconds.
    #[must_use]
    pub const fn of(at: Timestamp, ahead: i32) -> Self {
        let day = (at.0.div_euclid(1_000).saturating_add(ahead as i64)).div_euclid(86_400);
        Self(if day < 0 {
            0
        } else if day > 9_999_999 {
            9_999_999
        } else {
            day as u32
        })
    }

    /// From its number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The first day of its month.
    #[must_use]
    pub fn month(self) -> Self {
        let Some(date) = self.date() else { return self };
        Self(self.0.saturating_sub(chrono::Datelike::day0(&date)))
    }

    /// The day after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The first day of the month after it.
    #[must_use]
    pub fn next_month(self) -> Self {
        let next = self.date().and_then(|date| date.checked_add_months(chrono::Months::new(1)));
        let number = next.and_then(|date| u32::try_from(date.to_epoch_days()).ok());
        number.map_or(self, Self).month()
    }

    /// Parses `2026-11-25`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let date = chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        u32::try_from(date.to_epoch_days()).ok().map(Self)
    }

    fn date(self) -> Option<chrono::NaiveDate> {
        chrono::NaiveDate::from_epoch_days(i32::try_from(self.0).ok()?)
    }
}

/// `2026-11-25`.
impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.date() {
            Some(date) => write!(f, "{}", date.format("%Y-%m-%d")),
            None => write!(f, "day {}", self.0),
        }
    }
}

/// A length of time in milliseconds, never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Millis(u64);

/// A point in the daemon's awake time: a run of the daemon, and milliseconds awake since that run began.
///
/// Awake time stops while the machine sleeps and ignores clock steps. All ages that stop or retry something are
/// differences of awake times. Points are ordered as they happen: later runs are later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Awake {
    run: u64,
    ms: u64,
}

/// The current time, as given to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Wall clock: for people, approvals, schedules, retention.
    pub wall: Timestamp,
    /// Awake time: for ages and backoffs.
    pub awake: Awake,
}

impl Moment {
    /// A moment at another wall-clock time, with the matching awake time if the machine stays awake until then.
    #[must_use]
    pub fn at(self, wall: Timestamp) -> Self {
        let ahead = u64::try_from(wall.0.saturating_sub(self.wall.0)).unwrap_or(0);
        Self { wall, awake: self.awake.plus(Millis(ahead)) }
    }
}

impl Timestamp {
    /// From milliseconds since 1970 UTC.
    #[must_use]
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970 UTC.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Parses ISO 8601 / RFC 3339. A text without an offset is UTC. Returns none for times before the year 0 or after
    /// 9999 in UTC, even if they are within that range at their offset, so every parsed time can be written back.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let zoned = chrono::DateTime::parse_from_rfc3339(text).map(|t| t.to_utc());
        let bare = |format| chrono::NaiveDateTime::parse_from_str(text, format).map(|t| t.and_utc());
        zoned
            .or_else(|_| bare("%Y-%m-%dT%H:%M:%S%.f"))
            .or_else(|_| bare("%Y-%m-%d %H:%M:%S%.f"))
            .or_else(|_| chrono::DateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f%z").map(|t| t.to_utc()))
            .ok()
            .filter(|time| (0..=9_999).contains(&chrono::Datelike::year(time)))
            .map(|time| Self(time.timestamp_millis()))
    }

    /// This instant minus a length.
    #[must_use]
    pub const fn minus(self, length: Millis) -> Self {
        Self(self.0.saturating_sub_unsigned(length.0))
    }

    /// Time from `then` to this instant; zero if `then` is later.
    #[must_use]
    pub fn since(self, then: Self) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(then.0)).unwrap_or(0))
    }

    /// This instant plus a length.
    #[must_use]
    pub const fn plus(self, length: Millis) -> Self {
        Self(self.0.saturating_add_unsigned(length.0))
    }
}

impl std::fmt::Display for Timestamp {
    /// ISO 8601 in UTC with milliseconds and `Z`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match chrono::DateTime::from_timestamp_millis(self.0) {
            Some(time) => f.write_str(&time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)),
            None => write!(f, "{} ms", self.0),
        }
    }
}

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// From milliseconds.
    #[must_use]
    pub const fn new(ms: u64) -> Self {
        Self(ms)
    }

    /// From seconds.
    #[must_use]
    pub const fn seconds(s: u64) -> Self {
        Self(s.saturating_mul(1_000))
    }

    /// From minutes.
    #[must_use]
    pub const fn minutes(m: u64) -> Self {
        Self::seconds(m.saturating_mul(60))
    }

    /// From days.
    #[must_use]
    pub fn days(d: u32) -> Self {
        Self::minutes(u64::from(d) * 24 * 60)
    }

    /// In milliseconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// As the standard library's duration.
    #[must_use]
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            ms if ms < 1_000 => write!(f, "{ms} ms"),
            ms if ms < 120_000 => write!(f, "{} s", ms / 1_000),
            ms if ms < 120 * 60_000 => write!(f, "{} min", ms / 60_000),
            ms => write!(f, "{} h", ms / 3_600_000),
        }
    }
}

impl Awake {
    /// A point of a run.
    #[must_use]
    pub const fn new(run: u64, ms: u64) -> Self {
        Self { run, ms }
    }

    /// The run.
    #[must_use]
    pub const fn run(self) -> u64 {
        self.run
    }

    /// Milliseconds awake since the run began.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.ms
    }

    /// Time from `then` to this point. If `then` is from another run, the time since the start of this run.
    #[must_use]
    pub const fn since(self, then: Self) -> Millis {
        if then.run == self.run { Millis(self.ms.saturating_sub(then.ms)) } else { Millis(self.ms) }
    }

    /// This point plus a length of the same run.
    #[must_use]
    pub const fn plus(self, length: Millis) -> Self {
        Self { run: self.run, ms: self.ms.saturating_add(length.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_without_a_zone_are_utc() {
        let noon = Timestamp::parse("2026-04-20T12:00:00Z");
        assert!(noon.is_some());
        for text in [
            "2026-04-20 12:00:00",
            "2026-04-20T12:00:00",
            "2026-04-20T12:00:00.000",
            "2026-04-20T12:00:00.000Z",
            "2026-04-20T12:00:00z",
            "2026-04-20T14:00:00+02:00",
            "2026-04-20T14:00:00+0200",
            "2026-04-20T07:00:00-05:00",
        ] {
            assert_eq!(Timestamp::parse(text), noon, "{text}");
        }
        assert_eq!(Timestamp::parse("not a date"), None);
    }

    #[test]
    fn what_is_read_can_be_written() {
        for text in ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "2016-12-31T23:59:60.500Z"] {
            let at = Timestamp::parse(text).unwrap();
            assert_eq!(Timestamp::parse(&at.to_string()), Some(at), "{text}");
        }
        for text in
            ["0000-01-01T00:00:00+14:00", "9999-12-31T23:59:59-01:00", "-001-12-31T00:00:00", "+12026-04-20T12:00:00"]
        {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn ages_do_not_cross_runs() {
        let now = Awake::new(4, 7_000);
        assert_eq!(now.since(Awake::new(4, 2_000)), Millis::seconds(5));
        assert_eq!(now.since(Awake::new(3, 9_000_000)), Millis::seconds(7));
        assert_eq!(now.since(Awake::new(4, 8_000)), Millis::ZERO);
    }
}
