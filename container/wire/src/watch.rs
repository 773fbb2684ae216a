//! Reports changes in directories.
//!
//! It only speeds things up: if the system provides no watcher, or a watch is lost, the caller has to poll.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// A change in a watched directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// An entry with this name was created, written, or renamed to this name.
    Appeared(&'a OsStr),
    /// An entry with this name was removed or renamed to another name.
    Vanished(&'a OsStr),
    /// Unknown: events were lost, or the directory itself was removed or renamed.
    Anything,
}

type Callback<K> = dyn Fn(K, Change<'_>) + Send + Sync;

/// Watches directories, without their subdirectories. Each belongs to a key, which may have several directories.
pub struct Watcher<K> {
    shared: Arc<Shared<K>>,
    /// Why the system provides no watcher, if it does not.
    native: Result<Mutex<RecommendedWatcher>, String>,
}

struct Shared<K> {
    state: Mutex<State<K>>,
    callback: Box<Callback<K>>,
}

struct State<K> {
    directories: HashMap<PathBuf, K>,
    /// Directories that are not watched reliably.
    lost: HashSet<PathBuf>,
}

impl<K: Copy + Eq + Hash + Send + 'static> Watcher<K> {
    /// Creates a watcher. `callback` is called from the watcher's thread. It must be quick and may not call `watch` or
    /// `unwatch`, which wait for that thread.
    pub fn new(callback: impl Fn(K, Change<'_>) + Send + Sync + 'static) -> Self {
        let Self { shared, .. } = Self::without_events(callback);
        let handler = Arc::clone(&shared);
        let native = notify::recommended_watcher(move |event| handler.handle(event));
        Self { shared, native: native.map(Mutex::new).map_err(|error| error.to_string()) }
    }

    /// A watcher as on a system without file events.
    pub fn without_events(callback: impl Fn(K, Change<'_>) + Send + Sync + 'static) -> Self {
        let state = Mutex::new(State { directories: HashMap::new(), lost: HashSet::new() });
        let shared = Arc::new(Shared { state, callback: Box::new(callback) });
        Self { shared, native: Err("there are no file events".to_owned()) }
    }

    /// Watches a directory. Existing entries are not reported.
    ///
    /// # Errors
    /// Why the directory is not watched.
    pub fn watch(&self, key: K, directory: &Path) -> Result<(), String> {
        self.shared.lock().directories.insert(directory.to_owned(), key);
        let watched = self.native.as_ref().map_err(String::clone).and_then(|native| {
            let mut native = native.lock().unwrap_or_else(PoisonError::into_inner);
            native.watch(directory, RecursiveMode::NonRecursive).map_err(|error| error.to_string())
        });
        let mut state = self.shared.lock();
        if watched.is_ok() {
            state.lost.remove(directory);
        } else {
            state.lost.insert(directory.to_owned());
        }
        watched
    }

    /// Stops watching the directories of a key.
    pub fn unwatch(&self, key: K) {
        let mut state = self.shared.lock();
        let State { directories, lost } = &mut *state;
        let paths: Vec<PathBuf> = directories.extract_if(|_, of| *of == key).map(|(path, _)| path).collect();
        lost.retain(|path| !paths.contains(path));
        drop(state);
        // Not under the lock: otherwise this would wait for the watcher's thread while that thread waits for the lock.
        if let Ok(native) = &self.native {
            for path in paths {
                // It is fine if the watch no longer exists.
                native.lock().unwrap_or_else(PoisonError::into_inner).unwatch(&path).ok();
            }
        }
    }

    /// Keys whose directories are not all watched, so that the caller has to poll them.
    #[must_use]
    pub fn unwatched(&self) -> HashSet<K> {
        let state = self.shared.lock();
        state.lost.iter().filter_map(|path| state.directories.get(path)).copied().collect()
    }
}

impl<K> fmt::Debug for Watcher<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

impl<K: Copy + Eq + Hash> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, event: notify::Result<Event>) {
        match event {
            Ok(event) if event.need_rescan() => self.report_all(),
            Ok(event) => event.paths.iter().for_each(|path| self.handle_path(&event.kind, path)),
            Err(_) => {
                let mut state = self.lock();
                let State { directories, lost } = &mut *state;
                lost.extend(directories.keys().cloned());
                drop(state);
                self.report_all();
            }
        }
    }

    fn report_all(&self) {
        let all: HashSet<K> = self.lock().directories.values().copied().collect();
        all.into_iter().for_each(|key| (self.callback)(key, Change::Anything));
    }

    fn handle_path(&self, kind: &EventKind, path: &Path) {
        let mut state = self.lock();
        if let Some(&key) = state.directories.get(path) {
            // The directory itself was removed or renamed. The watch is useless from now on.
            if matches!(kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
                state.lost.insert(path.to_owned());
                drop(state);
                (self.callback)(key, Change::Anything);
            }
            return;
        }
        let key = path.parent().and_then(|parent| state.directories.get(parent)).copied();
        drop(state);
        if let (Some(key), Some(name)) = (key, path.file_name())
            && let Some(change) = change(kind, name)
        {
            (self.callback)(key, change);
        }
    }
}

/// What an event means for an entry. Reads and unfinished writes are ignored.
fn change<'a>(kind: &EventKind, name: &'a OsStr) -> Option<Change<'a>> {
    match kind {
        // Repeats what the events of the old and the new name said before it.
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => None,
        EventKind::Create(_)
        | EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Any))
        | EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(Change::Appeared(name)),
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => Some(Change::Vanished(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn entries_that_appear_and_vanish_are_reported_and_reads_are_not() {
        let above = tempfile::tempdir().unwrap();
        let directory = above.path().join("watched");
        std::fs::create_dir(&directory).unwrap();
        let (sender, changes) = channel();
        let watcher = Watcher::new(move |key: u8, change| {
            let change = match change {
                Change::Appeared(name) => ("appeared", name.to_owned()),
                Change::Vanished(name) => ("vanished", name.to_owned()),
                Change::Anything => ("anything", "".into()),
            };
            sender.send((key, change.0, change.1)).unwrap();
        });
        if watcher.watch(3, &directory).is_ok() {
            let expect = |what: &'static str, name: &str| {
                let expected = (3, what, name.into());
                while changes.recv().unwrap() != expected {}
            };
            std::fs::write(directory.join("part"), "x").unwrap();
            expect("appeared", "part");
            std::fs::rename(directory.join("part"), directory.join("whole")).unwrap();
            expect("vanished", "part");
            expect("appeared", "whole");
            while changes.try_recv().is_ok() {}
            assert_eq!(std::fs::read(directory.join("whole")).unwrap(), b"x");
            std::fs::remove_file(directory.join("whole")).unwrap();
            assert_eq!(changes.recv().unwrap(), (3, "vanished", "whole".into()));
            assert!(watcher.unwatched().is_empty());
            std::fs::remove_dir(&directory).unwrap();
            expect("anything", "");
            assert_eq!(watcher.unwatched(), HashSet::from([3]));
            watcher.unwatch(3);
        } else {
            assert_eq!(watcher.unwatched(), HashSet::from([3]));
        }
    }

    #[test]
    fn without_file_events_every_directory_has_to_be_polled() {
        let watcher = Watcher::without_events(|_: u8, _| {});
        assert!(watcher.watch(1, Path::new("/")).is_err());
        assert_eq!(watcher.unwatched(), HashSet::from([1]));
        watcher.unwatch(1);
        assert!(watcher.unwatched().is_empty());
    }
}
