//! What the threads of the bridge know of its connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use crate::Pong;

/// Seconds since 1970.
#[must_use]
pub fn seconds() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

/// A time in the form of the protocol.
#[must_use]
pub fn time_text(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years begin in March here, so that a leap day is their last one.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// What is done with the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Receiving.
    Inbox,
    /// Sending.
    Outbox,
}

#[derive(Debug, Default)]
struct Known {
    heard: Option<i64>,
    inbox: Option<String>,
    outbox: Option<String>,
}

/// The state of the connection.
#[derive(Debug, Clone, Default)]
pub struct State(Arc<Mutex<Known>>);

impl State {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The network answered.
    pub fn works(&self, side: Side) {
        let mut known = self.known();
        known.heard = Some(seconds());
        match side {
            Side::Inbox => known.inbox = None,
            Side::Outbox => known.outbox = None,
        }
    }

    /// Something does not work.
    pub fn fails(&self, side: Side, why: String) {
        let mut known = self.known();
        match side {
            Side::Inbox => known.inbox = Some(why),
            Side::Outbox => known.outbox = Some(why),
        }
    }

    /// The answer to a question of the daemon.
    #[must_use]
    pub fn pong(&self) -> Pong {
        let known = self.known();
        Pong { heard: known.heard.map(time_text), down: known.inbox.clone().or_else(|| known.outbox.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(time_text(seconds), text);
        }
    }
}
