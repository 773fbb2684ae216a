//! Time zones: offsets from UTC at instants, and instants of local times.

use std::fmt;

use chrono::{DateTime, Duration, FixedOffset, NaiveDateTime};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Upper bound in seconds of any zone's offset from UTC, with a margin.
const FAR: i64 = 16 * 3_600;

/// A time zone: an IANA name, or a fixed offset like `+02:00`. It keeps its spelling.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Named(TimeZone),
    Offset(FixedOffset),
}

/// A text that is not a time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a time zone; write a name like Europe/Berlin or an offset like +02:00", excerpt(.text))]
pub struct BadZone {
    pub text: String,
}

/// A change of a zone's offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// First second of the new offset, since 1970 UTC.
    pub at: i64,
    /// Offset until then, in seconds east of UTC.
    pub before: i32,
    /// Offset from then on.
    pub after: i32,
}

/// The instants of a local time, in seconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved {
    /// Exactly one.
    Unique(i64),
    /// None: the local time is skipped. `shifted` is later by the length of the gap.
    Gap {
        /// The instant to use instead.
        shifted: i64,
        /// The change that causes the gap.
        change: Change,
    },
    /// Two: the local time occurs twice.
    Fold {
        /// The earlier one.
        first: i64,
        /// The later one.
        second: i64,
        /// The change that causes the fold.
        change: Change,
    },
}

impl Zone {
    /// Parses a time zone: an IANA name in any case, or an offset, which is a sign, two digits of hours, and optionally
    /// two of minutes, with or without `:`.
    ///
    /// # Errors
    /// [`BadZone`] for anything else.
    pub fn parse(text: &str) -> Result<Self, BadZone> {
        // The library uses that name for unknown zones.
        let named = || TimeZone::get(text).ok().filter(|zone| !zone.is_unknown());
        let kind = offset(text).map(Kind::Offset).or_else(|| named().map(Kind::Named));
        match kind {
            Some(kind) => Ok(Self { name: text.to_owned(), kind }),
            None => Err(BadZone { text: text.to_owned() }),
        }
    }

    /// UTC.
    #[must_use]
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), kind: Kind::Named(TimeZone::UTC) }
    }

    /// Its name as it was spelled.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of the variable `TZ` for this zone. The C library needs names in their original case, and offsets with
    /// POSIX's opposite sign.
    #[must_use]
    pub fn variable(&self) -> String {
        match &self.kind {
            Kind::Named(zone) => zone.iana_name().unwrap_or("UTC").to_owned(),
            Kind::Offset(offset) => {
                let minutes = offset.local_minus_utc() / 60;
                let shown = |sign, minutes: i32| format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60);
                let (east, west) = if minutes < 0 { ('-', '+') } else { ('+', '-') };
                // POSIX allows no colon in the name.
                format!("<{}>{}", shown(east, minutes).replace(':', ""), shown(west, minutes))
            }
        }
    }

    /// Offset in seconds east of UTC at an instant in seconds since 1970 UTC.
    #[must_use]
    pub fn offset_at(&self, at: i64) -> i32 {
        match &self.kind {
            Kind::Offset(offset) => offset.local_minus_utc(),
            Kind::Named(zone) => Timestamp::from_second(at).map_or(0, |at| zone.to_offset(at).seconds()),
        }
    }

    /// The local time at an instant in seconds since 1970 UTC; `None` beyond the calendar.
    #[must_use]
    pub fn wall(&self, at: i64) -> Option<NaiveDateTime> {
        let utc = DateTime::from_timestamp(at, 0)?.naive_utc();
        utc.checked_add_signed(Duration::seconds(self.offset_at(at).into()))
    }

    /// The change of the offset after `from` and not after `to`, both in seconds since 1970 UTC. They must be so close
    /// that there is at most one change (no zone changes twice within two days).
    #[must_use]
    pub fn change(&self, from: i64, to: i64) -> Option<Change> {
        let (before, after) = (self.offset_at(from), self.offset_at(to));
        if before == after {
            return None;
        }
        let (mut old, mut new) = (from, to);
        while new - old > 1 {
            let middle = old + (new - old) / 2;
            if self.offset_at(middle) == before { old = middle } else { new = middle }
        }
        Some(Change { at: new, before, after })
    }

    /// The instants of a local time. Fractions of a second are dropped.
    #[must_use]
    pub fn resolve(&self, wall: NaiveDateTime) -> Resolved {
        let seconds = wall.and_utc().timestamp();
        let Some(change) = self.change(seconds - FAR, seconds + FAR) else {
            return Resolved::Unique(seconds - i64::from(self.offset_at(seconds)));
        };
        let (old, new) = (seconds - i64::from(change.before), seconds - i64::from(change.after));
        match (old < change.at, new >= change.at) {
            (true, true) => Resolved::Fold { first: old, second: new, change },
            (true, false) => Resolved::Unique(old),
            (false, true) => Resolved::Unique(new),
            (false, false) => Resolved::Gap { shifted: old, change },
        }
    }
}

