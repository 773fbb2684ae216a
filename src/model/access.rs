//! What agents may access: networks, directories of the host, resources.

use serde::{Deserialize, Serialize};

/// Network access of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// No host.
    None,
    /// Only this machine, as `host.containers.internal`. Only Podman enforces it.
    Host,
    /// Any host.
    Open,
    /// Only the hosts of the list.
    Listed,
    /// What is listed, and what a person allows.
    Ask,
    /// What is listed, and all public addresses.
    Public,
}

impl Network {
    /// All of them, from the least to the most access.
    pub const ALL: [Self; 6] = [Self::None, Self::Listed, Self::Ask, Self::Public, Self::Host, Self::Open];

    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Host => "host",
            Self::Open => "open",
            Self::Listed => "listed",
            Self::Ask => "ask",
            Self::Public => "public",
        }
    }

    /// Whether an agent has a network of its own that nothing leaves except through the daemon.
    #[must_use]
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::None | Self::Listed | Self::Ask | Self::Public)
    }

    /// Whether the daemon judges the agent's connections by rules.
    #[must_use]
    pub const fn has_rules(self) -> bool {
        matches!(self, Self::Listed | Self::Ask | Self::Public)
    }
}

/// What an agent may do with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Access {
    /// The agent reads the directory.
    ReadOnly,
    /// The agent reads and changes the directory.
    ReadWrite,
}

impl Access {
    /// For people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::ReadWrite => "read-write",
        }
    }
}

/// A directory or file of the host, declared by the operator as a mount. The allow-list decides at every start of an
/// incarnation whether the agent gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraMount {
    /// Path as it was written. `~` and `~/…` stand for the home of the user who runs Hearth.
    pub host_path: String,
    /// Path below `/workspace/extra` at which the agent sees it; none is the last part of `host_path`.
    pub container_path: Option<String>,
    /// The requested access. Write access also needs the allow-list's permission.
    pub access: Access,
}

/// Resource limits of one incarnation in a container. None is the runtime's own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    pub cpu: Option<u32>,
    /// Processes and threads.
    pub pids: Option<u32>,
}
