//! Why a file of the host's half could not be read.

use std::io;
use std::path::PathBuf;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file system error, which may pass.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Larger than the contract allows.
    #[error("{} has more than {limit} bytes, the most a file may have", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    /// Does not follow the contract.
    #[error("{} is not what the contract says: {reason}", path.display())]
    Invalid {
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Written by a newer program.
    #[error("{} is of contract version {found}, this program knows {known}: build a newer image with `hearth image build`", path.display())]
    TooNew {
        path: PathBuf,
        found: u64,
        /// The highest version that this program knows.
        known: u32,
    },
}

impl ReadError {
    /// The file does not exist (any more).
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether reading again cannot help, because files never change.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }
}