impl Change {
    /// How far the clocks go forward, in seconds; negative if they go back.
    #[must_use]
    pub const fn jump(&self) -> i64 {
        self.after as i64 - self.before as i64
    }

    /// The local time at the end of the gap, or of the first occurrence of a fold.
    #[must_use]
    pub fn end(&self) -> Option<NaiveDateTime> {
        let offset = self.after.max(self.before);
        DateTime::from_timestamp(self.at + i64::from(offset), 0).map(|wall| wall.naive_utc())
    }
}

impl Resolved {
    /// The instant to use: in a gap the shifted one, in a fold the first.
    #[must_use]
    pub const fn instant(self) -> i64 {
        match self {
            Self::Unique(at) | Self::Gap { shifted: at, .. } | Self::Fold { first: at, .. } => at,
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

/// `+02`, `+0230`, `+02:30`; less than a day.
fn offset(text: &str) -> Option<FixedOffset> {
    let (sign, rest) = match text.as_bytes() {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest {
        [a, b] => ([*a, *b], [b'0', b'0']),
        [a, b, c, d] | [a, b, b':', c, d] => ([*a, *b], [*c, *d]),
        _ => return None,
    };
    let number = |[a, b]: [u8; 2]| {
        (a.is_ascii_digit() && b.is_ascii_digit()).then(|| i32::from(a - b'0') * 10 + i32::from(b - b'0'))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    // An offset of a day or more is invalid.
    if minutes < 60 { FixedOffset::east_opt(sign * (hours * 60 + minutes) * 60) } else { None }
}

/// The beginning of a text, as long as a message allows.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HALF_A_DAY: usize = 43_200;

    /// All names of the database.
    fn names() -> Vec<String> {
        jiff::tz::db().available().map(|name| name.to_string()).collect()
    }

    #[test]
    fn names_in_any_case_and_offsets_are_zones() {
        for text in [
            "America/New_York",
            "UTC",
            "Asia/Tokyo",
            "Asia/Jerusalem",
            "Asia/Calcutta",
            "US/Pacific",
            "Israel",
            "Etc/UTC",
            "Etc/GMT+5",
            "Universal",
            "GMT",
            "EST",
            "EST5EDT",
            "utc",
            "america/new_york",
            "+02:00",
            "-05:00",
            "+0530",
            "+02",
        ] {
            let zone = Zone::parse(text).unwrap();
            assert_eq!((zone.name(), zone.to_string().as_str()), (text, text));
            assert_eq!(format!("{zone:?}"), format!("Zone({text})"));
        }
        for text in [
            "",
            "NotATimezone",
            "IST-2",
            "XYZ+3",
            "UTC+2",
            "GMT+2",
            "Z",
            "+24:00",
            "+02:60",
            "+0:",
            "+2",
            "+2:00",
            "02:00",
            "+02:0",
            "+02:00:00",
            " UTC",
            "Europe/Berlin ",
            "../etc/passwd",
            "Europe",
            "+ä0",
            "−05:00",
            "Etc/Unknown",
            "EST5EDT,M3.2.0,M11.1.0",
        ] {
            let error = Zone::parse(text).unwrap_err();
            assert!(error.to_string().contains("is not a time zone; write"), "{error}");
        }
        for (length, shown) in [(60, "x`"), (61, "x…`")] {
            let error = Zone::parse(&"x".repeat(length)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{}{shown} is not a time zone", "x".repeat(59))), "{error}");
        }
    }

    #[test]
    fn a_variable_is_what_the_c_library_understands() {
        for (text, variable) in [
            ("america/new_york", "America/New_York"),
            ("UTC", "UTC"),
            ("+02:00", "<+0200>-02:00"),
            ("-0530", "<-0530>+05:30"),
            ("+00", "<+0000>-00:00"),
        ] {
            assert_eq!(Zone::parse(text).unwrap().variable(), variable);
        }
    }

    /// The assumption of `change`: between 1970 and 2100 no zone changes twice within 52 hours, and no offset reaches
    /// 16 hours.
    #[test]
    fn no_zone_changes_twice_within_two_days() {
        for zone in names() {
            let zone = Zone::parse(&zone).unwrap();
            let (mut last, mut before) = (i64::MIN / 2, zone.offset_at(0));
            for at in (0..4_133_980_800_i64).step_by(HALF_A_DAY) {
                let next = at + 43_200;
                let after = zone.offset_at(next);
                if before != after {
                    let change = zone.change(at, next).unwrap();
                    assert!(change.at - last > 52 * 3_600, "{zone} changes at {last} and at {}", change.at);
                    assert!(i64::from(after.abs()) < FAR && change.jump().abs() <= 86_400, "{zone}");
                    (last, before) = (change.at, after);
                }
            }
        }
    }

    /// The local times around a gap and around a fold, to the second.
    #[test]
    fn a_gap_and_a_fold_have_edges() {
        let zone = Zone::parse("Europe/Berlin").unwrap();
        let at = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap();
        for (from, end, edges) in [
            (
                "2026-03-29 00:00:00",
                "2026-03-29 03:00:00",
                [("01:59:59", "one"), ("02:00:00", "none"), ("02:59:59", "none"), ("03:00:00", "one")],
            ),
            (
                "2026-10-25 00:00:00",
                "2026-10-25 03:00:00",
                [("01:59:59", "one"), ("02:00:00", "two"), ("02:59:59", "two"), ("03:00:00", "one")],
            ),
        ] {
            let begin = at(from).and_utc().timestamp();
            assert_eq!(zone.change(begin, begin + 43_200).unwrap().end(), Some(at(end)));
            for (time, expected) in edges {
                let meant = match zone.resolve(at(&format!("{} {time}", &from[..10]))) {
                    Resolved::Unique(_) => "one",
                    Resolved::Gap { .. } => "none",
                    Resolved::Fold { .. } => "two",
                };
                assert_eq!(meant, expected, "{from} {time}");
            }
        }
    }

    proptest! {
        /// The oracle works in the other direction: it searches all instants with this local time.
        #[test]
        fn a_wall_means_what_shows_it(
            zone in prop::sample::select(names()), near in 0..4_133_000_000_i64, minutes in -1_600..1_600_i64,
        ) {
            let zone = Zone::parse(&zone).unwrap();
            // Close to a change, if there is one within the year.
            let weeks = (0..60).map(|week| near + week * 604_800);
            let change = weeks.map(|at| (at, at + 604_800)).find_map(|(from, to)| zone.change(from, to));
            let at = change.map_or(near, |change| change.at) + minutes * 60;
            let wall = DateTime::from_timestamp(at + i64::from(zone.offset_at(at)), 0).unwrap().naive_utc();
            for wall in [wall, wall + Duration::seconds(change.map_or(0, |change| change.jump()))] {
                let seconds = wall.and_utc().timestamp();
                let mut offsets: Vec<i32> = (-20..=20).map(|hour| zone.offset_at(seconds + hour * 3_600)).collect();
                offsets.sort_unstable();
                offsets.dedup();
                let mut shown: Vec<i64> = offsets.iter().map(|offset| seconds - i64::from(*offset)).collect();
                shown.retain(|at| zone.wall(*at) == Some(wall));
                shown.sort_unstable();
                match (zone.resolve(wall), shown.as_slice()) {
                    (Resolved::Unique(at), [only]) => prop_assert_eq!(at, *only),
                    (Resolved::Fold { first, second, .. }, [a, b]) => prop_assert_eq!((first, second), (*a, *b)),
                    (Resolved::Gap { shifted, change }, []) => {
                        prop_assert_eq!(zone.wall(shifted), Some(wall + Duration::seconds(change.jump())));
                    }
                    (resolved, shown) => prop_assert!(false, "{} {} {:?} {:?}", zone, wall, resolved, shown),
                }
            }
        }
    }
}
