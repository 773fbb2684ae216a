//! Runs asynchronous calls for callers that are synchronous, or tasks of another async runtime.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::Unusable;

/// Longest time until an expired limit is noticed.
const LOOK: Duration = Duration::from_millis(100);

/// The threads of an async runtime. Dropping them ends their tasks and the connections of those.
pub(super) struct Threads(Option<Runtime>);

impl Threads {
    pub(super) fn start() -> Result<Self, Unusable> {
        let threads = Builder::new_multi_thread().worker_threads(2).thread_name("podman").enable_all().build();
        threads.map(|threads| Self(Some(threads))).map_err(|error| Unusable::Client { reason: error.to_string() })
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(threads) = &self.0 {
            threads.spawn(task);
        }
    }

    /// Runs a task to its end. `None` if it panicked.
    pub(super) fn wait<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Option<T> {
        self.wait_unless(&|| false, task)
    }

    /// Runs a task to its end, or drops it when `expired` says so. `None` if it did not end.
    pub(super) fn wait_unless<T: Send + 'static>(
        &self,
        expired: &dyn Fn() -> bool,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        if expired() {
            return None;
        }
        let (done, ended) = sync_channel(1);
        let task = self.0.as_ref()?.spawn(async move {
            // The receiver waits below unless the limit has expired.
            drop(done.send(task.await));
        });
        loop {
            match ended.recv_timeout(LOOK) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Timeout) if !expired() => {}
                Err(_) => {
                    task.abort();
                    return None;
                }
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}
