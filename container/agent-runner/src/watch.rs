//! Waiting for the host: file events, and a short poll because not every file system tells of them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::host::HostHalf;
use crate::log;

/// The longest time for which a new file can go unseen.
const POLL: Duration = Duration::from_millis(250);

/// Wakes up when something may have changed in the host's half.
#[derive(Debug)]
pub(crate) struct Watch {
    events: Receiver<()>,
    /// Keeps the channel open when there is no watcher, so that a wait lasts its time.
    _open: Sender<()>,
    _watcher: Option<RecommendedWatcher>,
}

impl Watch {
    pub(crate) fn new(host: &HostHalf) -> Self {
        let (sender, events) = channel();
        let watcher = watcher(host, sender.clone());
        if let Err(error) = &watcher {
            log::note(format_args!("no file events ({error}); looking every {} ms", POLL.as_millis()));
        }
        Self { events, _open: sender, _watcher: watcher.ok() }
    }

    /// Returns when something happened, or after the poll's time. Events that came meanwhile count as one.
    pub(crate) fn wait(&self) {
        match self.events.recv_timeout(POLL) {
            Ok(()) => while self.events.try_recv().is_ok() {},
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL),
        }
    }
}

fn watcher(host: &HostHalf, sender: Sender<()>) -> notify::Result<RecommendedWatcher> {
    let on_event = move |event: notify::Result<notify::Event>| {
        // Our own reads are events as well; answering them would never end.
        if event.is_ok_and(|event| !event.kind.is_access()) && sender.send(()).is_err() {
            // The waiter is gone, and the process with it.
        }
    };
    let mut watcher = notify::recommended_watcher(on_event)?;
    watcher.watch(host.dir(), RecursiveMode::NonRecursive)?;
    watcher.watch(&host.in_dir(), RecursiveMode::NonRecursive)?;
    Ok(watcher)
}
