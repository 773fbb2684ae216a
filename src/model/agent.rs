//! Agents: how they are run, what they may reach, what they are given.

use serde::{Deserialize, Serialize};

use super::entity::{Folder, Origin};
use super::hold::Hold;
use super::request::Install;
use super::time::Timestamp;

/// What an agent may touch; decides mounts and defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    /// The owner's own agent.
    Main,
    /// One that shares the trusted directory.
    Trusted,
    /// One that does not.
    Untrusted,
}

/// What drives an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProviderKind {
    /// Answers with what it was told; needs nothing.
    Echo,
    /// Any program speaking JSON lines.
    Command,
    /// The agent CLI.
    Claude,
}

impl ProviderKind {
    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Command => "command",
            Self::Claude => "claude",
        }
    }
}

/// A value of an agent's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnvValue {
    /// Text that may be seen.
    Plain(String),
    /// Where a secret is found when the agent starts: `env:NAME`, `file:PATH` or `cmd:…`. Never the secret.
    Reference(String),
}

/// A server of tools that an agent may use, started beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    /// Its name: unique for the agent.
    pub name: String,
    /// Program.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment, sorted by name.
    pub env: Vec<(String, EnvValue)>,
}

impl McpServer {
    /// Under which name the agent's environment has the value behind a reference of the server's.
    #[must_use]
    pub fn variable(&self, name: &str) -> String {
        format!("HEARTH_MCP_{}_{name}", self.name.replace('-', "__"))
    }
}

/// Packages in an agent's image beyond those of the base.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Packages {
    /// Of the distribution.
    pub apt: Vec<String>,
    /// Of npm.
    pub npm: Vec<String>,
}

/// What an agent reaches over the network. Where nothing can hold it to that (the process runtime), it reaches everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Nothing.
    None,
    /// Only this machine, as `host.containers.internal`.
    Host,
    /// Everything.
    Open,
}

/// What an agent may do with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Access {
    /// Read it.
    ReadOnly,
    /// Change it.
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

/// A directory or file of the host that an agent is to see, as the operator declared it. Whether it gets it is decided by
/// the allow-list whenever an incarnation starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraMount {
    /// Where it is, as it was written: `~` and `~/…` are the home of whoever runs Hearth.
    pub host_path: String,
    /// Under which relative path the agent sees it below `/workspace/extra`; none is the last part of `host_path`.
    pub container_path: Option<String>,
    /// What was asked for. Changing it needs the allow-list's word as well.
    pub access: Access,
}

/// Bounds of one incarnation in a container. None is the runtime's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    pub cpu: Option<u32>,
    /// Processes and threads.
    pub pids: Option<u32>,
}

/// Which of the installation's skills an agent has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Skills {
    /// Every one there is.
    #[default]
    All,
    /// These, sorted.
    Only(Vec<String>),
}

/// How an agent is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSettings {
    /// Display name.
    pub name: String,
    /// What drives it.
    pub provider: ProviderKind,
    /// Program and arguments of the provider.
    pub command: Vec<String>,
    /// Environment given to it, sorted by name.
    pub env: Vec<(String, EnvValue)>,
    /// Model, if not the provider's default.
    pub model: Option<String>,
    /// Reasoning effort, if not the provider's default.
    pub effort: Option<String>,
    /// What it may touch.
    pub trust: Trust,
    /// Does without confinement in the process runtime: it has the rights of the user there.
    pub unconfined: bool,
    /// Tools it may not use, beside those that Hearth always blocks.
    pub blocked_tools: Vec<String>,
    /// Context messages that reach a prompt.
    pub max_prompt_messages: u32,
    /// Incarnations of it that may run at once.
    pub max_parallel: u32,
    /// Packages in its image.
    pub packages: Packages,
    /// Servers of tools that it may use, sorted by name.
    pub mcp_servers: Vec<McpServer>,
    /// What it is told about itself when its folder is made.
    pub instructions: Option<String>,
    /// What it reaches over the network.
    pub network: Network,
    /// Directories of the host that it is to see, in the order in which they were declared.
    pub mounts: Vec<ExtraMount>,
    /// Bounds of its containers.
    pub limits: Limits,
    /// Its skills.
    pub skills: Skills,
    /// Zone of its people (IANA); none is the installation's.
    pub timezone: Option<String>,
    /// What becomes of skips that a retry would likely mend.
    pub technical_skips: TechnicalSkips,
}

/// What becomes of work that a skill left undone because something was broken for the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TechnicalSkips {
    /// People are told.
    #[default]
    Tell,
    /// The next run tries again, and nobody is told unless it fails again and again.
    Retry,
}

impl AgentSettings {
    /// An agent of which nothing is said but its name. Ten context messages in a prompt are as many as in NanoClaw.
    #[must_use]
    pub const fn named(name: String) -> Self {
        Self {
            name,
            provider: ProviderKind::Echo,
            command: Vec::new(),
            env: Vec::new(),
            model: None,
            effort: None,
            trust: Trust::Untrusted,
            unconfined: false,
            blocked_tools: Vec::new(),
            max_prompt_messages: 10,
            max_parallel: 4,
            packages: Packages { apt: Vec::new(), npm: Vec::new() },
            mcp_servers: Vec::new(),
            instructions: None,
            network: Network::Open,
            mounts: Vec::new(),
            limits: Limits { memory: None, cpu: None, pids: None },
            skills: Skills::All,
            timezone: None,
            technical_skips: TechnicalSkips::Tell,
        }
    }

    /// What holds a session of this agent, by what drives it, where confinement is `possible`, or is not.
    #[must_use]
    pub const fn hold(&self, provider: ProviderKind, possible: bool) -> Hold {
        match (self.unconfined, possible, provider) {
            (true, _, _) => Hold::Unconfined,
            (false, true, _) => Hold::Confined,
            (false, false, ProviderKind::Echo) => Hold::Harmless,
            (false, false, ProviderKind::Command | ProviderKind::Claude) => Hold::NeedsUnconfined,
        }
    }
}

/// One agent workspace with an identity (agent group).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its directory and name in files and commands; never changes.
    pub folder: Folder,
    /// How it is run.
    pub settings: AgentSettings,
    /// Who made it.
    pub origin: Origin,
    /// When it was made.
    pub created: Timestamp,
    /// When it was removed: nothing routes to it, wakes it or is exported any more.
    pub archived: Option<Timestamp>,
    /// Packages that were approved and are in no image yet.
    pub installs: Vec<Install>,
}
