//! Discord's ids: numbers that contain the time at which they were made.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected};

/// Milliseconds since 1970 at which Discord's time begins.
const EPOCH: u64 = 1_420_070_400_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Snowflake(pub(crate) u64);

impl Snowflake {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number).map(Self)
    }

    /// The first id of a time in seconds since 1970.
    pub(crate) fn at(seconds: i64) -> Self {
        let since = u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000).saturating_sub(EPOCH);
        Self(since.saturating_mul(1 << 22))
    }

    /// Seconds since 1970.
    pub(crate) fn seconds(self) -> i64 {
        i64::try_from(((self.0 >> 22) + EPOCH) / 1_000).unwrap_or(i64::MAX)
    }

    /// An id that is so much older.
    pub(crate) fn before(self, time: Duration) -> Self {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(time.saturating_mul(1 << 22)))
    }
}

impl fmt::Display for Snowflake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Snowflake {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::read(&text).ok_or_else(|| D::Error::invalid_value(Unexpected::Str("…"), &"an id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers_with_a_time() {
        assert_eq!(Snowflake::read("175928847299117063").map(Snowflake::seconds), Some(1_462_015_105));
        for text in ["", "+1", "-1", "1a", "99999999999999999999", " 1"] {
            assert_eq!(Snowflake::read(text), None, "{text:?}");
        }
        assert_eq!(Snowflake::at(1_462_015_105).seconds(), 1_462_015_105);
        assert_eq!(Snowflake::at(1_462_015_105).before(Duration::from_secs(5)).seconds(), 1_462_015_100);
        assert_eq!(Snowflake::at(0), Snowflake(0));
        assert!(serde_json::from_str::<Snowflake>("\"1\"").is_ok() && serde_json::from_str::<Snowflake>("1").is_err());
    }
}
