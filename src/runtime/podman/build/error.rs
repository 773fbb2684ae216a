use std::io;
use std::path::PathBuf;

/// Why Podman did not do what was asked, or why nothing was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no Podman to ask.
    #[error(
        "there is no Podman at {tried}: install it and run `systemctl --user enable --now podman.socket`, start \
         `podman system service --time=0 unix://PATH` yourself, or name its socket with CONTAINER_HOST=unix://PATH"
    )]
    NoPodman {
        /// Where it was looked for.
        tried: String,
    },
    /// `CONTAINER_HOST` names something else than a socket of this machine.
    #[error(
        "CONTAINER_HOST is `{given}`; Hearth shares directories with agents and needs a `unix://` socket of this machine"
    )]
    Elsewhere {
        /// What it names.
        given: String,
    },
    /// The connection broke.
    #[error("Podman at {} broke off", socket.display())]
    Broken {
        /// Its socket.
        socket: PathBuf,
        /// How.
        source: io::Error,
    },
    /// It took too long.
    #[error("Podman at {} took too long, and was told to stop", socket.display())]
    TooLong {
        /// Its socket.
        socket: PathBuf,
    },
    /// It said no.
    #[error("Podman refuses: {said} (status {status})")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its words.
        said: String,
    },
    /// It said something that is not understood.
    #[error("Podman at {} answers something other than its API says: {what}", socket.display())]
    Unclear {
        /// Its socket.
        socket: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// A build ended with an error.
    #[error("the image {image} could not be built: {said}\n{tail}")]
    Build {
        /// Which.
        image: String,
        /// What Podman says.
        said: String,
        /// The last lines of the build.
        tail: String,
    },
    /// A file that belongs in the image cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something that cannot be the name of an image.
    #[error("`{given}` is not the name of an image: use letters, digits and `._-:/@`")]
    ImageName {
        /// What was given.
        given: String,
    },
    /// Something that cannot be the address of a registry.
    #[error("`{given}` is not the address of a registry: use one like `https://registry.npmjs.org`")]
    Registry {
        /// What was given.
        given: String,
    },
    /// Something that cannot be the name of a package.
    #[error("`{given}` is not the name of a package of {kind}")]
    Package {
        /// `apt` or `npm`.
        kind: &'static str,
        /// What was given.
        given: String,
    },
    /// An image for packages, without packages.
    #[error("agent {folder} has no packages: it needs no image of its own")]
    NoPackages {
        /// Which agent.
        folder: String,
    },
    /// The given file cannot be the runner of an image.
    #[error("{} cannot be the runner of an image: {problem}", path.display())]
    Runner {
        /// Which.
        path: PathBuf,
        /// Why not.
        problem: super::runner::Problem,
    },
    /// No runner was found that can be the one of an image.
    #[error(
        "there is no runner that works in an image: make one with `cargo runner` in Hearth's source, or name one with \
         --runner. Looked at: {tried}"
    )]
    NoRunner {
        /// What was looked at, and why it was not taken.
        tried: String,
    },
}
