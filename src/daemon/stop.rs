//! That the daemon has to stop, and why.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// Asked once, heard by everybody who waits or looks.
#[derive(Debug)]
pub(super) struct Stop {
    asked: watch::Sender<bool>,
    draining: AtomicBool,
    failed: Mutex<Option<String>>,
    /// Goes with `failed`: somebody asked.
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
    /// Asks for the end.
    pub(super) fn ask(&self) {
        self.asked.send_replace(true);
        // Whoever looked before this has to be waiting by now.
        drop(self.failed.lock().unwrap_or_else(PoisonError::into_inner));
        self.woken.notify_all();
    }

    /// The end is near: what is under way may end, nothing new is begun.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Whether nothing new is to be begun.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Asks for the end because the daemon cannot go on; the first reason counts.
    pub(super) fn fail(&self, reason: String) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.ask();
    }

    /// Whether the end was asked for.
    pub(super) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Waits for some time on a thread; whether the end was asked for until then.
    pub(super) fn asked_within(&self, time: Duration) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.woken.wait_timeout_while(failed, time, |_| !self.is_asked()));
        self.is_asked()
    }

    /// Waits until the end is asked for.
    pub(super) async fn asked(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        drop(self.asked.subscribe().wait_for(|asked| *asked).await);
    }

    /// Why the daemon cannot go on, if that is the case.
    pub(super) fn reason(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Held by a thread that the daemon cannot do without: if it panics, the daemon stops and the next one goes on.
pub(super) struct Needed<'a>(pub(super) &'a Stop, pub(super) &'static str);

impl Drop for Needed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(format!("{} panicked, which is a defect of Hearth", self.1));
        }
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

    #[test]
    fn a_panic_of_a_needed_thread_stops_the_daemon() {
        let stop = Arc::new(Stop::default());
        let held = Arc::clone(&stop);
        let fell = std::thread::spawn(move || {
            let _needed = Needed(&held, "the engine");
            panic!("as the test wants");
        });
        assert!(fell.join().is_err());
        assert!(stop.reason().unwrap().starts_with("the engine panicked"));
    }
}
