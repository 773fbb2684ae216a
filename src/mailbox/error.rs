//! Errors of the host's own side. Mistakes of an agent are not errors: they are values with a reason.

use std::io;
use std::path::{Path, PathBuf};

/// Why the mailbox of a session could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system reported an error.
    #[error("cannot {action} {path}: {}", words(source))]
    Io {
        /// What was tried.
        action: &'static str,
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// An entry in the host's own half is not what the host created.
    #[error("{path} cannot be used: {reason}")]
    Unusable { path: PathBuf, reason: String },
    /// The host's own file would be over the bound that the contract promises to agents.
    #[error("{what} would have {bytes} bytes, at most {max} are exchanged", max = hearth_wire::limits::JSON_BYTES)]
    TooLarge { what: String, bytes: u64 },
    /// A payload of the store is not JSON.
    #[error("{what} has a payload that is not JSON")]
    Payload {
        what: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A file over the bound of what is exchanged.
    #[error("the file has {bytes} bytes, at most {max} are kept", max = hearth_wire::limits::FILE_BYTES)]
    FileTooLarge { bytes: u64 },
    /// A name that did not come from a collection.
    #[error("`{name}` is not a name in a mailbox")]
    BadName { name: String },
}

impl Error {
    /// Whether the disk is full, so that a retry may succeed later.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let Self::Io { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// An operating system error for a path. Names the final file, not its temporary name, so that the same problem
    /// always has the same text.
    pub(super) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        let name = path.file_name().and_then(|name| name.to_str());
        let path = name.map_or_else(|| path.to_owned(), |name| path.with_file_name(hearth_wire::finished_name(name)));
        Self::Io { action, path, source: source.into() }
    }
}

/// The system's message, without the error number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(at) => text.get(..at).unwrap_or(&text).to_owned(),
        None => text,
    }
}
