//! Agents: how they run, what they may access, what they are given.

use serde::{Deserialize, Serialize};

pub use hearth_presets::Preset;

use super::access::{Access, ExtraMount, Limits, Network};
use super::bound_secret::AgentSecret;
use super::budget::{Caps, Fallback, OnLimit};
use super::folder::Folder;
use super::gateway::{Api, bound, is_near};
use super::hold::Hold;
use super::id::SessionId;
use super::network::HostRule;
use super::origin::Origin;
use super::recall::RecallReach;
use super::time::Timestamp;
use super::tool_settings::{ToolPreset, ToolSettings};

/// How far an agent is trusted; decides mounts and defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    /// The owner's own agent.
    Main,
    /// One that shares the trusted directory.
    Trusted,
    /// One that does not share it.
    Untrusted,
}

/// What drives an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProviderKind {
    /// Echoes its input. Needs nothing.
    Echo,
    /// Any program speaking JSON lines.
    Command,
    /// The agent CLI.
    Claude,
    /// Any agent that speaks the Agent Client Protocol.
    Acp,
    /// A known one of those.
    Preset(Preset),
    /// Hearth's own small agent, for servers with OpenAI's chat completions.
    OpenAi,
}

impl ProviderKind {
    /// All providers.
    pub const ALL: [Self; 12] = [
        Self::Echo,
        Self::Command,
        Self::Claude,
        Self::Acp,
        Self::Preset(Preset::Opencode),
        Self::Preset(Preset::Gemini),
        Self::Preset(Preset::Codex),
        Self::Preset(Preset::ClaudeAcp),
        Self::Preset(Preset::Qwen),
        Self::Preset(Preset::Hermes),
        Self::Preset(Preset::Copilot),
        Self::OpenAi,
    ];

    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Command => "command",
            Self::Claude => "claude",
            Self::Acp => "acp",
            Self::Preset(preset) => preset.about().name,
            Self::OpenAi => "openai",
        }
    }

    /// The known agent that it is.
    #[must_use]
    pub const fn preset(self) -> Option<Preset> {
        match self {
            Self::Preset(preset) => Some(preset),
            Self::Echo | Self::Command | Self::Claude | Self::Acp | Self::OpenAi => None,
        }
    }

    /// The program that it runs, unless the agent's `command` names another one.
    #[must_use]
    pub fn program(self) -> Option<&'static str> {
        match self {
            Self::Echo | Self::Command | Self::Acp | Self::OpenAi => None,
            Self::Claude => Some("claude"),
            Self::Preset(preset) => preset.about().command.first().copied(),
        }
    }

    /// Whether a model answers, which costs something.
    #[must_use]
    pub const fn has_model(self) -> bool {
        matches!(self, Self::Claude | Self::Acp | Self::Preset(_) | Self::OpenAi)
    }
}

/// A value of an agent's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EnvValue {
    /// Plain text, not a secret.
    Plain(String),
    /// Where the secret is read from when the agent starts: `env:NAME`, `file:PATH` or `cmd:…`. Never the secret
    /// itself.
    Reference(String),
}

impl EnvValue {
    /// Prefixes of references.
    pub const KINDS: [&'static str; 3] = ["env:", "file:", "cmd:"];

    /// Whether a bare text in a file is a reference. Plain text that looks like one needs another form there.
    #[must_use]
    pub fn is_reference(text: &str) -> bool {
        Self::KINDS.iter().any(|kind| text.starts_with(kind))
    }

    /// Interprets a bare text in a file or a command.
    #[must_use]
    pub fn from_bare(text: String) -> Self {
        if Self::is_reference(&text) { Self::Reference(text) } else { Self::Plain(text) }
    }
}

/// An MCP server, started beside the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    /// Its name: unique for the agent.
    pub name: String,
    /// Name or path of the program that the agent starts.
    pub command: String,
    /// Arguments of the program, without its name.
    pub args: Vec<String>,
    /// Environment, sorted by name.
    pub env: Vec<(String, EnvValue)>,
}

impl McpServer {
    /// Name of the variable in the agent's environment that holds the value of a reference of this server.
    #[must_use]
    pub fn variable(&self, name: &str) -> String {
        format!("HEARTH_MCP_{}_{name}", self.name.replace('-', "__"))
    }
}

