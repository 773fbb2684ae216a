//! Why agents could not be started.

use std::io;
use std::path::PathBuf;

use crate::model::id::SessionId;

/// Why a runtime, or one incarnation, could not be started. Never contains the value of a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory that the agent or the runtime needs cannot be created.
    #[error("cannot create the directory {}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    /// A path that is passed to the runner cannot be written as JSON.
    #[error("the path {} is not UTF-8", path.display())]
    Path { path: PathBuf },
    /// The seccomp profile cannot be written. Without it an agent does not start.
    #[error("cannot write the seccomp profile of containers to {}", path.display())]
    Filter { path: PathBuf, source: io::Error },
    /// The lock that proves which incarnation is alive cannot be used.
    #[error("cannot use the lock of an agent at {}", path.display())]
    Lock { path: PathBuf, source: io::Error },
    /// Processes of an earlier incarnation survived every attempt to kill them.
    #[error("processes of an earlier run of {session} are still running")]
    Held { session: SessionId },
    /// A real provider would run with the user's permissions.
    #[error(
        "agent {folder}: provider `{provider}` needs `unconfined = true` in hearth.toml to run here, with all \
         permissions of the user who runs hearth, because {why}"
    )]
    Unconfined {
        folder: String,
        /// What drives it.
        provider: &'static str,
        /// Why it cannot be confined.
        why: String,
    },
    /// The agent would have a network that nothing closes.
    #[error(
        "agent {folder}: `network = \"{network}\"` cannot be enforced here, because {why}; {advice}, or set `network = \"open\"` \
         in hearth.toml"
    )]
    OpenNetwork {
        folder: String,
        network: &'static str,
        /// Why it cannot be enforced.
        why: String,
        /// What to do.
        advice: String,
    },
    /// A setting is not a valid environment variable name.
    #[error("`{name}` cannot be the name of an environment variable")]
    VariableName { name: String },
    /// The value of an environment variable cannot be resolved.
    #[error("environment variable {name}")]
    Variable { name: String, source: crate::runtime::process::SecretError },
    /// The program cannot be started.
    #[error("cannot start {}", program.display())]
    Spawn { program: PathBuf, source: io::Error },
    /// The system has no more threads.
    #[error("cannot start a thread")]
    Thread { source: io::Error },
    /// Podman cannot be used.
    #[error(transparent)]
    Unusable(#[from] crate::runtime::podman::Unusable),
    /// Podman does not create or start a container.
    #[error("{reason}")]
    Podman {
        /// Why not, and what to do.
        reason: String,
    },
    /// A path that is to be mounted was replaced after it was checked.
    #[error("{} was replaced after it was checked: it is {} now", path.display(), found.display())]
    Moved {
        /// The path that was to be mounted.
        path: PathBuf,
        /// What is there now.
        found: PathBuf,
    },
    /// Secrets cannot be handed over.
    #[error("cannot hand the agent its secrets through {}", path.display())]
    HandOver {
        /// The pipe, or the directory of all pipes.
        path: PathBuf,
        source: io::Error,
    },
    /// The runner does not know how secrets are handed over, or cannot read them.
    #[error(
        "the runner in the image {image} did not read the agent's secrets ({how}): run `hearth image build`, or put the \
         `hearth-runner` of this version into the image"
    )]
    NotTaken {
        image: String,
        /// What it did instead.
        how: String,
    },
    /// The incarnation was asked to stop while it was starting.
    #[error("stopped before it started")]
    Stopped,
}

impl Error {
    /// The whole chain in one line, for people.
    #[must_use]
    pub fn reason(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(error) = next {
            text.push_str(": ");
            text.push_str(&error.to_string());
            next = error.source();
        }
        text
    }
}
