//! How much an agent may ask of models at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::refusal::Refusal;
use crate::clock::Stopwatch;

/// Maximum number of requests under way of an agent, in all its sessions.
pub(super) const AT_ONCE: usize = 32;
/// Maximum number of requests of an agent in a minute.
pub(super) const IN_A_MINUTE: usize = 600;
/// Maximum size of a request's body in MiB.
pub(super) const BODY_MIB: usize = 32;
/// Bodies of an agent that are in memory at once, in KiB. Further ones wait.
const BODIES_KIB: usize = 64 << 10;

const MINUTE: Duration = Duration::from_secs(60);

/// The limits of one agent.
#[derive(Debug)]
pub(super) struct Limits {
    at_once: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    recent: Mutex<VecDeque<Stopwatch>>,
}

impl Default for Limits {
    fn default() -> Self {
        let of = |permits| Arc::new(Semaphore::new(permits));
        Self { at_once: of(AT_ONCE), bodies: of(BODIES_KIB), recent: Mutex::default() }
    }
}

impl Limits {
    /// Begins a request, which lasts until the permit is dropped.
    pub(super) fn begin(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let permit = Arc::clone(&self.at_once).try_acquire_owned().map_err(|_| Refusal::Busy(AT_ONCE))?;
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        while recent.front().is_some_and(|begun| begun.elapsed() >= MINUTE) {
            recent.pop_front();
        }
        if recent.len() >= IN_A_MINUTE {
            return Err(Refusal::Often(IN_A_MINUTE));
        }
        recent.push_back(Stopwatch::start());
        Ok(permit)
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
        let limits = Limits::default();
        let begun: Vec<_> = (0..AT_ONCE).map(|_| limits.begin().unwrap()).collect();
        assert_eq!(limits.begin().unwrap_err(), Refusal::Busy(AT_ONCE));
        drop(begun);
        for _ in AT_ONCE..IN_A_MINUTE {
            drop(limits.begin().unwrap());
        }
        assert_eq!(limits.begin().unwrap_err(), Refusal::Often(IN_A_MINUTE));
        assert_eq!(limits.room((BODY_MIB << 20) + 1).await.unwrap_err(), Refusal::TooLong(BODY_MIB));
        drop(limits.room(BODY_MIB << 20).await.unwrap());
    }
}
