//! Errors of access to agents' files.

use std::io;
use std::path::{Path, PathBuf};

/// A system error, or an obstacle that needs a person.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system error.
    #[error("cannot {action} {}: {source}{}", path.display(), mend(source))]
    Io {
        /// The failed action.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Something other than the expected kind of file is there.
    #[error("{}: {reason}; move it away", path.display())]
    Unusable { path: PathBuf, reason: String },
}

impl Error {
    pub(super) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }
}

/// A hint about how to fix a system error, if there is one.
fn mend(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "; the data directory must be writable for Hearth",
        io::ErrorKind::PermissionDenied => "; it must belong to the user who runs Hearth",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room",
        _ => "",
    }
}
