use std::path::PathBuf;

/// Why Podman cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The variable names something else than a Unix socket.
    #[error("CONTAINER_HOST is `{value}`: only a Unix socket can be used, as in unix:///run/podman/podman.sock")]
    Host {
        /// What it names.
        value: String,
    },
    /// There is no socket.
    #[error(
        "Podman does not listen at {}: start its service (`systemctl --user enable --now podman.socket`, as root without --user)",
        list(places)
    )]
    NoSocket {
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
    /// Nobody answers, or somebody who is not Podman.
    #[error("Podman does not answer at {}: {reason}", socket.display())]
    Silent {
        /// Where.
        socket: PathBuf,
        /// What happened.
        reason: String,
    },
    /// It lacks what is needed.
    #[error("Podman {version} is too old: 4.3 or newer is needed")]
    TooOld {
        /// Which one it is.
        version: String,
    },
    /// The client, its threads or its runtime cannot be made.
    #[error("cannot talk to Podman: {reason}")]
    Client {
        /// Why not.
        reason: String,
    },
}

fn list(places: &[PathBuf]) -> String {
    places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(" or ")
}

/// What became of a call.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// Nobody knows whether it was carried out.
    #[error("Podman gave no answer: {0}")]
    Unanswered(String),
    /// It was refused.
    #[error("{message}")]
    Refused { status: u16, message: String },
}

impl Fault {
    /// Whether the answer was that there is no such thing.
    pub(super) const fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }
}

/// Podman's words for why a container cannot be made or started, and what to do.
pub(super) fn explain(image: &str, message: &str) -> String {
    let advice = if says(message, &["image not known", "no such image"]) {
        return format!("there is no image {image}: run `hearth image build`");
    } else if says(message, &["container-init binary", "catatonit"]) {
        "install the package catatonit, the init of containers"
    } else if says(message, &["slirp4netns"]) {
        "install slirp4netns, which `network = \"host\"` and networks without root need"
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
