//! Errors of archives.

use std::io;
use std::path::{Path, PathBuf};

/// Why an archive could not be written or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The disk is full.
    #[error("the disk has no space for {}; nothing was changed: free some space, or choose another disk", path.display())]
    NoRoom {
        /// What was being written.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not a backup of Hearth: {reason}", path.display())]
    NotABackup {
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// A newer Hearth made it.
    #[error("the backup {} was made by a newer Hearth (it has version {found}, but this Hearth supports only version {known}): install the newer Hearth", path.display())]
    Newer {
        path: PathBuf,
        found: u64,
        /// The version of this program.
        known: u32,
    },
    /// The file was changed since it was made.
    #[error("the backup {} is damaged: {reason}; nothing was changed, use another backup", path.display())]
    Damaged {
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An entry that Hearth never writes.
    #[error("the backup {} is refused: its entry `{entry}` {reason}; nothing was changed", path.display())]
    Refused {
        path: PathBuf,
        /// Path of the entry.
        entry: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of the store that cannot be copied whole.
    #[error("{} changed while it was copied: {reason}", path.display())]
    Changed { path: PathBuf, reason: String },
    /// The directory to unpack into is in use.
    #[error("another restore into {} is running: wait until it is done", path.display())]
    Busy {
        /// The data directory.
        path: PathBuf,
    },
    /// The directory to unpack into has content.
    #[error(
        "{} is not empty, it has {names}: a backup of everything is restored into a new or empty directory; move this one away, or specify another with --into",
        path.display()
    )]
    NotEmpty {
        /// The data directory.
        path: PathBuf,
        /// Some of its entries.
        names: String,
    },
    /// A directory of the data directory.
    #[error(transparent)]
    Directory(#[from] crate::contracts::Error),
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::NoRoom { path }
            }
            _ => Self::Io { action, path, source },
        }
    }

    pub(super) fn refused(path: &Path, entry: &[u8], reason: impl Into<String>) -> Self {
        let entry = super::report::shown(entry);
        Self::Refused { path: path.to_owned(), entry, reason: reason.into() }
    }

    pub(super) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }
}
