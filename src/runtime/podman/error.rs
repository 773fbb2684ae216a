//! Errors of calls to Podman.

use std::path::PathBuf;

/// Why Podman cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The variable does not name a Unix socket.
    #[error("CONTAINER_HOST is `{value}`: only a Unix socket can be used, as in unix:///run/podman/podman.sock")]
    Host {
        /// The value of the variable.
        value: String,
    },
    /// No socket accepts a connection.
    #[error(
        "Podman does not answer at {tried}: start its service (`systemctl --user enable --now podman.socket`, as root \
         without --user), install it (`apt install podman`), or name its socket in CONTAINER_HOST"
    )]
    NoSocket {
        /// The paths that were tried, and why each failed.
        tried: String,
    },
    /// Nothing answers at the socket, or it is not Podman.
    #[error("Podman does not answer at {}: {reason}", socket.display())]
    Silent {
        /// Path of the socket.
        socket: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// Podman is too old.
    #[error("Podman {version} is too old: 4.3 or newer is needed")]
    TooOld { version: String },
    /// The client, its threads or its async runtime cannot be created.
    #[error("cannot talk to Podman: {reason}")]
    Client { reason: String },
}

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// No answer: the call may or may not have been carried out.
    #[error("Podman gave no answer: {0}")]
    Unanswered(String),
    /// Podman rejected the call.
    #[error("{message}")]
    Refused { status: u16, message: String },
}

impl Fault {
    /// Whether Podman answered that the object does not exist.
    pub(super) const fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }
}

/// An error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        if !text.contains(&error.to_string()) {
            text.push_str(": ");
            text.push_str(&error.to_string());
        }
        next = error.source();
    }
    text
}

/// Podman's message for why a container cannot be created or started, plus advice.
pub(super) fn explain(image: &str, message: &str) -> String {
    let advice = if says(message, &["image not known", "no such image"]) {
        return format!("there is no image {image}: run `hearth image build`");
    } else if says(message, &["container-init binary", "catatonit"]) {
        "install the package catatonit, the init of containers"
    } else if says(message, &["slirp4netns"]) {
        "install slirp4netns, which every `network` but `none` needs"
    } else if says(message, &["rlimit"]) {
        "Podman asks for more than this machine allows; set default_ulimits in containers.conf"
    } else if says(message, &["statfs", "mount"]) {
        "a directory that the agent needs cannot be shown to it"
    } else if says(message, &["cgroup"]) {
        "the OCI runtime does not fit the cgroups of this machine; try `runtime = \"runc\"` in containers.conf"
    } else {
        return format!("Podman refuses the container: {message}");
    };
    format!("Podman refuses the container: {message} ({advice})")
}

fn says(message: &str, words: &[&str]) -> bool {
    words.iter().any(|word| message.to_ascii_lowercase().contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_what_to_do() {
        let said = |message| explain("localhost/a:1", message);
        assert_eq!(said("localhost/a:1: image not known"), "there is no image localhost/a:1: run `hearth image build`");
        assert!(said("container-init binary not found on the host: stat /x: none").contains("package catatonit"));
        assert!(said("error setting rlimit type 7").contains("default_ulimits"));
        assert_eq!(said("out of beer"), "Podman refuses the container: out of beer");
    }
}