/// Packages in an agent's image in addition to those of the base image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Packages {
    /// Of the distribution.
    pub apt: Vec<String>,
    /// Packages of npm, with an optional version.
    pub npm: Vec<String>,
}

/// Packages that an agent requested and that were approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Install {
    /// The session that is told the result.
    pub session: SessionId,
    /// The requested packages.
    pub packages: Packages,
}

/// What happens when an agent asks whether it may use one of its tools. Only agents with the protocol of the provider
/// `acp` ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Permissions {
    /// It may; what confines it is its container or process.
    #[default]
    Allow,
    /// A person is asked.
    Ask,
    /// It may not.
    Deny,
}

impl Permissions {
    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Which of the installation's skills an agent has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Skills {
    /// All of them.
    #[default]
    All,
    /// Only the named skills. Sorted.
    Only(Vec<String>),
}

/// How an agent is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSettings {
    /// Name that people see.
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
    /// How far it is trusted.
    pub trust: Trust,
    /// Runs without confinement in the process runtime, with the permissions of the user there.
    pub unconfined: bool,
    /// Tools it may not use, in addition to those that Hearth always blocks.
    pub blocked_tools: Vec<String>,
    /// Context messages that reach a prompt.
    pub max_prompt_messages: u32,
    /// Maximum number of its incarnations that run at once.
    pub max_parallel: u32,
    /// Packages in its image.
    pub packages: Packages,
    /// MCP servers that it may use, sorted by name.
    pub mcp_servers: Vec<McpServer>,
    /// Instructions for the agent, used when its folder is created.
    pub instructions: Option<String>,
    /// Its network access.
    pub network: Network,
    /// Directories of the host to mount, in the order of their declaration.
    pub mounts: Vec<ExtraMount>,
    /// Bounds of its containers.
    pub limits: Limits,
    /// Skills that its runs see.
    pub skills: Skills,
    /// Time zone of its users (IANA); none is the installation's.
    pub timezone: Option<String>,
    /// What happens to skips that a retry would likely fix.
    pub technical_skips: TechnicalSkips,
    /// Variables of the daemon's environment that the agent's requests may refer to, sorted by name.
    pub request_env: Vec<String>,
    /// Whether its containers reach the host's loopback interface when their `network` is [`Network::Open`].
    pub allow_host_loopback: bool,
    /// What it may do with its folder; none is decided by its trust.
    pub folder_access: Option<Access>,
    /// Whether the keys of its models stay with the daemon. Otherwise they are in its environment.
    pub gateway: bool,
    /// The models that the gateway lets it use; empty means all.
    pub models: Vec<String>,
    /// Mode of the agent's program; none is the one that [`Self::permissions`] needs.
    pub mode: Option<String>,
    /// What happens when it asks whether it may use a tool.
    pub permissions: Permissions,
    /// What happens to its messages that a budget has no room for.
    pub on_limit: OnLimit,
    /// Limits of single messages, and of requests to models.
    pub caps: Caps,
    /// What drives it while its provider takes no work, in order.
    pub fallback: Vec<Fallback>,
    /// How much of what it writes people get.
    pub verbosity: Verbosity,
    /// Where it may connect to, sorted. Only where its network has rules.
    pub allow: Vec<HostRule>,
    /// Where it may not connect to, whatever else allows it; sorted.
    pub deny: Vec<HostRule>,
    /// Variables that stand for secrets that are bound to hosts, sorted.
    pub secrets: Vec<AgentSecret>,
    /// What decides about its tool calls.
    pub tools: ToolSettings,
    /// How far it looks for what was said.
    pub recall: RecallReach,
}

/// How much of what an agent writes people get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Verbosity {
    /// Its answers. What it writes before it uses tools is only shown as progress.
    #[default]
    Normal,
    /// Also what it writes before it uses tools.
    Verbose,
}

impl Verbosity {
    /// The word in files and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Verbose => "verbose",
        }
    }
}

/// What happens to work that a skill skipped because of a temporary failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum TechnicalSkips {
    /// People are told, and have nothing to decide.
    #[default]
    Tell,
    /// Retry it in the next run. People are told only if it fails repeatedly.
    Retry,
}

