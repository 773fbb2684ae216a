//! Why a runner stops.

use std::io;
use std::path::PathBuf;

use crate::read_error::ReadError;

/// Why a runner stopped.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// `host/context.json` names another incarnation, so this one may not continue.
    #[error("incarnation {mine} is over: host/context.json names incarnation {named}")]
    Superseded {
        /// This process's incarnation.
        mine: u32,
        /// The current incarnation.
        named: u32,
    },
    /// It was asked to stop (SIGTERM, or a byte on the life pipe). The next incarnation gets its claimed messages.
    #[error("asked to stop")]
    Asked,
    /// It failed; the host starts another incarnation.
    #[error(transparent)]
    Broken(#[from] Error),
}

/// Why a runner failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The context cannot be read, and nothing may be done without it.
    #[error("cannot read the context, so nothing may be done: {0}; Hearth writes it before it starts a runner")]
    Context(#[source] ReadError),
    /// The acks cannot be read, so finished messages are unknown.
    #[error(
        "cannot read an ack, so finished messages could be answered again: {0}; the runner must be able to read what it wrote"
    )]
    Ack(#[source] ReadError),
    /// A directory of the contract is missing or unreadable.
    #[error("cannot read the directory {}: {source}; Hearth creates it before it starts a runner", path.display())]
    Directory { path: PathBuf, source: io::Error },
    /// A file of the agent's half cannot be written.
    #[error("cannot write {}: {source}; it needs room and the right to write there", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A file of the agent's half cannot be encoded as JSON.
    #[error("cannot encode {}: {reason}", path.display())]
    Encode { path: PathBuf, reason: String },
    /// An inherited descriptor is unusable.
    #[error("{variable} names descriptor {fd}, which cannot be used: {source}; it must be inherited from the host")]
    Descriptor {
        /// The variable that names it.
        variable: &'static str,
        fd: u32,
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start the {name} thread: {source}")]
    Thread { name: &'static str, source: io::Error },
}

impl Error {
    /// Whether there was no disk space, which may pass.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        matches!(self, Self::Write { source, .. } if full(source.kind()))
    }

    /// Exit code of the process: 2 for a wrong start, 1 for other errors.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Context(_) | Self::Directory { .. } | Self::Descriptor { .. } => 2,
            Self::Ack(_) | Self::Write { .. } | Self::Encode { .. } | Self::Thread { .. } => 1,
        }
    }
}
