//! The only reader of clocks, and the only source of entropy.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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

    /// The current time. Every reading is a tick, so no reading can be behind an earlier one.
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

/// Measures a duration: for statistics and for people, never for decisions.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins now.
    #[must_use]
    pub fn start() -> Self {
        Self(monotonic())
    }

    /// The time since it began, without the time in which the machine was suspended.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        monotonic().saturating_duration_since(self.0)
    }
}

/// The three clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    wall: Timestamp,
    /// Advances while the machine is awake.
    monotonic: Duration,
    /// Also advances while the machine is suspended.
    boot: Duration,
}

/// Changes of the machine's clocks between two looks, other than the passing of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Between {
    /// How long the machine was suspended; zero if it was not.
    pub slept: Millis,
    /// How the wall clock was moved.
    pub step: Step,
}

/// How a clock was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Not moved, or so little that it may have been slewed.
    None,
    /// Ahead.
    Forward(Millis),
    /// Back.
    Back(Millis),
}

/// A shorter difference counts neither as a suspension nor as a step.
const NOTABLE: Millis = Millis::seconds(1);
/// A clock is slewed by at most 1/2000. A difference up to this fraction of the elapsed time is not reported.
const SLEWED: u64 = 1_000;

/// Compares the clocks with the previous look.
#[derive(Debug)]
pub struct Watch {
    last: Reading,
    began: Instant,
}

impl Watch {
    /// Starts comparing now.
    #[must_use]
    pub fn start() -> Self {
        let began = monotonic();
        Self { last: Self::read(began), began }
    }

    /// The changes since the last look.
    pub fn look(&mut self) -> Between {
        let now = Self::read(self.began);
        between(std::mem::replace(&mut self.last, now), now)
    }

    fn read(began: Instant) -> Reading {
        let monotonic = monotonic().saturating_duration_since(began);
        Reading { wall: wall(), monotonic, boot: boot().unwrap_or(monotonic) }
    }
}

/// The changes between two readings. The boot clock says how much time really passed, the monotonic one how much of it
/// the machine was awake. Any other difference of the wall clock is a change that a person or a program made.
fn between(before: Reading, after: Reading) -> Between {
    let ms = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let awake = ms(after.monotonic.saturating_sub(before.monotonic));
    let passed = ms(after.boot.saturating_sub(before.boot)).max(awake);
    let slept = Millis::new(passed.saturating_sub(awake));
    let expected = before.wall.plus(Millis::new(passed));
    let tolerance = NOTABLE.max(Millis::new(passed / SLEWED));
    let (ahead, behind) = (after.wall.since(expected), expected.since(after.wall));
    let step = match () {
        () if ahead > tolerance => Step::Forward(ahead),
        () if behind > tolerance => Step::Back(behind),
        () => Step::None,
    };
    Between { slept: if slept > NOTABLE { slept } else { Millis::ZERO }, step }
}

/// Time since the machine started, including the time in which it was suspended.
#[cfg(target_os = "linux")]
fn boot() -> Option<Duration> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Some(Duration::new(u64::try_from(now.tv_sec).ok()?, u32::try_from(now.tv_nsec).ok()?))
}

/// On other systems a suspension looks like a step of the wall clock, and is treated as one.
#[cfg(not(target_os = "linux"))]
const fn boot() -> Option<Duration> {
    None
}