impl AgentSettings {
    /// An agent with a name and defaults for everything else. Ten context messages per prompt is NanoClaw's default.
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
            request_env: Vec::new(),
            allow_host_loopback: false,
            folder_access: None,
            gateway: true,
            models: Vec::new(),
            mode: None,
            permissions: Permissions::Allow,
            on_limit: OnLimit::Ask,
            caps: Caps {
                tokens: None,
                calls: None,
                minutes: None,
                unattended_turns: None,
                at_once: None,
                per_minute: None,
            },
            fallback: Vec::new(),
            verbosity: Verbosity::Normal,
            allow: Vec::new(),
            deny: Vec::new(),
            secrets: Vec::new(),
            tools: ToolSettings::of(ToolPreset::Open),
            recall: RecallReach::Chat,
        }
    }

    /// The network of an agent for which no one chose one. Rules cannot be enforced for an unconfined agent, which would
    /// not start with them.
    #[must_use]
    pub const fn default_network(&self) -> Network {
        match (self.unconfined, self.trust) {
            (true, _) => Network::Open,
            (false, Trust::Main | Trust::Trusted) => Network::Ask,
            (false, Trust::Untrusted) => Network::Listed,
        }
    }

    /// Whether the server of its models is on this machine or in its network.
    #[must_use]
    pub fn has_near_server(&self) -> bool {
        self.server().is_some_and(is_near)
    }

    /// The address of the server of its models, if `env` has it.
    fn server(&self) -> Option<&str> {
        let variable = match self.provider {
            ProviderKind::Claude => Api::Anthropic.base_variable(),
            ProviderKind::OpenAi => Api::OpenAi.base_variable(),
            ProviderKind::Preset(preset) => preset.about().model.base_url,
            ProviderKind::Echo | ProviderKind::Command | ProviderKind::Acp => return None,
        };
        match self.env.iter().find(|(name, _)| name == variable) {
            Some((_, EnvValue::Plain(url))) => Some(url),
            _ => None,
        }
    }

    /// What a confined incarnation may do with the agent's folder.
    #[must_use]
    pub const fn access_to_folder(&self) -> Access {
        match (self.folder_access, self.trust) {
            (Some(access), _) => access,
            (None, Trust::Main | Trust::Trusted) => Access::ReadWrite,
            (None, Trust::Untrusted) => Access::ReadOnly,
        }
    }

    /// The program that the agent runs with this provider.
    #[must_use]
    pub fn program(&self, provider: ProviderKind) -> Option<&str> {
        let own = self.command.first().filter(|_| provider != ProviderKind::Echo);
        own.map(String::as_str).or_else(|| provider.program())
    }

    /// Whether the agent needs a network that it does not get. Without confinement nothing is closed. The model gateway
    /// is reached from an agent's own network, which `has_own` says it has.
    #[must_use]
    pub fn is_cut_off(&self, has_own: bool) -> bool {
        let needs = self.provider == ProviderKind::Claude && self.network == Network::None && !self.unconfined;
        needs && (!has_own || bound(self).is_empty())
    }

    /// Confinement of this agent's sessions with the given provider. `possible`: whether this machine can confine
    /// processes.
    #[must_use]
    pub const fn hold(&self, provider: ProviderKind, possible: bool) -> Hold {
        match (self.unconfined, possible, provider) {
            (true, _, _) => Hold::Unconfined,
            (false, true, _) => Hold::Confined,
            (false, false, ProviderKind::Echo) => Hold::Harmless,
            (
                false,
                false,
                ProviderKind::Command
                | ProviderKind::Claude
                | ProviderKind::Acp
                | ProviderKind::Preset(_)
                | ProviderKind::OpenAi,
            ) => Hold::NeedsUnconfined,
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
    /// What created it.
    pub origin: Origin,
    /// When it was created.
    pub created: Timestamp,
    /// When it was removed. Since then nothing routes to it, wakes it or is exported for it.
    pub archived: Option<Timestamp>,
    /// Approved packages that are not in an image yet.
    pub installs: Vec<Install>,
}
