//! How much an agent may ask of models at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::refusal::Refusal;
use crate::clock::Stopwatch;
use crate::model::budget::Caps;

/// Maximum size of a request's body in MiB.
pub(super) const BODY_MIB: usize = 32;
/// Bodies of an agent that are in memory at once, in KiB. Further ones wait.
const BODIES_KIB: usize = 64 << 10;

const MINUTE: Duration = Duration::from_secs(60);

/// The configured limits of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Most {
    /// Requests under way, in all its sessions.
    pub(super) at_once: usize,
    /// Requests in a minute.
    pub(super) in_a_minute: usize,
}

impl Most {
    pub(super) fn of(caps: &Caps) -> Self {
        let of = |cap: Option<u32>, default| cap.map_or(default, |cap| usize::try_from(cap).unwrap_or(usize::MAX));
        Self { at_once: of(caps.at_once, 32), in_a_minute: of(caps.per_minute, 600) }
    }
}

/// What one agent asks for now.
#[derive(Debug)]
pub(super) struct Limits {
    requests: Mutex<Requests>,
    bodies: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Requests {
    under_way: usize,
    /// Requests of the last minute.
    recent: VecDeque<Stopwatch>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { requests: Mutex::default(), bodies: Arc::new(Semaphore::new(BODIES_KIB)) }
    }
}

/// A request under way, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Limits>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut requests = self.0.requests();
        requests.under_way = requests.under_way.saturating_sub(1);
    }
}

impl Limits {
    /// Begins a request.
    pub(super) fn begin(self: &Arc<Self>, most: Most) -> Result<UnderWay, Refusal> {
        let mut requests = self.requests();
        if requests.under_way >= most.at_once {
            return Err(Refusal::Busy(most.at_once));
        }
        while requests.recent.front().is_some_and(|begun| begun.elapsed() >= MINUTE) {
            requests.recent.pop_front();
        }
        if requests.recent.len() >= most.in_a_minute {
            return Err(Refusal::Often(most.in_a_minute));
        }
        requests.recent.push_back(Stopwatch::start());
        requests.under_way += 1;
        Ok(UnderWay(Arc::clone(self)))
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for memory for a body.
    pub(super) async fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
        if bytes > BODY_MIB << 20 {
            return Err(Refusal::TooLong(BODY_MIB));
        }
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        Arc::clone(&self.bodies).acquire_many_owned(kib).await.map_err(|_| Refusal::Late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_under_way_and_in_a_minute_are_limited() {
        let configured = Caps { at_once: Some(2), per_minute: Some(5), ..Caps::default() };
        for most in [Most::of(&Caps::default()), Most::of(&configured)] {
            let limits = Arc::new(Limits::default());
            let begun: Vec<_> = (0..most.at_once).map(|_| limits.begin(most).unwrap()).collect();
            assert_eq!(limits.begin(most).unwrap_err(), Refusal::Busy(most.at_once));
            drop(begun);
            for _ in most.at_once..most.in_a_minute {
                drop(limits.begin(most).unwrap());
            }
            assert_eq!(limits.begin(most).unwrap_err(), Refusal::Often(most.in_a_minute));
            // Another run of the same agent that was configured later counts the same requests.
            drop(limits.begin(Most { in_a_minute: most.in_a_minute + 1, ..most }).unwrap());
            assert_eq!(limits.room((BODY_MIB << 20) + 1).await.unwrap_err(), Refusal::TooLong(BODY_MIB));
            drop(limits.room(BODY_MIB << 20).await.unwrap());
        }
        assert_eq!(Most::of(&configured), Most { at_once: 2, in_a_minute: 5 });
        assert_eq!(Most::of(&Caps::default()), Most { at_once: 32, in_a_minute: 600 });
    }
}
