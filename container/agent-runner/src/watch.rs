//! Waits for changes by the host: file events, plus a short poll because not every file system reports events.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use hearth_wire::watch::Watcher;

use crate::host::HostHalf;
use crate::log;

/// Maximum delay until a new file is noticed.
const POLL: Duration = Duration::from_millis(250);

/// Wakes up when something may have changed in the host's half.
#[derive(Debug)]
pub(crate) struct Watch {
    events: Receiver<()>,
    /// Keeps the channel open without a watcher, so that a wait takes its full time.
    _open: Sender<()>,
    _watcher: Watcher<()>,
}

impl Watch {
    pub(crate) fn new(host: &HostHalf) -> Self {
        let (sender, events) = channel();
        let open = sender.clone();
        let watcher = Watcher::new(move |(), _| {
            // When the process ends, the receiver is gone.
            sender.send(()).ok();
        });
        let watched = watcher.watch((), host.dir()).and_then(|()| watcher.watch((), &host.in_dir()));
        if let Err(error) = watched {
            log::note(format_args!("no file events ({error}); looking every {} ms", POLL.as_millis()));
        }
        Self { events, _open: open, _watcher: watcher }
    }

    /// Returns after an event or after the poll interval. Several pending events count as one.
    pub(crate) fn wait(&self) {
        match self.events.recv_timeout(POLL) {
            Ok(()) => while self.events.try_recv().is_ok() {},
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL),
        }
    }
}
