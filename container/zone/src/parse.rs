//! Parses times in the notations of people and agents.

use std::fmt;
use std::ops::RangeInclusive;

use chrono::{Datelike as _, NaiveDate, NaiveDateTime};

use crate::show::utc_seconds;
use crate::zone::{Zone, excerpt};

/// Years in which the rules of zones are known; times must be in them.
pub const YEARS: RangeInclusive<i32> = 1970..=2100;

/// A part of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeField {
    Year,
    Month,
    /// The day of the month.
    Day,
    Hour,
    Minute,
    Second,
    /// The offset from UTC at the end.
    Offset,
}

/// Why a text is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTime {
    /// Unknown format.
    #[error("`{}` is not a time; write a local time like 2026-01-15T09:00, or with its offset like 2026-01-15T09:00:00Z", excerpt(.text))]
    Form { text: String },
    /// A part is out of range.
    #[error("the {field} of `{}` is {value}, and must be {allowed}", excerpt(.text))]
    Field {
        text: String,
        field: TimeField,
        value: u32,
        /// The allowed range.
        allowed: String,
    },
}

/// Parses a time: a date, then `T` or a space, hours and minutes, optionally seconds with a fraction, optionally `Z` or
/// an offset. Without an offset it is a local time in `zone`; a date alone means its midnight. Surrounding spaces are
/// ignored. The result is in milliseconds since 1970 UTC; finer fractions are dropped.
///
/// # Errors
/// [`BadTime`] names the invalid part. The year as written must be in [`YEARS`].
pub fn instant(text: &str, zone: &Zone) -> Result<i64, BadTime> {
    let (at, year) = read(text, zone)?;
    if YEARS.contains(&year) {
        return Ok(at);
    }
    let allowed = format!("from {} to {}", YEARS.start(), YEARS.end());
    Err(BadTime::Field { text: text.to_owned(), field: TimeField::Year, value: year.unsigned_abs(), allowed })
}

/// Like [`instant`], for any year of four digits.
pub(crate) fn parse(text: &str, zone: &Zone) -> Result<i64, BadTime> {
    read(text, zone).map(|(at, _)| at)
}

/// The instant, and the year as written: the offset may move the instant into another year.
fn read(text: &str, zone: &Zone) -> Result<(i64, i32), BadTime> {
    let mut rest = Rest { text, left: text.trim() };
    let date = date(&mut rest)?;
    let (wall, millis, offset) = match rest.left.bytes().next() {
        None => (date.and_hms_opt(0, 0, 0), 0, None),
        Some(b'T' | b't' | b' ') => {
            rest.skip(1);
            let (wall, millis) = time(&mut rest, date)?;
            (wall, millis, offset(&mut rest)?)
        }
        Some(_) => return Err(rest.form()),
    };
    let wall = wall.ok_or_else(|| rest.form())?;
    let seconds = match offset {
        Some(offset) => utc_seconds(wall) - offset,
        None => zone.resolve(wall).instant(),
    };
    Ok((seconds * 1_000 + millis, date.year()))
}

fn date(rest: &mut Rest<'_>) -> Result<NaiveDate, BadTime> {
    let year = rest.digits(4)?;
    rest.expect('-')?;
    let month = rest.digits(2)?;
    rest.expect('-')?;
    let day = rest.digits(2)?;
    let signed = i32::try_from(year).unwrap_or_default();
    let first = NaiveDate::from_ymd_opt(signed, month, 1);
    let first = first.ok_or_else(|| rest.wrong(TimeField::Month, month, "from 1 to 12".to_owned()))?;
    let days = u32::from(first.num_days_in_month());
    first
        .with_day(day)
        .ok_or_else(|| rest.wrong(TimeField::Day, day, format!("from 1 to {days} in {year:04}-{month:02}")))
}

fn time(rest: &mut Rest<'_>, date: NaiveDate) -> Result<(Option<NaiveDateTime>, i64), BadTime> {
    let hour = rest.within(TimeField::Hour, 23)?;
    rest.expect(':')?;
    let minute = rest.within(TimeField::Minute, 59)?;
    let (mut second, mut millis) = (0, 0);
    if rest.left.starts_with(':') {
        rest.skip(1);
        second = rest.within(TimeField::Second, 59)?;
        if rest.left.starts_with('.') {
            rest.skip(1);
            millis = rest.thousandths()?;
        }
    }
    Ok((date.and_hms_opt(hour, minute, second), millis))
}

