//! Fixed intervals: `90s`, `5m`, `2h`, `1d`, or a number of milliseconds.

use std::fmt;

use crate::model::task::Recurrence;
use crate::model::time::{Millis, Timestamp};

/// The shortest interval: nothing is checked more often.
const LEAST: u64 = 1_000;

/// The longest one: a hundred years.
const MOST: u64 = 36_525 * 86_400_000;

const UNITS: [(&str, u64); 4] = [("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// A fixed interval of real time between runs. Days have 24 hours; for schedules by local time, use cron.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every(u64);

/// An invalid interval, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEvery {
    /// It does not have the form of an interval.
    #[error("`{}` is not an interval; write a number and s, m, h or d like 90s or 2h, or a number of milliseconds", .text.escape_debug())]
    Form {
        /// The text, shortened for a message.
        text: String,
    },
    /// Too short or too long.
    #[error("the interval `{}` is out of range; it must be from 1s to 36525d", .text.escape_debug())]
    Range {
        /// The text, shortened for a message.
        text: String,
    },
}

impl Every {
    /// Reads an interval.
    ///
    /// # Errors
    /// [`BadEvery`], also for less than a second and for more than a hundred years.
    pub fn parse(text: &str) -> Result<Self, BadEvery> {
        let shown = || text.chars().take(60).collect::<String>();
        let bare = text.trim();
        let unit = UNITS.into_iter().find_map(|(unit, ms)| bare.strip_suffix(unit).map(|number| (number, ms)));
        let (number, ms) = unit.unwrap_or((bare, 1));
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadEvery::Form { text: shown() });
        }
        let length = number.parse::<u64>().ok().and_then(|number| number.checked_mul(ms));
        match length.filter(|length| (LEAST..=MOST).contains(length)) {
            Some(length) => Ok(Self(length)),
            None => Err(BadEvery::Range { text: shown() }),
        }
    }

    /// An interval of this length.
    ///
    /// # Errors
    /// As for [`Self::parse`].
    pub fn of(length: Millis) -> Result<Self, BadEvery> {
        let good = (LEAST..=MOST).contains(&length.get());
        if good { Ok(Self(length.get())) } else { Err(BadEvery::Range { text: length.get().to_string() }) }
    }

    #[must_use]
    pub const fn length(self) -> Millis {
        Millis::new(self.0)
    }

    /// The first point after `after` on the grid `anchor`, `anchor` + one interval, + two … Missed runs do not shift
    /// the grid. None past the end of time.
    #[must_use]
    pub fn next(self, after: Timestamp, anchor: Timestamp) -> Option<Timestamp> {
        let (after, anchor) = (i128::from(after.millis()), i128::from(anchor.millis()));
        let length = i128::from(self.0);
        let steps = if after < anchor { 0 } else { (after - anchor) / length + 1 };
        i64::try_from(anchor + steps * length).ok().map(Timestamp::from_millis)
    }
}

impl fmt::Display for Every {
    /// In the largest unit that represents it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.into_iter().rev().find(|(_, ms)| self.0.is_multiple_of(*ms)) {
            Some((unit, ms)) => write!(f, "{}{unit}", self.0 / ms),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Text form of a recurrence: a cron expression or an interval. None if the task runs once.
#[must_use]
pub fn shown(recurrence: &Recurrence) -> Option<String> {
    match recurrence {
        Recurrence::Once => None,
        Recurrence::Cron(text) => Some(text.clone()),
        // An interval that another version of Hearth accepted is shown as it is.
        Recurrence::Every(length) => Some(Every::of(*length).map_or_else(|_| length.to_string(), |it| it.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn intervals_are_read_and_shown() {
        for (text, ms, shown) in [
            ("90s", 90_000, "90s"),
            ("5m", 300_000, "5m"),
            ("2h", 7_200_000, "2h"),
            ("1d", 86_400_000, "1d"),
            ("3600000", 3_600_000, "1h"),
            (" 90m ", 5_400_000, "90m"),
            ("24h", 86_400_000, "1d"),
            ("1500", 1_500, "1500"),
        ] {
            let every = Every::parse(text).unwrap();
            assert_eq!((every.length(), every.to_string().as_str()), (Millis::new(ms), shown));
        }
        for (text, word) in [
            ("", "not an interval"),
            ("m", "not an interval"),
            ("5 m", "not an interval"),
            ("-5m", "not an interval"),
            ("1.5h", "not an interval"),
            ("1h30m", "not an interval"),
            ("5w", "not an interval"),
            ("0s", "out of range"),
            ("999", "out of range"),
            ("36526d", "out of range"),
            ("99999999999999999999d", "out of range"),
        ] {
            let error = Every::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn runs_stay_on_their_grid(ms in LEAST..MOST, anchor in 0..4_000_000_000_000_i64, after in 0..4_000_000_000_000_i64) {
            let every = Every(ms);
            let next = every.next(Timestamp::from_millis(after), Timestamp::from_millis(anchor)).unwrap().millis();
            let length = i64::try_from(ms).unwrap();
            prop_assert_eq!((next - anchor) % length, 0);
            prop_assert!(next > after && next >= anchor && (next == anchor || next - length <= after));
        }
    }

    #[test]
    fn time_has_an_end() {
        let every = Every::parse("1d").unwrap();
        let last = Timestamp::from_millis(i64::MAX);
        assert_eq!(every.next(last, Timestamp::from_millis(0)), None);
    }
}
