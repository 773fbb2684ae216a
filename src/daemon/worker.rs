//! Starts the threads of the daemon.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::Error;
use super::stop::Stop;

/// Starts a thread. If it panics, the daemon continues without it.
pub(super) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(Error::Thread)
}

/// Starts a thread without which the daemon cannot work. If it panics, the daemon stops, and the next one continues its
/// work.
pub(super) fn start_essential(
    name: &str,
    stop: &Arc<Stop>,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let guard = Guard { stop: Arc::clone(stop), thread: name.to_owned() };
    start(name, move || {
        let _guard = guard;
        work();
    })
}

struct Guard {
    stop: Arc<Stop>,
    thread: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop.fail(format!("the thread `{}` panicked, which is a defect of Hearth", self.thread));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panic_of_an_essential_thread_stops_the_daemon() {
        let stop = Arc::new(Stop::default());
        start_essential("engine", &stop, || ()).unwrap().join().unwrap();
        start("other", || panic!("a test")).unwrap().join().unwrap_err();
        assert!(!stop.is_asked());
        start_essential("engine", &stop, || panic!("a test")).unwrap().join().unwrap_err();
        assert!(stop.is_asked() && stop.reason().unwrap().contains("the thread `engine` panicked"));
    }
}
