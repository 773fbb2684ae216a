//! Why an installation of NanoClaw cannot be read.

use std::io;
use std::path::{Path, PathBuf};

/// Nothing was taken over.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no installation.
    #[error("{} holds no NanoClaw: neither data/v2.db nor store/messages.db is there; name the directory that has one of them", path.display())]
    NotThere {
        /// What was named.
        path: PathBuf,
    },
    /// The system says no.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// NanoClaw runs.
    #[error("{} is being written; stop NanoClaw and try again", path.display())]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// It is no database, or a broken one.
    #[error("{} is damaged: {what}; repair it with `sqlite3 FILE .recover`, or put an older copy in its place", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        what: String,
    },
    /// A table cannot be read.
    #[error("the table `{table}` of {} cannot be read: {what}", path.display())]
    Table {
        /// The database.
        path: PathBuf,
        /// Which.
        table: String,
        /// What SQLite says.
        what: String,
    },
    /// It is another program's database, or of a NanoClaw that is not known.
    #[error("{} is not a database of NanoClaw: {what}", path.display())]
    Foreign {
        /// The database.
        path: PathBuf,
        /// Which table or column is missing.
        what: String,
    },
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}
