//! The only reader of clocks, and the only source of entropy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::model::time::{Awake, Millis, Moment, Timestamp};

/// The time between ticks of a daemon.
pub const TICK: Millis = Millis::seconds(1);

/// Awake time of one run, advanced by ticks: a tick counts at most three times its nominal length, so that neither a
/// suspended machine nor a stopped process ages anything.
#[derive(Debug, Clone)]
pub struct Clock {
    run: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    awake: Duration,
    last: Instant,
}

impl Clock {
    /// The clock of a run that begins now.
    #[must_use]
    pub fn start(run: u64) -> Self {
        Self { run, state: Arc::new(Mutex::new(State { awake: Duration::ZERO, last: monotonic() })) }
    }

    /// Now. Every reading is a tick, so no reading can be behind an earlier one.
    #[must_use]
    pub fn now(&self) -> Moment {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = monotonic();
        state.awake = advance(state.awake, now.saturating_duration_since(state.last));
        state.last = now;
        Moment { wall: wall(), awake: Awake::new(self.run, u64::try_from(state.awake.as_millis()).unwrap_or(u64::MAX)) }
    }
}

/// Awake time after some monotonic time has passed since the last reading.
fn advance(awake: Duration, passed: Duration) -> Duration {
    awake.saturating_add(passed.min(3 * TICK.duration()))
}

/// The wall clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one reader of the wall clock")]
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A moment for a command that works on a store without a daemon: `run` is the store's current run.
#[must_use]
pub fn once(run: u64) -> Moment {
    Moment { wall: wall(), awake: Awake::new(run, 0) }
}

#[expect(clippy::disallowed_methods, reason = "the one reader of the monotonic clock")]
fn monotonic() -> Instant {
    Instant::now()
}

/// Random bytes from the system.
///
/// # Errors
/// When the system has none.
pub fn entropy<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// A random number.
///
/// # Errors
/// When the system has none.
pub fn random() -> std::io::Result<u64> {
    entropy().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_pause_counts_as_three_ticks() {
        let hours = Duration::from_secs(8 * 3_600);
        let ten = Duration::from_secs(10);
        assert_eq!(advance(ten, hours), Duration::from_secs(13));
        assert_eq!(advance(ten, Duration::from_micros(700)), Duration::from_micros(10_000_700));
    }

    #[test]
    fn readings_never_go_back() {
        let clock = Clock::start(3);
        let first = clock.now();
        assert!(clock.now().awake >= first.awake);
        assert_eq!(first.awake.run(), 3);
    }
}
