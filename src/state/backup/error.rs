//! What can go wrong with copies of the store.

use std::path::{Path, PathBuf};

use crate::state::error::{self as state, out_of_space};

/// Result of everything that copies the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no copy, or why it was not put in place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store.
    #[error(transparent)]
    State(#[from] state::Error),
    /// The disk is full.
    #[error("the disk has no room for {path}; nothing was changed: make room, or choose another disk")]
    NoRoom {
        /// What was being written.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{path} is there already; it was left as it is: choose another name")]
    Exists {
        /// The name.
        path: PathBuf,
    },
    /// The place for backups is a backup itself.
    #[error(
        "{path} is a backup itself: name the directory that dated backups are kept in, or a name that does not exist yet"
    )]
    IsABackup {
        /// The backup.
        path: PathBuf,
    },
    /// The directory that a backup, or a directory of backups, would be made in is missing.
    #[error("there is no directory {path}: make it, or mount the disk that has it, or choose another place")]
    NoParent {
        /// The directory.
        path: PathBuf,
    },
    /// Another process makes a backup there.
    #[error("another backup is being made in {path}: wait until it is done")]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is none of a backup.
    #[error("{path} is not a backup of Hearth: {reason}")]
    NotABackup {
        /// Where.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// A newer Hearth made the backup.
    #[error("the backup {path} was made by a newer Hearth ({what}): install the newer Hearth")]
    Newer {
        /// The backup.
        path: PathBuf,
        /// What is not known here.
        what: String,
    },
    /// The backup is not what it was when it was made.
    #[error("the backup {path} is damaged: {reason}; nothing was changed, use another backup")]
    Damaged {
        /// The backup.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The place is one where agents could read the backup, or where it would go with what it is a copy of.
    #[error("{path} is a part of the data directory that has a use of its own: choose another place for the backup")]
    Within {
        /// The place.
        path: PathBuf,
    },
    /// The copy does not agree with itself, nor does what it is a copy of.
    #[error(
        "nothing was done, because {path} is inconsistent: {count} violations, the first: {first}; `hearth check` shows those of a store; `hearth backup` and `hearth restore` take --unsound"
    )]
    Unsound {
        /// The copy.
        path: PathBuf,
        /// How many.
        count: usize,
        /// One of them.
        first: String,
    },
    /// There is a store, and nobody said that it is to be replaced.
    #[error("{path} has a store already: use --replace to move it aside, or another directory with --into")]
    StoreExists {
        /// The data directory.
        path: PathBuf,
    },
    /// There must not be a store.
    #[error(
        "{path} has a store already, or mailboxes of one; an import makes a new one: name another directory with --data"
    )]
    NotNew {
        /// The data directory.
        path: PathBuf,
    },
    /// The file system cannot exchange two directories in one step.
    #[error(
        "the file system of {path} cannot exchange two directories in one step: move {path} away yourself, then restore"
    )]
    NoExchange {
        /// The store's directory.
        path: PathBuf,
    },
    /// The backup was made, but there are more than wanted.
    #[error("the backup {path} was made, but older ones could not be removed: {source}")]
    NotThinned {
        /// The new backup.
        path: PathBuf,
        /// Why.
        source: Box<Error>,
    },
    /// A manifest that cannot be written: a defect of its type.
    #[error("the manifest cannot be written: {0}")]
    Manifest(serde_json::Error),
    /// A file.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
}

impl Error {
    /// Sorts an error of a file.
    pub(in crate::state) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| if out_of_space(&source) { Self::NoRoom { path } } else { Self::Io { path, source } }
    }

    /// Sorts an error of a copy: what has no room is the copy, not the store.
    pub(in crate::state) fn of_store(error: state::Error, path: &Path) -> Self {
        if error.is_full() { Self::NoRoom { path: path.to_owned() } } else { Self::State(error) }
    }
}
