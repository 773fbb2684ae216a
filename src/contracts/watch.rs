//! Which changes in the folders of agent groups are changes of contract files.

use std::ffi::OsStr;

use hearth_wire::watch::{self, Change};

use crate::model::id::AgentId;

use super::state_file;

/// A change in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Changed {
    /// The session-state file.
    State,
    /// A skill's skip summary with this file name was created, changed or removed.
    Skip(String),
    /// Unknown: check everything.
    Anything,
}

/// Watches agent groups' folders.
pub type Watcher = watch::Watcher<AgentId>;

/// Creates a watcher. `callback` has to keep the rules of [`watch::Watcher::new`].
pub fn watcher(callback: impl Fn(AgentId, Changed) + Send + Sync + 'static) -> Watcher {
    Watcher::new(move |agent, change| {
        let changed = match change {
            Change::Appeared(name) | Change::Vanished(name) => changed(name),
            Change::Anything => Some(Changed::Anything),
        };
        if let Some(changed) = changed {
            callback(agent, changed);
        }
    })
}

/// The contract that a file name belongs to, if any.
fn changed(name: &OsStr) -> Option<Changed> {
    let name = name.to_str()?;
    if name == state_file::NAME {
        return Some(Changed::State);
    }
    is_skip(name).then(|| Changed::Skip(name.to_owned()))
}

/// Whether a file name is that of a skip summary.
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
        let watcher = watcher(move |agent, changed| told.send((agent, changed)).unwrap());
        let agent = AgentId::new(3);
        if watcher.watch(agent, folder.path()).is_err() {
            return; // this machine cannot watch files
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
