//! Why images could not be built.

use std::io;
use std::path::PathBuf;

use super::super::Unusable;

/// Why Podman did not carry out a call, or why no call was made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Podman was not found, does not answer, or cannot be used.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// The call timed out.
    #[error("Podman at {} took too long, so the call was cancelled", socket.display())]
    TooLong { socket: PathBuf },
    /// Podman rejected the call.
    #[error("Podman refuses: {message} (status {status})")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Podman's message.
        message: String,
    },
    /// The answer is not understood.
    #[error("Podman at {} sent an answer that does not match its API: {what}", socket.display())]
    Unclear {
        socket: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// A build ended with an error.
    #[error("the image {image} could not be built: {message}\n{tail}")]
    Build {
        image: String,
        /// Podman's error message.
        message: String,
        /// The last lines of the build log.
        tail: String,
    },
    /// A file for the image cannot be read.
    #[error("cannot read {}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// Invalid image name.
    #[error("`{given}` is not the name of an image: use letters, digits and `._-:/@`")]
    ImageName { given: String },
    /// Invalid registry address.
    #[error("`{given}` is not the address of a registry: use one like `https://registry.npmjs.org`")]
    Registry { given: String },
    /// Invalid package name.
    #[error("`{given}` is not the name of a package of {kind}")]
    Package {
        /// `apt` or `npm`.
        kind: &'static str,
        given: String,
    },
    /// An image with packages was requested for an agent without packages.
    #[error("agent {folder} has no packages: it needs no image of its own")]
    NoPackages { folder: String },
    /// The given file cannot be used as the runner of an image.
    #[error("{} cannot be the runner of an image: {problem}", path.display())]
    Runner { path: PathBuf, problem: super::runner::Problem },
    /// No runner was found that works in an image.
    #[error(
        "there is no runner that works in an image: run `./install.sh --from-source` in Hearth's source, which installs \
         one beside this program, or specify one with --runner. Tried: {tried}"
    )]
    NoRunner {
        /// The files that were tried, and why each was rejected.
        tried: String,
    },
}
