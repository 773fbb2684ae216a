//! The daemon's stop signal, with the reason of a failure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// A signal that is set once. Threads and tasks can wait for it or poll it.
#[derive(Debug)]
pub(super) struct Stop {
    asked: watch::Sender<bool>,
    draining: AtomicBool,
    failed: Mutex<Option<String>>,
    /// Used with the mutex of `failed`: notified when a stop is requested.
    woken: Condvar,
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            asked: watch::Sender::new(false),
            draining: AtomicBool::new(false),
            failed: Mutex::default(),
            woken: Condvar::new(),
        }
    }
}

impl Stop {
    /// Requests a stop.
    pub(super) fn ask(&self) {
        self.asked.send_replace(true);
        // Taking the lock ensures that a thread that read the flag before it was set is already waiting.
        drop(self.failed.lock().unwrap_or_else(PoisonError::into_inner));
        self.woken.notify_all();
    }

    /// Starts draining: work in progress may end, and nothing new begins.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Whether the daemon is draining.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Requests a stop because of a failure. Only the first reason is kept.
    pub(super) fn fail(&self, reason: String) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.ask();
    }

    /// Whether a stop was requested.
    pub(super) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Blocks the thread for at most `time`. Returns whether a stop was requested.
    pub(super) fn asked_within(&self, time: Duration) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.woken.wait_timeout_while(failed, time, |_| !self.is_asked()));
        self.is_asked()
    }

    /// Waits until a stop is requested.
    pub(super) async fn asked(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        drop(self.asked.subscribe().wait_for(|asked| *asked).await);
    }

    /// Why the daemon failed, if it did.
    pub(super) fn reason(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn whoever_waits_before_or_after_hears_it() {
        let stop = Arc::new(Stop::default());
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(!stop.asked_within(Duration::from_millis(1)) && !stop.is_draining());
        stop.drain();
        assert!(stop.is_draining() && !stop.is_asked());
        let (waiting, thread) = (Arc::clone(&stop), Arc::clone(&stop));
        let thread = std::thread::spawn(move || thread.asked_within(Duration::from_secs(60)));
        let early = tokio.spawn(async move { waiting.asked().await });
        tokio.block_on(async {
            tokio::task::yield_now().await;
            stop.fail("first".into());
            stop.fail("second".into());
            early.await.unwrap();
            stop.asked().await;
        });
        assert!(thread.join().unwrap());
        assert!(stop.asked_within(Duration::from_secs(60)));
        assert_eq!((stop.is_asked(), stop.reason().as_deref()), (true, Some("first")));
    }
}
