//! Errors of backup and restore.

use std::path::{Path, PathBuf};

use crate::error::{self as state, out_of_space};

/// Result of everything that copies the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a copy could not be made or put in place.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages name the fields")]
pub enum Error {
    /// The store.
    #[error(transparent)]
    State(#[from] state::Error),
    /// The operator did not accept the files and commands that the store refers to.
    #[error("{why}")]
    NotAgreed {
        /// What was said.
        why: String,
    },
    /// The disk is full.
    #[error("the disk has no space for {path}; nothing was changed: free some space, or choose another disk")]
    NoRoom {
        /// What was being written.
        path: PathBuf,
    },
    /// Another file already has this name.
    #[error("{path} already exists and was not changed: choose another name")]
    Exists { path: PathBuf },
    /// The place for backups is a backup itself.
    #[error("{path} is itself a backup: specify the directory of dated backups, or a name that does not exist yet")]
    IsABackup { path: PathBuf },
    /// The parent directory of a backup, or of a directory of backups, is missing.
    #[error("directory {path} not found: create it, mount its disk, or choose another directory")]
    NoParent { path: PathBuf },
    /// Another process is making a backup there.
    #[error("another backup is being made in {path}: wait until it is done")]
    Busy { path: PathBuf },
    /// The directory is not a backup.
    #[error("{path} is not a backup of Hearth: {reason}")]
    NotABackup {
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// A newer Hearth made the backup.
    #[error("the backup {path} was made by a newer Hearth ({what}): install the newer Hearth")]
    Newer {
        path: PathBuf,
        /// The unsupported version or format.
        what: String,
    },
    /// The backup was changed since it was made.
    #[error("the backup {path} is damaged: {reason}; nothing was changed, use another backup")]
    Damaged {
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The target is inside a directory that agents can read, or that is replaced together with the store.
    #[error("{path} is a part of the data directory that Hearth uses: choose another directory for the backup")]
    Within { path: PathBuf },
    /// The copy is inconsistent, and so is its source.
    #[error(
        "nothing was done, because {path} is inconsistent: {count} violations, the first: {first}; `hearth check` shows those of a store; `hearth backup` and `hearth restore` take --unsound"
    )]
    Unsound {
        path: PathBuf,
        count: usize,
        /// One of them.
        first: String,
    },
    /// A store already exists, and replacing it was not requested.
    #[error("{path} already has a store: use --replace to move it aside, or another directory with --into")]
    StoreExists {
        /// The data directory.
        path: PathBuf,
    },
    /// A store exists where none is allowed.
    #[error(
        "{path} already has a store, or the mailboxes of one; an import creates a new store: specify another directory with --data"
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
    /// The backup was made, but removing older ones failed.
    #[error("the backup {path} was made, but older ones could not be removed: {source}")]
    NotThinned {
        /// The new backup.
        path: PathBuf,
        source: Box<Error>,
    },
    /// The manifest cannot be encoded; a bug in its type.
    #[error("the manifest cannot be written: {0}")]
    Manifest(serde_json::Error),
    /// A file.
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Error {
    /// Classifies an error of a file.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| if out_of_space(&source) { Self::NoRoom { path } } else { Self::Io { path, source } }
    }

    /// Classifies an error of a copy: the copy ran out of space, not the store.
    pub(crate) fn of_store(error: state::Error, path: &Path) -> Self {
        if error.is_full() { Self::NoRoom { path: path.to_owned() } } else { Self::State(error) }
    }
}
