//! Why an installation of NanoClaw cannot be read.

use std::io;
use std::path::{Path, PathBuf};

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no installation.
    #[error("{} is not an installation of NanoClaw: it has neither data/v2.db nor store/messages.db; specify the directory that has one of them", path.display())]
    NotThere {
        /// The given directory.
        path: PathBuf,
    },
    /// A system error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A link, a pipe or a file that is too large: it is not opened.
    #[error("{}: {why}; nothing was imported", path.display())]
    Refused {
        /// What it is about.
        path: PathBuf,
        /// Why it is not opened.
        why: String,
    },
    /// An error from opening a directory or a file.
    #[error(transparent)]
    Machine(#[from] crate::contracts::Error),
    /// NanoClaw is running.
    #[error("{} is being written; stop NanoClaw and try again", path.display())]
    Busy { path: PathBuf },
    /// Not a database, or a damaged one.
    #[error("{} is damaged: {what}; repair it with `sqlite3 FILE .recover`, or put an older copy in its place", path.display())]
    Damaged {
        path: PathBuf,
        /// SQLite's error.
        what: String,
    },
    /// A table cannot be read.
    #[error("the table `{table}` of {} cannot be read: {what}", path.display())]
    Table {
        path: PathBuf,
        table: String,
        /// SQLite's error.
        what: String,
    },
    /// Another program's database, or one of an unknown NanoClaw version.
    #[error("{} is not a database of NanoClaw: {what}", path.display())]
    Foreign {
        path: PathBuf,
        /// The missing table or column.
        what: String,
    },
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}