/// Seconds east of UTC, if the text ends with an offset.
fn offset(rest: &mut Rest<'_>) -> Result<Option<i64>, BadTime> {
    let sign = match rest.left.bytes().next() {
        None => return Ok(None),
        Some(b'Z' | b'z') => {
            rest.skip(1);
            return rest.end(Some(0));
        }
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) => return Err(rest.form()),
    };
    rest.skip(1);
    let hours = rest.within(TimeField::Offset, 23)?;
    if rest.left.starts_with(':') {
        rest.skip(1);
        if rest.left.is_empty() {
            return Err(rest.form());
        }
    }
    let minutes = if rest.left.is_empty() { 0 } else { rest.within(TimeField::Offset, 59)? };
    rest.end(Some(sign * (i64::from(hours) * 60 + i64::from(minutes)) * 60))
}

/// The rest of a text being parsed.
struct Rest<'a> {
    text: &'a str,
    left: &'a str,
}

impl<'a> Rest<'a> {
    fn form(&self) -> BadTime {
        BadTime::Form { text: self.text.to_owned() }
    }

    fn wrong(&self, field: TimeField, value: u32, allowed: String) -> BadTime {
        BadTime::Field { text: self.text.to_owned(), field, value, allowed }
    }

    /// Skips ASCII characters.
    fn skip(&mut self, bytes: usize) {
        self.left = self.left.get(bytes..).unwrap_or("");
    }

    fn expect(&mut self, sign: char) -> Result<(), BadTime> {
        self.left = self.left.strip_prefix(sign).ok_or_else(|| self.form())?;
        Ok(())
    }

    fn end<T>(&self, value: T) -> Result<T, BadTime> {
        if self.left.is_empty() { Ok(value) } else { Err(self.form()) }
    }

    fn taken(&mut self, count: usize) -> Result<&'a str, BadTime> {
        let digits = self.left.get(..count).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let digits = digits.ok_or_else(|| self.form())?;
        self.skip(count);
        Ok(digits)
    }

    fn digits(&mut self, count: usize) -> Result<u32, BadTime> {
        self.taken(count)?.parse().map_err(|_| self.form())
    }

    fn within(&mut self, field: TimeField, most: u32) -> Result<u32, BadTime> {
        let value = self.digits(2)?;
        if value <= most { Ok(value) } else { Err(self.wrong(field, value, format!("from 0 to {most}"))) }
    }

    /// Milliseconds from the one to nine digits after the decimal point.
    fn thousandths(&mut self) -> Result<i64, BadTime> {
        let count = self.left.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=9).contains(&count) {
            return Err(self.form());
        }
        let digits = self.taken(count)?;
        let three: String = digits.chars().chain("00".chars()).take(3).collect();
        three.parse().map_err(|_| self.form())
    }
}

