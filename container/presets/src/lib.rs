//! Agents that speak the Agent Client Protocol, as data: how each is installed, started and led to a model.
//!
//! The host and the program on the agent's side share this table. In strings of configurations, `$MODEL` stands for the
//! agent's `model`, and `$BASE_URL` for the address of a server of one's own.

use serde::{Deserialize, Serialize};

mod table;

pub use table::CLAUDE_VARIABLES;

/// A known agent. It is stored by its position, so new ones go to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preset {
    /// OpenCode.
    Opencode,
    /// Gemini CLI.
    Gemini,
    /// Codex.
    Codex,
    /// Claude Agent, the adapter for the Claude CLI.
    ClaudeAcp,
    /// Qwen Code.
    Qwen,
    /// Hermes.
    Hermes,
    /// GitHub Copilot.
    Copilot,
}

impl Preset {
    /// The version of Node, a package of npm, that runs all of them.
    pub const NODE: &'static str = "22.23.3";

    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Opencode, Self::Gemini, Self::Codex, Self::ClaudeAcp, Self::Qwen, Self::Hermes, Self::Copilot];

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.about().name == name)
    }

    /// The preset of the agent that gives itself this name in the protocol's handshake.
    #[must_use]
    pub fn of_agent(handshake: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.about().handshake == handshake)
    }

    /// What is known of it.
    #[must_use]
    pub const fn about(self) -> &'static KnownAgent {
        match self {
            Self::Opencode => &table::OPENCODE,
            Self::Gemini => &table::GEMINI,
            Self::Codex => &table::CODEX,
            Self::ClaudeAcp => &table::CLAUDE_ACP,
            Self::Qwen => &table::QWEN,
            Self::Hermes => &table::HERMES,
            Self::Copilot => &table::COPILOT,
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct KnownAgent {
    /// The provider's name in `hearth.toml`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The name that it gives itself in the protocol's handshake.
    pub handshake: &'static str,
    /// Program and arguments.
    pub command: &'static [&'static str],
    /// What has to be installed.
    pub package: Package,
    /// Variables that it is started with, unless they are set.
    pub env: &'static [(&'static str, &'static str)],
    /// How it is led to a model.
    pub model: ModelVariables,
    /// How it is told to ask for permission, and not to.
    pub permissions: Permitting,
    /// Where its sessions lie below its home.
    pub sessions: &'static str,
    /// What its numbers of tokens count.
    pub counting: Counting,
    /// The file of instructions in its folder that it reads, if Hearth writes that file for it.
    pub instructions: Option<&'static str>,
    /// Whether it was tried with Hearth, or only recorded with another client of the protocol.
    pub trial: Trial,
}

/// A package with its pinned version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    /// Of npm, with the lowest major version of Node that runs it. With an older one, npm may install older versions.
    Npm {
        name: &'static str,
        version: &'static str,
        /// Major version of Node; none for a program that needs no Node.
        node: Option<u32>,
    },
    /// Of PyPI.
    Pypi {
        /// Its name, with extras.
        name: &'static str,
        version: &'static str,
    },
}

impl Package {
    /// The pinned version.
    #[must_use]
    pub const fn version(&self) -> &'static str {
        match self {
            Self::Npm { version, .. } | Self::Pypi { version, .. } => version,
        }
    }

    /// Major version of Node that runs it; none if it needs no Node.
    #[must_use]
    pub const fn node(&self) -> Option<u32> {
        match self {
            Self::Npm { node, .. } => *node,
            Self::Pypi { .. } => None,
        }
    }

    /// Whether it is of PyPI, not of npm.
    #[must_use]
    pub const fn is_python(&self) -> bool {
        matches!(self, Self::Pypi { .. })
    }

    /// Its name and version, as its installer takes them.
    #[must_use]
    pub fn spec(&self) -> String {
        match self {
            Self::Npm { name, version, .. } => format!("{name}@{version}"),
            Self::Pypi { name, version } => format!("{name}=={version}"),
        }
    }

    /// The command that installs it.
    #[must_use]
    pub fn install(&self) -> String {
        match self {
            Self::Npm { .. } => format!("npm install -g {}", self.spec()),
            Self::Pypi { .. } => format!("pip install '{}'", self.spec()),
        }
    }
}

/// How an agent is led to a model.
#[derive(Debug)]
pub struct ModelVariables {
    /// Variable with the address of a server of one's own.
    pub base_url: &'static str,
    pub key: &'static str,
    /// Variables for such a server, unless they are set.
    pub server_env: &'static [(&'static str, &'static str)],
    /// Variable that names the model at the start, if there is one. It is set from `model`.
    pub name: Option<&'static str>,
    /// The model's name in the protocol if a server of one's own has it, with `$MODEL` in it.
    pub own: &'static str,
    /// Whether a conversation keeps the server's address, and goes on only with that one.
    pub keeps_server: bool,
    /// The configuration that Hearth generates.
    pub config: Option<Config>,
    /// Whether it chooses a model of its maker's, unless one is named.
    pub chooses: bool,
}

/// A generated configuration: JSON objects, whose keys are put together.
#[derive(Debug)]
pub struct Config {
    /// Where the agent reads it.
    pub place: ConfigPlace,
    /// Variables by which operators name a configuration of their own. If one is set, none is generated.
    pub others: &'static [&'static str],
    pub always: &'static str,
    /// What is in it if `model` is set.
    pub model: &'static str,
    /// What is in it for a server of one's own.
    pub server: &'static str,
}

/// Where an agent reads its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigPlace {
    Variable(&'static str),
    /// In this file below its home, unless there is one that Hearth did not generate.
    File(&'static str),
}

/// How an agent is told to ask for permission.
#[derive(Debug)]
pub struct Permitting {
    /// The mode in which it asks for nothing; none if it does so by default.
    pub allow: Option<&'static str>,
    /// The mode in which it asks for all that matters; none if it does so by default.
    pub ask: Option<&'static str>,
    /// Variables for asking, unless they are set.
    pub ask_env: &'static [(&'static str, &'static str)],
}

/// What the numbers of tokens at the end of a turn count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    Turn,
    /// The last call of the turn.
    LastCall,
    /// They come with each call.
    EachCall,
    /// The session so far.
    Session,
    /// The process so far.
    Process,
    /// That is unknown, so they are not counted.
    Unknown,
}

impl Counting {
    /// For people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "each turn",
            Self::LastCall => "the last call of each turn",
            Self::EachCall => "each call",
            Self::Session => "the session so far",
            Self::Process => "the process so far",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether an agent was tried with Hearth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// With the version of the table.
    Hearth,
    /// With another client of the protocol.
    Recorded,
}
