//! What can go wrong with the files of agents.

use std::io;
use std::path::{Path, PathBuf};

/// A fault of the machine, or something in the way that only a person can judge.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system says no.
    #[error("cannot {action} {}: {source}{}", path.display(), mend(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something that is not what has to be there.
    #[error("{}: {reason}; move it away", path.display())]
    Unusable {
        /// What is in the way.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }
}

/// What to do about an error of the system, where that is known.
fn mend(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "; the data directory must lie where Hearth can write",
        io::ErrorKind::PermissionDenied => "; it must belong to the user who runs Hearth",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room",
        _ => "",
    }
}
