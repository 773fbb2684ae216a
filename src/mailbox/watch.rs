//! Tells at once when an agent wrote something, so that nobody has to poll.
//!
//! One inotify instance watches `agent/ack` and `agent/out` of live sessions. It watches the directories themselves, by
//! descriptor, not whatever has their names. It is an accelerator only: the daemon looks into every live session once a
//! second all the same, which is enough where it cannot be had or loses something.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearth_wire::{ACK_DIR, OUT_DIR, is_temporary};
use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::model::id::SessionId;

use super::Mailboxes;
use super::dir::{Dir, Look};
use super::error::Error;

/// Who is told that a session has something to collect.
type Callback = dyn Fn(SessionId) + Send + Sync;

/// Watches the mailboxes of live sessions.
pub struct Watcher {
    shared: Arc<Shared>,
    /// `None` when the machine gives no watcher.
    native: Option<Mutex<RecommendedWatcher>>,
}

struct Shared {
    state: Mutex<State>,
    callback: Box<Callback>,
}

#[derive(Default)]
struct State {
    /// Which session a watched path belongs to.
    sessions: HashMap<PathBuf, SessionId>,
    /// The watched paths, and the descriptors whose numbers are in them.
    watched: HashMap<SessionId, Vec<(PathBuf, OwnedFd)>>,
    /// Sessions whose callback was called and whose collection has not begun.
    queued: HashSet<SessionId>,
}

impl Watcher {
    /// Makes a watcher. `callback` is called from the watcher's thread and from [`Self::watch`], and not again for a session
    /// before [`Self::taken`]. It must be quick, and may not call `watch` or `unwatch`, which wait for that thread.
    pub fn new(callback: impl Fn(SessionId) + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), callback: Box::new(callback) });
        let handler = Arc::clone(&shared);
        let native = notify::recommended_watcher(move |event| handler.handle(event)).ok().map(Mutex::new);
        Self { shared, native }
    }

    /// A watcher as on a machine that gives none.
    #[cfg(test)]
    pub(super) fn without_native(callback: impl Fn(SessionId) + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), callback: Box::new(callback) });
        Self { shared, native: None }
    }

    /// Watches a session, and calls the callback once for what is there already. Watching it again renews the watch.
    ///
    /// # Errors
    /// [`Error`] when the mailbox cannot be opened. That the machine does not watch is none.
    pub fn watch(&self, mailboxes: &Mailboxes, session: SessionId) -> Result<(), Error> {
        self.unwatch(session);
        let mailbox = mailboxes.open_mailbox(session)?;
        let mut watched = Vec::new();
        for name in [ACK_DIR, OUT_DIR] {
            if let Look::Found(dir) = mailbox.agent.dir(name)?
                && let Some(path) = self.add(&dir)
            {
                watched.push((path, dir.into_number(&mailboxes.root)?));
            }
        }
        let mut state = self.shared.lock();
        for (path, _) in &watched {
            state.sessions.insert(path.clone(), session);
        }
        state.watched.insert(session, watched);
        drop(state);
        self.shared.wake(session);
        Ok(())
    }

    /// Stops watching a session.
    pub fn unwatch(&self, session: SessionId) {
        let mut state = self.shared.lock();
        let watched = state.watched.remove(&session).unwrap_or_default();
        for (path, _) in &watched {
            state.sessions.remove(path);
        }
        state.queued.remove(&session);
        drop(state);
        // Not under the lock: the watcher's thread may be waiting for it while it has to answer this.
        for (path, _) in &watched {
            if let Some(native) = &self.native {
                // A watch that is gone already is what was wanted.
                native.lock().unwrap_or_else(PoisonError::into_inner).unwatch(path).ok();
            }
        }
    }

    /// To be called when the collection of a session begins, before it looks: what is written from then on is told again.
    pub fn taken(&self, session: SessionId) {
        self.shared.lock().queued.remove(&session);
    }

    fn add(&self, dir: &Dir) -> Option<PathBuf> {
        let path = dir.watch_path();
        let mut native = self.native.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        native.watch(&path, RecursiveMode::NonRecursive).is_ok().then_some(path)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, event: notify::Result<Event>) {
        match event {
            Ok(event) if event.need_rescan() => self.wake_all(),
            Ok(event) => event.paths.iter().for_each(|path| self.handle_path(&event.kind, path)),
            Err(_) => self.wake_all(),
        }
    }

    fn handle_path(&self, kind: &EventKind, path: &Path) {
        let state = self.lock();
        if let Some(&session) = state.sessions.get(path) {
            // The directory itself: it was removed or renamed, the watch sees nothing any more.
            if matches!(kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
                drop(state);
                self.wake(session);
            }
            return;
        }
        let session = path.parent().and_then(|parent| state.sessions.get(parent)).copied();
        drop(state);
        if let Some(session) = session
            && announces(kind)
            && path.file_name().is_some_and(is_finished)
        {
            self.wake(session);
        }
    }

    fn wake_all(&self) {
        let sessions: Vec<SessionId> = self.lock().watched.keys().copied().collect();
        sessions.into_iter().for_each(|session| self.wake(session));
    }

    fn wake(&self, session: SessionId) {
        let first = self.lock().queued.insert(session);
        if first {
            (self.callback)(session);
        }
    }
}

/// Whether there may be something new under a name. What the host itself does, reading and removing, is not.
fn announces(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Create(_)
            | EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both | RenameMode::Any))
            | EventKind::Access(AccessKind::Close(AccessMode::Write))
    )
}

fn is_finished(name: &OsStr) -> bool {
    !is_temporary(&name.to_string_lossy())
}