/// Wakes a single waiting thread at a time that others set. It uses the monotonic clock, which stops while the machine
/// is suspended, so after a suspension it never waits longer than requested.
#[derive(Debug, Default)]
pub struct Alarm {
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Alarm {
    /// Sets the time until it wakes; none means the maximum that the waiting thread allows.
    pub fn set(&self, length: Option<Millis>) {
        *self.lock() = length.and_then(|length| monotonic().checked_add(length.duration()));
        self.changed.notify_one();
    }

    /// Waits until the set time, at most `longest`.
    pub fn wait(&self, longest: Millis) {
        let begun = monotonic();
        let mut at = self.lock();
        loop {
            let now = monotonic();
            let most = longest.duration().saturating_sub(now.saturating_duration_since(begun));
            let left = at.map_or(most, |at| most.min(at.saturating_duration_since(now)));
            if left.is_zero() {
                *at = None;
                return;
            }
            at = self.changed.wait_timeout(at, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    fn clocks_are_compared() {
        const HOUR: i64 = 3_600_000;
        let (none, zero) = (Step::None, Millis::ZERO);
        let millis = |ms: i64| Millis::new(u64::try_from(ms).unwrap());
        // Elapsed milliseconds on the wall clock, awake, and since boot.
        for ((wall, monotonic, boot), slept, step) in [
            ((1_000, 1_000, 1_000), zero, none),
            ((1_900, 1_000, 1_000), zero, none), // within the tolerance
            ((150, 1_000, 1_000), zero, none),
            ((2_001, 1_000, 1_000), zero, Step::Forward(millis(1_001))),
            ((-1, 1_000, 1_000), zero, Step::Back(millis(1_001))),
            ((8 * HOUR, 1_000, 8 * HOUR), millis(8 * HOUR - 1_000), none), // a night
            ((8 * HOUR + 20_000, 1_000, 8 * HOUR), millis(8 * HOUR - 1_000), none), // drift of a night
            ((0, 1_000, 8 * HOUR), millis(8 * HOUR - 1_000), Step::Back(millis(8 * HOUR))),
            ((9 * HOUR, 1_000, 8 * HOUR), millis(8 * HOUR - 1_000), Step::Forward(millis(HOUR))),
            ((8 * HOUR, 8 * HOUR, 8 * HOUR), zero, none), // the process was stopped
            ((8 * HOUR - 14_400, 8 * HOUR, 8 * HOUR), zero, none), // slewed all the time
            ((1_000 - 24 * HOUR, 1_000, 1_000), zero, Step::Back(millis(24 * HOUR))),
            ((3 * 365 * 24 * HOUR, 1_000, 1_000), zero, Step::Forward(millis(3 * 365 * 24 * HOUR - 1_000))),
            ((1_000, 1_000, 0), zero, none), // a boot clock that does not advance is not trusted
        ] {
            let length = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap());
            let begin = 1_800_000_000_000;
            let before =
                Reading { wall: Timestamp::from_millis(begin), monotonic: length(5_000), boot: length(90_000) };
            let after = Reading {
                wall: Timestamp::from_millis(begin + wall),
                monotonic: length(5_000 + monotonic),
                boot: length(90_000 + boot),
            };
            assert_eq!(between(before, after), Between { slept, step }, "{wall} {monotonic} {boot}");
        }
    }

    #[test]
    fn the_clocks_of_this_machine_agree_while_it_is_awake() {
        let mut watch = Watch::start();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(watch.look(), Between { slept: Millis::ZERO, step: Step::None });
    }

    #[test]
    fn an_alarm_wakes_when_it_is_told_and_never_later_than_the_longest_time() {
        let alarm = Alarm::default();
        let took = |alarm: &Alarm, longest| {
            let begun = monotonic();
            alarm.wait(longest);
            begun.elapsed()
        };
        alarm.set(Some(Millis::ZERO));
        assert!(took(&alarm, Millis::minutes(5)) < Duration::from_secs(60));
        assert!(took(&alarm, Millis::new(30)) >= Duration::from_millis(30), "it was used up");
        alarm.set(Some(Millis::minutes(5)));
        assert!(took(&alarm, Millis::new(30)) < Duration::from_secs(60));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| took(&alarm, Millis::minutes(5)));
            alarm.set(Some(Millis::new(10)));
            assert!(waiting.join().unwrap() < Duration::from_secs(60));
        });
    }

    #[test]
    fn readings_never_go_back() {
        let clock = Clock::start(3);
        let first = clock.now();
        assert!(clock.now().awake >= first.awake);
        assert_eq!(first.awake.run(), 3);
    }
}
