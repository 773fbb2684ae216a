use std::io;
use std::path::PathBuf;

use crate::model::id::SessionId;

/// Why a runtime, or one incarnation, could not be started. Never contains the value of a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory that the agent or the runtime needs cannot be made.
    #[error("cannot create the directory {}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A path that the runner is told cannot be written down in JSON.
    #[error("the path {} is not UTF-8", path.display())]
    Path {
        /// Which.
        path: PathBuf,
    },
    /// Without its filter of system calls an agent does not start.
    #[error("cannot write the seccomp profile of containers to {}", path.display())]
    Filter {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The lock that proves what lives cannot be used.
    #[error("cannot use the lock of an agent at {}", path.display())]
    Lock {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Processes of an earlier incarnation outlive every attempt to end them.
    #[error("processes of an earlier incarnation of {session} are still there")]
    Held {
        /// Whose.
        session: SessionId,
    },
    /// A real provider would have the rights of the user.
    #[error(
        "agent {folder}: provider `{provider}` needs `unconfined = true` in hearth.toml to run here, with all rights of the \
         user who runs hearth, because {why}"
    )]
    Unconfined {
        /// Which agent.
        folder: String,
        /// What drives it.
        provider: &'static str,
        /// Why it cannot be confined.
        why: String,
    },
    /// A setting is no environment variable.
    #[error("`{name}` cannot be the name of an environment variable")]
    VariableName {
        /// Which.
        name: String,
    },
    /// The value of an environment variable could not be found.
    #[error("environment variable {name}")]
    Variable {
        /// Which.
        name: String,
        /// Why not.
        source: crate::runtime::process::SecretError,
    },
    /// The program could not be started.
    #[error("cannot start {}", program.display())]
    Spawn {
        /// Which.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system gives no more threads.
    #[error("cannot start a thread")]
    Thread {
        /// Why not.
        source: io::Error,
    },
    /// Podman cannot be used.
    #[error(transparent)]
    Unusable(#[from] crate::runtime::podman::Unusable),
    /// Podman does not make or start a container.
    #[error("{reason}")]
    Podman {
        /// Why not, and what to do.
        reason: String,
    },
    /// Something that an agent is to see is not where it was any more.
    #[error("{} is {} now: it was replaced after it was checked", path.display(), found.display())]
    Moved {
        /// What was to be seen.
        path: PathBuf,
        /// What is there.
        found: PathBuf,
    },
    /// Its end was asked for while it was being started.
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
