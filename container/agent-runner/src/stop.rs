//! Why a runner ends.

use std::io;
use std::path::PathBuf;

use crate::host::ReadError;

/// The end of a runner; it has no other.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// `host/context.json` names another incarnation: this one may not do anything any more.
    #[error("incarnation {mine} is over: host/context.json names incarnation {named}")]
    Superseded {
        /// The incarnation this process is.
        mine: u32,
        /// The incarnation that may work.
        named: u32,
    },
    /// It was asked to end (SIGTERM): what it had claimed comes back to the next incarnation.
    #[error("asked to stop")]
    Asked,
    /// It cannot go on; the host starts another incarnation.
    #[error(transparent)]
    Broken(#[from] Error),
}

/// Why a runner cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Without a context nothing may be done.
    #[error("cannot read the context, so nothing may be done: {0}; Hearth writes it before it starts a runner")]
    Context(#[source] ReadError),
    /// Which messages are finished cannot be seen.
    #[error(
        "cannot read an ack, so finished messages could be answered again: {0}; the runner must be able to read what it wrote"
    )]
    Ack(#[source] ReadError),
    /// A directory of the contract is not there.
    #[error("cannot read the directory {}: {source}; Hearth creates it before it starts a runner", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of the agent's half could not be written.
    #[error("cannot write {}: {source}; it needs room and the right to write there", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of the agent's half could not be put into JSON.
    #[error("cannot encode {}: {reason}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A descriptor that the host promised is not there.
    #[error("{variable} names descriptor {fd}, which cannot be used: {source}; it must be inherited from the host")]
    Descriptor {
        /// The variable that names it.
        variable: &'static str,
        /// Its number.
        fd: u32,
        /// Why not.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start the {name} thread: {source}")]
    Thread {
        /// What it is for.
        name: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    /// Whether there was no room for a file, which may pass.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        matches!(self, Self::Write { source, .. } if full(source.kind()))
    }

    /// Exit code of a process that ends so: 2 for a wrong start, 1 for the rest.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Context(_) | Self::Directory { .. } | Self::Descriptor { .. } => 2,
            Self::Ack(_) | Self::Write { .. } | Self::Encode { .. } | Self::Thread { .. } => 1,
        }
    }
}
