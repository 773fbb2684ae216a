//! The heartbeat: shows the host that this process runs, whatever its provider does.
//!
//! It beats every 5 s. If the host asks for it, an idle runner rests: it beats less often, so that the disk can sleep.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearth_wire::{Heartbeat, WIRE_VERSION};

use crate::agent::AgentHalf;
use crate::gate::RunGuard;
use crate::log;
use crate::stop::{Error, Stop};

/// Time between two beats, unless the runner rests.
const EVERY: Duration = Duration::from_secs(5);

/// Whether the runner is idle. The loop sets it, the beat thread reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pace(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Now {
    /// No message is claimed, and none triggers a turn.
    idle: bool,
    /// A turn has begun since the last beat; it may already have ended.
    worked: bool,
}

impl Pace {
    /// Records that no message is claimed, and none triggers a turn.
    pub(crate) fn idle(&self) {
        self.lock().idle = true;
    }

    /// A turn begins. Ends a rest, even if the turn is over before the beat thread runs.
    pub(crate) fn work(&self) {
        *self.lock() = Now { idle: false, worked: true };
        self.0.changed.notify_all();
    }

    /// Called before each beat: returns whether the runner may rest after it.
    fn beat(&self) -> bool {
        let mut now = self.lock();
        now.worked = false;
        now.idle
    }

    /// Waits until the rest period ends or work begins. Returns at once if there was work since the last beat.
    fn rest(&self, length: Duration) {
        let waited = self.0.changed.wait_timeout_while(self.lock(), length, |now| !now.worked);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Beats once and starts the thread that continues, as long as this incarnation may work. Beat numbers of one
/// incarnation keep rising across a restart.
pub(crate) fn start(agent: &Arc<AgentHalf>, mut gate: RunGuard) -> Result<Pace, Error> {
    let incarnation = gate.incarnation();
    let before = agent.last_heartbeat().filter(|last| last.incarnation == incarnation).map_or(0, |last| last.beat);
    let mut heartbeat = Heartbeat { v: WIRE_VERSION, incarnation, beat: before + 1, rest_ms: None };
    agent.write_heartbeat(&heartbeat)?;
    let agent = Arc::clone(agent);
    let pace = Pace::default();
    let shared = pace.clone();
    let beat_on = move || {
        let (mut failing, mut rest) = (false, None);
        loop {
            match rest {
                Some(length) => shared.rest(length),
                None => std::thread::sleep(EVERY),
            }
            rest = match next_rest(&shared, &mut gate) {
                Ok(rest) => rest,
                // The main loop stops for the same reason, and reports it.
                Err(Stop::Superseded { .. } | Stop::Asked) => return,
                // If the context cannot be read, skip this beat. It may be readable the next time, and the main loop
                // may not have noticed at all.
                Err(Stop::Broken(_)) => {
                    rest = None;
                    continue;
                }
            };
            heartbeat.beat += 1;
            heartbeat.rest_ms = rest.map(|rest| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
            let beaten = agent.write_heartbeat(&heartbeat);
            if let (Err(error), false) = (&beaten, failing) {
                log::note(format_args!("no heartbeat: {error}"));
            }
            failing = beaten.is_err();
            if failing {
                // The host was not told of the rest.
                rest = None;
            }
        }
    };
    let thread = std::thread::Builder::new().name("beat".to_owned()).spawn(beat_on);
    thread.map(|_| pace).map_err(|source| Error::Thread { name: "beat", source })
}

/// How long the runner rests after the next beat; `None` for the usual interval. Fails if this incarnation must not
/// continue.
fn next_rest(pace: &Pace, gate: &mut RunGuard) -> Result<Option<Duration>, Stop> {
    if !pace.beat() {
        return gate.check().map(|()| None);
    }
    let asked = gate.pass()?.idle_beat_ms.map(Duration::from_millis);
    Ok(asked.filter(|length| *length > EVERY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stopwatch;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn work_ends_a_rest_at_once() {
        let pace = Pace::default();
        pace.idle();
        assert!(pace.beat());
        let watch = Stopwatch::start();
        std::thread::scope(|scope| {
            scope.spawn(|| pace.rest(LONG));
            std::thread::sleep(Duration::from_millis(20));
            pace.work();
        });
        assert!(watch.elapsed() < LONG);
        assert!(!pace.beat());
    }

    #[test]
    fn a_turn_that_is_over_before_the_thread_wakes_ends_the_rest() {
        let pace = Pace::default();
        pace.idle();
        assert!(pace.beat());
        pace.work();
        pace.idle();
        let watch = Stopwatch::start();
        pace.rest(LONG);
        assert!(watch.elapsed() < LONG);
        assert!(pace.beat(), "it may rest again after the beat");
        pace.rest(Duration::from_millis(20));
        assert!(watch.elapsed() >= Duration::from_millis(20), "work before the beat does not end the rest after it");
    }
}
