//! Why a daemon cannot start or continue.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{limits, opening};
use crate::config::BadPlace;
use crate::state;

/// Why a daemon cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory.
    #[error(transparent)]
    Place(#[from] BadPlace),
    #[error(transparent)]
    State(#[from] state::Error),
    /// No store may be created there, or the store belongs to another installation.
    #[error(transparent)]
    Refused(#[from] opening::Refusal),
    #[error(transparent)]
    Mailbox(#[from] crate::mailbox::Error),
    #[error(transparent)]
    Runtime(#[from] crate::runtime::Error),
    /// Containers were requested but are not available.
    #[error(
        "{asked} asks for containers, which are not available, because {why}; `hearth doctor` says more, and with `hearth run \
         --runtime process`, or `runtime = \"process\"` in hearth.toml, agents run without containers"
    )]
    NoContainers {
        /// What requested them.
        asked: &'static str,
        /// Why they are not available.
        why: String,
    },
    /// A file or socket of the daemon's own.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file or socket.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The address of the metrics.
    #[error(
        "the metrics cannot be served at {address}: {source}; specify another address with --metrics or HEARTH_METRICS, or stop the program that listens there"
    )]
    Metrics {
        /// The configured address.
        address: SocketAddr,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The system grants too little address space.
    #[error(transparent)]
    AddressSpace(#[from] limits::TooSmall),
    /// No thread could be started.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// Signal handlers cannot be installed.
    #[error("cannot install signal handlers: {0}")]
    Signals(std::io::Error),
    /// The operating system provides no random numbers.
    #[error("the system provides no random numbers: {0}")]
    Entropy(std::io::Error),
    /// The daemon failed while it was running.
    #[error("the daemon cannot continue: {0}; start it again, and it continues where it stopped")]
    Failed(String),
    /// The way out of agents cannot be started.
    #[error(transparent)]
    Egress(#[from] crate::egress::Error),
    /// The model gateway cannot be started.
    #[error(transparent)]
    Gateway(#[from] crate::gateway::Error),
    /// Connections to hosts with bound secrets cannot be opened.
    #[error(transparent)]
    Secrets(#[from] crate::gateway::opened::AuthorityError),
    /// The name of a channel of our own.
    #[error(transparent)]
    Name(#[from] crate::model::address::BadName),
}
