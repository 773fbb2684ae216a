//! Notifies the daemon of agents' output without polling.
//!
//! One inotify instance watches `agent/ack` and `agent/out` of live sessions. It watches the directories themselves, by
//! descriptor, not by name. It is only an accelerator: the daemon also checks every live session once a second, which
//! suffices if inotify is unavailable or loses events.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearth_wire::watch::{self, Change};
use hearth_wire::{ACK_DIR, OUT_DIR, is_temporary};

use crate::model::id::SessionId;

use super::Mailboxes;
use super::dir::DirEntry;
use super::error::Error;

/// Called when a session has something to collect.
type Callback = dyn Fn(SessionId) + Send + Sync;

/// Watches the mailboxes of live sessions.
pub struct Watcher {
    queue: Arc<Queue>,
    directories: watch::Watcher<SessionId>,
    /// Descriptors whose numbers are in the watched paths.
    numbers: Mutex<HashMap<SessionId, Vec<OwnedFd>>>,
}

/// Sessions whose callback was called and whose collection has not begun.
struct Queue {
    sessions: Mutex<HashSet<SessionId>>,
    callback: Box<Callback>,
}

impl Watcher {
    /// Creates a watcher. The watcher's thread and [`Self::watch`] call `callback`, and do not call it again for a
    /// session before [`Self::taken`]. It must be quick, and must not call `watch` or `unwatch`, which wait for that
    /// thread.
    pub fn new(callback: impl Fn(SessionId) + Send + Sync + 'static) -> Self {
        Self::on(callback, |queue| watch::Watcher::new(move |session, change| queue.look(session, change)))
    }

    /// A watcher as on a system without inotify.
    #[cfg(test)]
    pub(super) fn without_native(callback: impl Fn(SessionId) + Send + Sync + 'static) -> Self {
        Self::on(callback, |queue| watch::Watcher::without_events(move |session, change| queue.look(session, change)))
    }

    fn on(
        callback: impl Fn(SessionId) + Send + Sync + 'static,
        watcher: impl FnOnce(Arc<Queue>) -> watch::Watcher<SessionId>,
    ) -> Self {
        let queue = Arc::new(Queue { sessions: Mutex::default(), callback: Box::new(callback) });
        Self { directories: watcher(Arc::clone(&queue)), queue, numbers: Mutex::default() }
    }

    /// Watches a session, and calls the callback once for existing output. Watching it again renews the watch.
    ///
    /// # Errors
    /// [`Error`] when the mailbox cannot be opened. A missing inotify is not an error.
    pub fn watch(&self, mailboxes: &Mailboxes, session: SessionId) -> Result<(), Error> {
        self.unwatch(session);
        let mailbox = mailboxes.open_mailbox(session)?;
        let mut numbers = Vec::new();
        for name in [ACK_DIR, OUT_DIR] {
            if let DirEntry::Found(dir) = mailbox.agent.dir(name)?
                && self.directories.watch(session, &dir.watch_path()).is_ok()
            {
                numbers.push(dir.into_number(&*mailboxes.root.dir()?)?);
            }
        }
        lock(&self.numbers).insert(session, numbers);
        self.queue.add(session);
        Ok(())
    }

    /// Stops watching a session.
    pub fn unwatch(&self, session: SessionId) {
        self.directories.unwatch(session);
        lock(&self.numbers).remove(&session);
        self.taken(session);
    }

    /// Call this when the collection of a session begins, before it reads: output from then on triggers the callback
    /// again.
    pub fn taken(&self, session: SessionId) {
        lock(&self.queue.sessions).remove(&session);
    }
}

impl Queue {
    /// Names that vanish are not news: the host itself removes what it has collected.
    fn look(&self, session: SessionId, change: Change<'_>) {
        match change {
            Change::Appeared(name) if is_finished(name) => self.add(session),
            Change::Anything => self.add(session),
            Change::Appeared(_) | Change::Vanished(_) => {}
        }
    }

    fn add(&self, session: SessionId) {
        let first = lock(&self.sessions).insert(session);
        if first {
            (self.callback)(session);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_finished(name: &OsStr) -> bool {
    !is_temporary(&name.to_string_lossy())
}
