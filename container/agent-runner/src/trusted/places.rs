//! Where the files of trusted agents are: as variables say, else below the agent's directories.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::say;
use super::state_file::StateFile;
use crate::env;
use crate::roots::{ROOTS_VARIABLE, Roots};

/// The state file.
const STATE: &str = "NANOCLAW_STATE_PATH";
/// Its lock.
const STATE_LOCK: &str = "NANOCLAW_STATE_LOCK_PATH";
/// The file that says for which session bootstrap was done.
const SENTINEL: &str = "NANOCLAW_SENTINEL";
/// The database of the host that these files come from.
const MESSAGES_DB: &str = "NANOCLAW_MESSAGES_DB";
/// Milliseconds to wait for a lock.
pub(crate) const LOCK_WAIT: &str = "HEARTH_LOCK_WAIT_MS";
/// Who waits longer than this for a lock waits for a process that hangs: holders write one small file.
const LOCK_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// The agent's directories and the variables that replace single files.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    roots: Roots,
    /// Whether the directories were told, because they are not a container's.
    told: bool,
}

impl Places {
    /// The places of this process. Directories that cannot be understood are complained about in the name of `tool`, and
    /// a container's are used.
    pub(crate) fn of_process(tool: &str) -> Self {
        match env::roots() {
            Ok(roots) => Self { roots, told: env::is_set(ROOTS_VARIABLE) },
            Err(error) => {
                say(tool, format_args!("{error}; using the directories of a container"));
                Self { roots: Roots::default(), told: false }
            }
        }
    }

    /// The places below these directories.
    pub(crate) fn of_roots(roots: &Roots) -> Self {
        Self { roots: roots.clone(), told: true }
    }

    /// The directories.
    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// `session-state.json` with its lock.
    pub(crate) fn state(&self) -> StateFile {
        let path = variable(STATE).unwrap_or_else(|| self.roots.group.join("session-state.json"));
        let file = StateFile::at(path, lock_wait());
        let lock = variable(STATE_LOCK).unwrap_or(file.lock);
        StateFile { lock, ..file }
    }

    /// The sentinel of bootstrap. It lives as long as the container, or as the session's temporary files where there is
    /// none.
    pub(crate) fn sentinel(&self) -> PathBuf {
        let tmp = || self.roots.tmp.clone().unwrap_or_else(|| PathBuf::from("/tmp"));
        variable(SENTINEL).unwrap_or_else(|| tmp().join("session_bootstrapped"))
    }

    /// The other host's database; it need not exist.
    pub(crate) fn messages_db(&self) -> PathBuf {
        variable(MESSAGES_DB).unwrap_or_else(|| PathBuf::from("/workspace/store/messages.db"))
    }

    /// A file or directory of the group's own.
    pub(crate) fn group(&self, below: &str) -> PathBuf {
        self.roots.group.join(below)
    }

    /// A file or directory of what trusted agents share; `None` where this agent is not one of them.
    pub(crate) fn trusted(&self, below: &str) -> Option<PathBuf> {
        let root = match &self.roots.trusted {
            Some(root) => root.clone(),
            None if self.told => return None,
            None => PathBuf::from("/workspace/trusted"),
        };
        Some(root.join(below))
    }
}

/// How long a lock is waited for.
pub(crate) fn lock_wait() -> Duration {
    let told = env::raw(LOCK_WAIT).and_then(|text| text.to_str().and_then(|text| text.parse().ok()));
    told.map_or(LOCK_WAIT_DEFAULT, Duration::from_millis)
}

/// A path from a variable; an empty one is none.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    env::raw(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from)
}
