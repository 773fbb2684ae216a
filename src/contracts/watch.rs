//! Tells at once when a file of a contract appears, changes or vanishes in the folder of an agent group at work.
//!
//! It is an accelerator only: when the machine gives no watcher, or one loses something, it says so and the caller polls.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::model::id::AgentId;

use super::state_file;

/// What changed in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Changed {
    /// The session-state file.
    State,
    /// The file of this name, in which a skill reports a skip: it is there, or it is not there any more.
    Skip(String),
    /// Nobody knows: look at everything.
    Anything,
}

/// Who is told.
type Callback = dyn Fn(AgentId, Changed) + Send + Sync;

/// Watches folders of agent groups; the folders themselves, not what is in directories of theirs.
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
    agents: HashMap<PathBuf, AgentId>,
    /// Agents whose folders are not watched as they should be.
    lost: HashSet<AgentId>,
}

impl Watcher {
    /// Makes a watcher. `callback` is called from the watcher's thread; it must be quick, and may not call `watch` or
    /// `unwatch`, which wait for that thread.
    pub fn new(callback: impl Fn(AgentId, Changed) + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), callback: Box::new(callback) });
        let handler = Arc::clone(&shared);
        let native = notify::recommended_watcher(move |event| handler.handle(event)).ok().map(Mutex::new);
        Self { shared, native }
    }

    /// Watches the folder of an agent group. What is there already is not told.
    pub fn watch(&self, agent: AgentId, folder: &Path) {
        self.shared.lock().agents.insert(folder.to_owned(), agent);
        let watched = self.native.as_ref().is_some_and(|native| {
            let mut native = native.lock().unwrap_or_else(PoisonError::into_inner);
            native.watch(folder, RecursiveMode::NonRecursive).is_ok()
        });
        let mut state = self.shared.lock();
        if watched {
            state.lost.remove(&agent);
        } else {
            state.lost.insert(agent);
        }
    }

    /// Stops watching a folder.
    pub fn unwatch(&self, agent: AgentId) {
        let mut state = self.shared.lock();
        let paths: Vec<PathBuf> = state.agents.iter().filter(|(_, of)| **of == agent).map(|(p, _)| p.clone()).collect();
        state.agents.retain(|_, of| *of != agent);
        state.lost.remove(&agent);
        drop(state);
        // Not under the lock: the watcher's thread may be waiting for it while it has to answer this.
        if let Some(native) = &self.native {
            for path in paths {
                // A watch that is gone already is what was wanted.
                native.lock().unwrap_or_else(PoisonError::into_inner).unwatch(&path).ok();
            }
        }
    }

    /// Agents whose folders are not watched, so that the caller has to look by itself from time to time.
    #[must_use]
    pub fn unwatched(&self) -> Vec<AgentId> {
        self.shared.lock().lost.iter().copied().collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, event: notify::Result<Event>) {
        match event {
            Ok(event) if event.need_rescan() => self.tell_all(),
            Ok(event) => event.paths.iter().for_each(|path| self.handle_path(&event.kind, path)),
            Err(_) => {
                let mut state = self.lock();
                let all: Vec<AgentId> = state.agents.values().copied().collect();
                state.lost.extend(all);
                drop(state);
                self.tell_all();
            }
        }
    }

    fn tell_all(&self) {
        let agents: Vec<AgentId> = self.lock().agents.values().copied().collect();
        agents.into_iter().for_each(|agent| (self.callback)(agent, Changed::Anything));
    }

    fn handle_path(&self, kind: &EventKind, path: &Path) {
        if !announces(kind) {
            return;
        }
        let mut state = self.lock();
        if let Some(&agent) = state.agents.get(path) {
            // The folder itself: it was removed or renamed, the watch sees nothing any more.
            if matches!(kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
                state.lost.insert(agent);
                drop(state);
                (self.callback)(agent, Changed::Anything);
            }
            return;
        }
        let agent = path.parent().and_then(|parent| state.agents.get(parent)).copied();
        drop(state);
        if let (Some(agent), Some(changed)) = (agent, path.file_name().and_then(changed)) {
            (self.callback)(agent, changed);
        }
    }
}

/// Whether there may be something new under a name, or nothing any more.
fn announces(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::Create(_)
            | EventKind::Remove(_)
            | EventKind::Modify(ModifyKind::Name(_))
            | EventKind::Access(AccessKind::Close(AccessMode::Write))
    )
}

/// Which contract a file name is of, if it is of one.
fn changed(name: &OsStr) -> Option<Changed> {
    let name = name.to_str()?;
    if name == state_file::NAME {
        return Some(Changed::State);
    }
    is_skip(name).then(|| Changed::Skip(name.to_owned()))
}

/// Whether a file of this name reports a skip.
#[must_use]
pub fn is_skip(name: &str) -> bool {
    name.strip_prefix(".skip-summary-").and_then(|rest| rest.strip_suffix(".json")).is_some_and(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn names_of_contracts_are_known() {
        for (name, expected) in [
            ("session-state.json", Some(Changed::State)),
            ("session-state.json.lock", None),
            (".session-state.json.abcd1234.tmp", None),
            (".skip-summary-tessl__a.json", Some(Changed::Skip(".skip-summary-tessl__a.json".to_owned()))),
            ("..skip-summary-tessl__a.json.abcd1234.tmp", None),
            (".skip-summary-.json", None),
            ("notes.md", None),
        ] {
            assert_eq!(changed(OsStr::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn what_appears_and_what_vanishes_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (told, heard) = channel();
        let watcher = Watcher::new(move |agent, changed| told.send((agent, changed)).unwrap());
        let agent = AgentId::new(3);
        watcher.watch(agent, folder.path());
        if watcher.unwatched() == [agent] {
            return; // the machine gives no watcher
        }
        let skip = folder.path().join(".skip-summary-tessl__a.json");
        let expect = |wanted: &Changed| while heard.recv().unwrap() != (agent, wanted.clone()) {};
        let name = Changed::Skip(".skip-summary-tessl__a.json".to_owned());
        std::fs::write(folder.path().join("x.tmp"), "{}").unwrap();
        std::fs::rename(folder.path().join("x.tmp"), folder.path().join("session-state.json")).unwrap();
        expect(&Changed::State);
        std::fs::write(&skip, "{}").unwrap();
        expect(&name);
        while heard.try_recv().is_ok() {}
        std::fs::remove_file(&skip).unwrap();
        expect(&name);
        watcher.unwatch(agent);
    }
}
