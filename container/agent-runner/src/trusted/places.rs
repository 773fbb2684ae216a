//! Paths of trusted agents' files: from variables, else below the agent's directories.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::say;
use super::state_file::StateFile;
use crate::env::{self, ROOTS_VARIABLE};
use crate::roots::Roots;

/// The state file.
const STATE: &str = "NANOCLAW_STATE_PATH";
const STATE_LOCK: &str = "NANOCLAW_STATE_LOCK_PATH";
/// The file with the session for which the bootstrap was done.
const SENTINEL: &str = "NANOCLAW_SENTINEL";
/// NanoClaw's database.
const MESSAGES_DB: &str = "NANOCLAW_MESSAGES_DB";
/// Timeout of locks in milliseconds.
pub(crate) const LOCK_WAIT: &str = "HEARTH_LOCK_WAIT_MS";
/// Default timeout. Locks are held for writing one small file, so a longer wait means that the holder hangs.
const LOCK_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// The agent's directories, and variables that replace single paths.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    roots: Roots,
    /// Whether the directories were given explicitly, because they are not a container's.
    told: bool,
}

impl Places {
    /// The paths of this process. If the configured directories are invalid, an error is logged in the name of `tool`
    /// and a container's directories are used.
    pub(crate) fn of_process(tool: &str) -> Self {
        match Roots::from_env() {
            Ok(roots) => Self { roots, told: env::is_set(ROOTS_VARIABLE) },
            Err(error) => {
                say(tool, format_args!("{error}; using the directories of a container"));
                Self { roots: Roots::default(), told: false }
            }
        }
    }

    /// The paths below these directories.
    pub(crate) fn of_roots(roots: &Roots) -> Self {
        Self { roots: roots.clone(), told: true }
    }

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

    /// The bootstrap's sentinel. It lives as long as the container, or, without a container, as the session's temporary
    /// files.
    pub(crate) fn sentinel(&self) -> PathBuf {
        let tmp = || self.roots.tmp.clone().unwrap_or_else(|| PathBuf::from("/tmp"));
        variable(SENTINEL).unwrap_or_else(|| tmp().join("session_bootstrapped"))
    }

    /// NanoClaw's database, which need not exist.
    pub(crate) fn messages_db(&self) -> PathBuf {
        variable(MESSAGES_DB).unwrap_or_else(|| PathBuf::from("/workspace/store/messages.db"))
    }

    /// A path below the group's directory.
    pub(crate) fn group(&self, below: &str) -> PathBuf {
        self.roots.group.join(below)
    }

    /// A path below the directory that trusted agents share; `None` if this agent is not trusted.
    pub(crate) fn trusted(&self, below: &str) -> Option<PathBuf> {
        let root = match &self.roots.trusted {
            Some(root) => root.clone(),
            None if self.told => return None,
            None => PathBuf::from("/workspace/trusted"),
        };
        Some(root.join(below))
    }
}

/// The timeout of locks.
pub(crate) fn lock_wait() -> Duration {
    let told = env::raw(LOCK_WAIT).and_then(|text| text.to_str().and_then(|text| text.parse().ok()));
    told.map_or(LOCK_WAIT_DEFAULT, Duration::from_millis)
}

/// A path from a variable; `None` if it is empty.
pub(crate) fn variable(name: &str) -> Option<PathBuf> {
    env::raw(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from)
}
