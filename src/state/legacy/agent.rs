//! Older versions of agents.

use serde::{Deserialize, Serialize};

use crate::model::Timestamp;
use crate::model::entity::{
    Access, Agent, AgentSettings, EnvValue, ExtraMount, Folder, Limits, McpServer, Network, Origin, Packages,
    ProviderKind, Skills, TechnicalSkips, Trust,
};
use crate::model::id::SessionId;
use crate::model::request::Install;
use crate::state::envelope::Unreadable;

#[derive(Serialize, Deserialize)]
pub(in crate::state) struct AgentV1 {
    pub(in crate::state) folder: Folder,
    pub(in crate::state) settings: SettingsV1,
    pub(in crate::state) origin: OriginV1,
    pub(in crate::state) created: Timestamp,
    pub(in crate::state) archived: Option<Timestamp>,
    pub(in crate::state) installs: Vec<InstallV1>,
}

#[derive(Serialize, Deserialize)]
pub(in crate::state) struct SettingsV1 {
    pub(in crate::state) name: String,
    pub(in crate::state) provider: ProviderV1,
    pub(in crate::state) command: Vec<String>,
    pub(in crate::state) env: Vec<(String, EnvValueV1)>,
    pub(in crate::state) model: Option<String>,
    pub(in crate::state) effort: Option<String>,
    pub(in crate::state) trust: TrustV1,
    pub(in crate::state) unconfined: bool,
    pub(in crate::state) blocked_tools: Vec<String>,
    pub(in crate::state) max_prompt_messages: u32,
    pub(in crate::state) max_parallel: u32,
    pub(in crate::state) packages: PackagesV1,
    pub(in crate::state) mcp_servers: Vec<ServerV1>,
    pub(in crate::state) instructions: Option<String>,
    pub(in crate::state) network: NetworkV1,
    pub(in crate::state) mounts: Vec<MountV1>,
    pub(in crate::state) limits: LimitsV1,
    pub(in crate::state) skills: SkillsV1,
    pub(in crate::state) timezone: Option<String>,
    pub(in crate::state) technical_skips: TechnicalSkipsV1,
}

#[derive(Serialize, Deserialize)]
pub(in crate::state) enum EnvValueV1 {
    Plain(String),
    Reference(String),
}

#[derive(Serialize, Deserialize)]
pub(in crate::state) struct PackagesV1 {
    pub(in crate::state) apt: Vec<String>,
    pub(in crate::state) npm: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub(in crate::state) struct ServerV1 {
    pub(in crate::state) name: String,
    pub(in crate::state) command: String,
    pub(in crate::state) args: Vec<String>,
    pub(in crate::state) env: Vec<(String, EnvValueV1)>,
}

#[derive(Serialize, Deserialize)]
pub(in crate::state) struct MountV1 {
    pub(in crate::state) host_path: String,
    pub(in crate::state) container_path: Option<String>,
    pub(in crate::state) access: AccessV1,
}

#[derive(Serialize, Deserialize)]
pub(in crate::state) struct LimitsV1 {
    pub(in crate::state) memory: Option<u64>,
    pub(in crate::state) cpu: Option<u32>,
    pub(in crate::state) pids: Option<u32>,
}

#[derive(Serialize, Deserialize)]
pub(in crate::state) enum SkillsV1 {
    All,
    Only(Vec<String>),
}

#[derive(Serialize, Deserialize)]
pub(in crate::state) struct InstallV1 {
    pub(in crate::state) session: SessionId,
    pub(in crate::state) packages: PackagesV1,
}

super::frozen_enum! {
    OriginV1 => Origin { File, Runtime }
    ProviderV1 => ProviderKind { Echo, Command, Claude }
    TrustV1 => Trust { Main, Trusted, Untrusted }
    NetworkV1 => Network { None, Host, Open }
    AccessV1 => Access { ReadOnly, ReadWrite }
    TechnicalSkipsV1 => TechnicalSkips { Tell, Retry }
}

impl From<EnvValueV1> for EnvValue {
    fn from(old: EnvValueV1) -> Self {
        match old {
            EnvValueV1::Plain(text) => Self::Plain(text),
            EnvValueV1::Reference(text) => Self::Reference(text),
        }
    }
}

impl From<PackagesV1> for Packages {
    fn from(old: PackagesV1) -> Self {
        Self { apt: old.apt, npm: old.npm }
    }
}

impl From<ServerV1> for McpServer {
    fn from(old: ServerV1) -> Self {
        Self { name: old.name, command: old.command, args: old.args, env: env(old.env) }
    }
}

impl From<MountV1> for ExtraMount {
    fn from(old: MountV1) -> Self {
        Self { host_path: old.host_path, container_path: old.container_path, access: old.access.into() }
    }
}

impl From<LimitsV1> for Limits {
    fn from(old: LimitsV1) -> Self {
        Self { memory: old.memory, cpu: old.cpu, pids: old.pids }
    }
}

impl From<SkillsV1> for Skills {
    fn from(old: SkillsV1) -> Self {
        match old {
            SkillsV1::All => Self::All,
            SkillsV1::Only(names) => Self::Only(names),
        }
    }
}

impl From<InstallV1> for Install {
    fn from(old: InstallV1) -> Self {
        Self { session: old.session, packages: old.packages.into() }
    }
}

fn env(old: Vec<(String, EnvValueV1)>) -> Vec<(String, EnvValue)> {
    old.into_iter().map(|(name, value)| (name, value.into())).collect()
}

fn list<Old, New: From<Old>>(old: Vec<Old>) -> Vec<New> {
    old.into_iter().map(New::from).collect()
}

/// An agent that reached everything reached the host's loopback interface, too, and keeps that.
impl From<SettingsV1> for AgentSettings {
    fn from(old: SettingsV1) -> Self {
        Self {
            allow_host_loopback: matches!(old.network, NetworkV1::Open),
            request_env: Vec::new(),
            name: old.name,
            provider: old.provider.into(),
            command: old.command,
            env: env(old.env),
            model: old.model,
            effort: old.effort,
            trust: old.trust.into(),
            unconfined: old.unconfined,
            blocked_tools: old.blocked_tools,
            max_prompt_messages: old.max_prompt_messages,
            max_parallel: old.max_parallel,
            packages: old.packages.into(),
            mcp_servers: list(old.mcp_servers),
            instructions: old.instructions,
            network: old.network.into(),
            mounts: list(old.mounts),
            limits: old.limits.into(),
            skills: old.skills.into(),
            timezone: old.timezone,
            technical_skips: old.technical_skips.into(),
        }
    }
}

impl From<AgentV1> for Agent {
    fn from(old: AgentV1) -> Self {
        let AgentV1 { folder, settings, origin, created, archived, installs } = old;
        let installs = list(installs);
        Self { folder, settings: settings.into(), origin: origin.into(), created, archived, installs }
    }
}

pub(in crate::state) fn upgrade(version: u16, body: &[u8]) -> Result<Agent, Unreadable> {
    super::first::<AgentV1, Agent>(version, body)
}
