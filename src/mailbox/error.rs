//! Faults of the host's own side. What an agent does wrong is never one of them: that is a value with a reason.

use std::io;
use std::path::{Path, PathBuf};

/// Why the mailbox of a session could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine refused.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Something of the host's own half is not what the host made it.
    #[error("{path} cannot be used: {reason}")]
    Unusable {
        /// What.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The host's own file would be over the bound that the contract promises to agents.
    #[error("{what} would have {bytes} bytes, at most {max} are exchanged", max = hearth_wire::limits::JSON_BYTES)]
    TooLarge {
        /// Which file.
        what: String,
        /// Its size.
        bytes: u64,
    },
    /// A payload of the store is not JSON.
    #[error("{what} has a payload that is not JSON")]
    Payload {
        /// Which file.
        what: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file over the bound of what is exchanged.
    #[error("the file has {bytes} bytes, at most {max} are kept", max = hearth_wire::limits::FILE_BYTES)]
    FileTooLarge {
        /// Its size.
        bytes: u64,
    },
    /// A name that no collection gave out.
    #[error("`{name}` is not a name in a mailbox")]
    BadName {
        /// The name.
        name: String,
    },
}

impl Error {
    /// Whether the disk has no room, so that the same thing may work later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let Self::Io { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// An operating system error while doing something with a path.
    pub(super) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }
}