impl fmt::Display for TimeField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
            Self::Hour => "hour",
            Self::Minute => "minute",
            Self::Second => "second",
            Self::Offset => "offset",
        })
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, SecondsFormat};

    use super::*;

    fn shown(text: &str, zone: &str) -> Result<String, String> {
        let zone = Zone::parse(zone).unwrap_or_else(|_| Zone::utc());
        let at = instant(text, &zone).map_err(|error| error.to_string())?;
        Ok(DateTime::from_timestamp_millis(at).unwrap().to_rfc3339_opts(SecondsFormat::Millis, true))
    }

    #[test]
    fn times_are_read_as_the_table_says() {
        const NY: &str = "America/New_York";
        const BERLIN: &str = "Europe/Berlin";
        for (text, zone, expected) in [
            ("2026-01-15T09:00:00Z", NY, "2026-01-15T09:00:00.000Z"),
            ("2026-01-15T09:00:00+02:00", NY, "2026-01-15T07:00:00.000Z"),
            ("2026-01-15T09:00:00+05:45", NY, "2026-01-15T03:15:00.000Z"),
            ("2026-01-15T09:00:00-0330", NY, "2026-01-15T12:30:00.000Z"),
            ("2026-01-15T09:00:00+0200", NY, "2026-01-15T07:00:00.000Z"),
            ("2026-01-15T09:00:00", NY, "2026-01-15T14:00:00.000Z"),
            ("2026-06-15T09:00:00", "Asia/Tokyo", "2026-06-15T00:00:00.000Z"),
            ("2026-01-15T09:00:00", "NotATimezone", "2026-01-15T09:00:00.000Z"),
            ("2026-07-15T21:00:00", NY, "2026-07-16T01:00:00.000Z"),
            ("2026-01-15T21:00", NY, "2026-01-16T02:00:00.000Z"),
            ("2026-01-15", NY, "2026-01-15T05:00:00.000Z"),
            ("2026-01-15 21:00:00", NY, "2026-01-16T02:00:00.000Z"),
            ("2026-01-15T21:00:00.500", NY, "2026-01-16T02:00:00.500Z"),
            ("2026-03-08T01:30:00", NY, "2026-03-08T06:30:00.000Z"),
            ("2026-03-08T02:00:00", NY, "2026-03-08T07:00:00.000Z"),
            ("2026-03-08T02:30:00", NY, "2026-03-08T07:30:00.000Z"),
            ("2026-03-08T03:30:00", NY, "2026-03-08T07:30:00.000Z"),
            ("2026-03-08T06:30:00", NY, "2026-03-08T10:30:00.000Z"),
            ("2026-03-08T07:30:00", NY, "2026-03-08T11:30:00.000Z"),
            ("2026-03-08T00:00:00", NY, "2026-03-08T05:00:00.000Z"),
            ("2026-11-01T00:30:00", NY, "2026-11-01T04:30:00.000Z"),
            ("2026-11-01T01:30:00", NY, "2026-11-01T05:30:00.000Z"),
            ("2026-11-01T02:00:00", NY, "2026-11-01T07:00:00.000Z"),
            ("2026-11-01T02:30:00", NY, "2026-11-01T07:30:00.000Z"),
            ("2026-11-01T05:30:00", NY, "2026-11-01T10:30:00.000Z"),
            ("2026-11-01T06:30:00", NY, "2026-11-01T11:30:00.000Z"),
            ("2026-03-29T01:30:00", BERLIN, "2026-03-29T00:30:00.000Z"),
            ("2026-03-29T02:30:00", BERLIN, "2026-03-29T01:30:00.000Z"),
            ("2026-03-29T03:30:00", BERLIN, "2026-03-29T01:30:00.000Z"),
            ("2026-10-25T02:30:00", BERLIN, "2026-10-25T00:30:00.000Z"),
            ("2026-06-15T00:00:00", "Asia/Kolkata", "2026-06-14T18:30:00.000Z"),
            ("2026-01-15T00:00:00", "Asia/Kathmandu", "2026-01-14T18:15:00.000Z"),
            ("2026-12-31T23:30:00", "Pacific/Auckland", "2026-12-31T10:30:00.000Z"),
            ("2026-06-15T12:00:00z", "Asia/Tokyo", "2026-06-15T12:00:00.000Z"),
            ("2026-01-15T09:00:00 ", "UTC", "2026-01-15T09:00:00.000Z"),
            (" 2026-01-15T09:00:00Z ", NY, "2026-01-15T09:00:00.000Z"),
            ("2026-01-15T09:00:00-05", "UTC", "2026-01-15T14:00:00.000Z"),
            ("2026-01-15T09:00:00.123456789", "UTC", "2026-01-15T09:00:00.123Z"),
            ("2011-12-30T09:00", "Pacific/Apia", "2011-12-30T19:00:00.000Z"),
            // The first and the last year are complete, both in the zone and in UTC.
            ("1970-01-01T00:00:00Z", NY, "1970-01-01T00:00:00.000Z"),
            ("1970-01-01T00:00", "Asia/Tokyo", "1969-12-31T15:00:00.000Z"),
            ("2100-12-31T23:59:59Z", "Asia/Tokyo", "2100-12-31T23:59:59.000Z"),
            ("2100-12-31T23:59:59", NY, "2101-01-01T04:59:59.000Z"),
        ] {
            assert_eq!(shown(text, zone).as_deref(), Ok(expected), "{text} {zone}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("tomorrow 9pm", "is not a time; write"),
            ("", "is not a time"),
            ("2026-01-15T25:00:00", "the hour of `2026-01-15T25:00:00` is 25, and must be from 0 to 23"),
            ("2026-01-15T24:00:00", "the hour"),
            ("2026-01-15T09:60", "the minute"),
            ("2026-01-15T09:00:60", "the second"),
            ("2026-02-30T09:00:00", "the day of `2026-02-30T09:00:00` is 30, and must be from 1 to 28 in 2026-02"),
            ("2026-00-10", "the month"),
            ("2026-13-10", "the month of `2026-13-10` is 13, and must be from 1 to 12"),
            ("2026-01-00", "the day"),
            ("1969-12-31T00:00", "the year of `1969-12-31T00:00` is 1969, and must be from 1970 to 2100"),
            ("2101-01-01", "the year"),
            ("9999-12-31T23:59:59-23:59", "the year"),
            ("2101-01-01T00:00:00+14:00", "the year of `2101-01-01T00:00:00+14:00` is 2101"),
            ("0000-01-01", "the year"),
            ("2026-01-15T09:00:00+25:00", "the offset"),
            ("2026-01-15T09:00:00+02:", "is not a time"),
            ("2026-01-15T09:00:00+02:000", "is not a time"),
            ("2026-01-15T09:00:00ZZ", "is not a time"),
            ("2026-01-15Z", "is not a time"),
            ("2026-01-15T", "is not a time"),
            ("2026-01-15T09", "is not a time"),
            ("2026-1-15", "is not a time"),
            ("+2026-01-15", "is not a time"),
            ("2026-01-15T09:00:00.", "is not a time"),
            ("２０２６-01-15", "is not a time"),
            ("2026-01-1ä", "is not a time"),
        ] {
            let error = shown(text, "UTC").unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
