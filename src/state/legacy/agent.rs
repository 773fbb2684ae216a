//! Older versions of agents.

use serde::{Deserialize, Serialize};

use crate::envelope::{Unreadable, decode};
use crate::legacy::unknown;
use crate::model::Timestamp;
use crate::model::agent::Install;
use crate::model::bound_secret::AgentSecret;
use crate::model::budget::{Caps, Fallback, OnLimit};
use crate::model::entity::{
    Access, Agent, AgentSettings, EnvValue, ExtraMount, Folder, Limits, McpServer, Network, Origin, Packages,
    Permissions, Preset, ProviderKind, Skills, TechnicalSkips, Trust, Verbosity,
};
use crate::model::host::HostRule;
use crate::model::id::SessionId;
use crate::model::recall::RecallReach;
use crate::model::tool::{ToolPreset, ToolRule, ToolSettings, ToolVerdict};

/// An agent of an older version. Only the settings differ between them.
#[derive(Serialize, Deserialize)]
pub(crate) struct OldAgent<S> {
    pub(crate) folder: Folder,
    pub(crate) settings: S,
    pub(crate) origin: OriginV1,
    pub(crate) created: Timestamp,
    pub(crate) archived: Option<Timestamp>,
    pub(crate) installs: Vec<InstallV1>,
}

pub(crate) type AgentV1 = OldAgent<SettingsV1>;

#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV1 {
    pub(crate) name: String,
    pub(crate) provider: ProviderV1,
    pub(crate) command: Vec<String>,
    pub(crate) env: Vec<(String, EnvValueV1)>,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) trust: TrustV1,
    pub(crate) unconfined: bool,
    pub(crate) blocked_tools: Vec<String>,
    pub(crate) max_prompt_messages: u32,
    pub(crate) max_parallel: u32,
    pub(crate) packages: PackagesV1,
    pub(crate) mcp_servers: Vec<ServerV1>,
    pub(crate) instructions: Option<String>,
    pub(crate) network: NetworkV1,
    pub(crate) mounts: Vec<MountV1>,
    pub(crate) limits: LimitsV1,
    pub(crate) skills: SkillsV1,
    pub(crate) timezone: Option<String>,
    pub(crate) technical_skips: TechnicalSkipsV1,
}

/// Two fields were added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV2 {
    pub(crate) first: SettingsV1,
    pub(crate) request_env: Vec<String>,
    pub(crate) allow_host_loopback: bool,
}

/// A field was added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV3 {
    pub(crate) second: SettingsV2,
    pub(crate) folder_access: Option<AccessV1>,
}

/// Four fields were added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV4 {
    pub(crate) third: SettingsV3,
    pub(crate) gateway: bool,
    pub(crate) models: Vec<String>,
    pub(crate) mode: Option<String>,
    pub(crate) permissions: PermissionsV1,
}

/// Four fields were added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV5 {
    pub(crate) fourth: SettingsV4,
    pub(crate) on_limit: OnLimitV1,
    pub(crate) caps: CapsV1,
    pub(crate) fallback: Vec<FallbackV1>,
    pub(crate) verbosity: VerbosityV1,
}

/// Three fields were added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV6 {
    pub(crate) fifth: SettingsV5,
    pub(crate) allow: Vec<HostRule>,
    pub(crate) deny: Vec<HostRule>,
    pub(crate) secrets: Vec<AgentSecretV1>,
}

/// A field was added at the end.
#[derive(Serialize, Deserialize)]
pub(crate) struct SettingsV7 {
    pub(crate) sixth: SettingsV6,
    pub(crate) tools: ToolSettingsV1,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ToolSettingsV1 {
    pub(crate) preset: ToolPresetV1,
    pub(crate) rules: Vec<ToolRuleV1>,
    pub(crate) approval_wait: Option<u32>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ToolRuleV1 {
    pub(crate) verdict: ToolVerdictV1,
    pub(crate) pattern: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct AgentSecretV1 {
    pub(crate) variable: String,
    pub(crate) secret: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct CapsV1 {
    pub(crate) tokens: Option<u64>,
    pub(crate) calls: Option<u32>,
    pub(crate) minutes: Option<u32>,
    pub(crate) unattended_turns: Option<u32>,
    pub(crate) at_once: Option<u32>,
    pub(crate) per_minute: Option<u32>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct FallbackV1 {
    pub(crate) provider: ProviderV1,
    pub(crate) command: Vec<String>,
    pub(crate) model: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum EnvValueV1 {
    Plain(String),
    Reference(String),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PackagesV1 {
    pub(crate) apt: Vec<String>,
    pub(crate) npm: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ServerV1 {
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, EnvValueV1)>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct MountV1 {
    pub(crate) host_path: String,
    pub(crate) container_path: Option<String>,
    pub(crate) access: AccessV1,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct LimitsV1 {
    pub(crate) memory: Option<u64>,
    pub(crate) cpu: Option<u32>,
    pub(crate) pids: Option<u32>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum SkillsV1 {
    All,
    Only(Vec<String>),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct InstallV1 {
    pub(crate) session: SessionId,
    pub(crate) packages: PackagesV1,
}

super::frozen_enum! {
    OriginV1 => Origin { File, Runtime }
    PresetV1 => Preset { Opencode, Gemini, Codex, ClaudeAcp, Qwen, Hermes, Copilot }
    PermissionsV1 => Permissions { Allow, Ask, Deny }
    TrustV1 => Trust { Main, Trusted, Untrusted }
    NetworkV1 => Network { None, Host, Open, Listed, Ask, Public }
    AccessV1 => Access { ReadOnly, ReadWrite }
    TechnicalSkipsV1 => TechnicalSkips { Tell, Retry }
    OnLimitV1 => OnLimit { Ask, Hold, Warn }
    VerbosityV1 => Verbosity { Normal, Verbose }
    ToolPresetV1 => ToolPreset { Open, Careful, Locked }
    ToolVerdictV1 => ToolVerdict { Allow, Ask, Deny }
}

/// The last but one came with version 4, the last one with version 5.
#[derive(Serialize, Deserialize)]
pub(crate) enum ProviderV1 {
    Echo,
    Command,
    Claude,
    Acp,
    Preset(PresetV1),
    OpenAi,
}

impl From<ProviderV1> for ProviderKind {
    fn from(old: ProviderV1) -> Self {
        match old {
            ProviderV1::Echo => Self::Echo,
            ProviderV1::Command => Self::Command,
            ProviderV1::Claude => Self::Claude,
            ProviderV1::Acp => Self::Acp,
            ProviderV1::Preset(preset) => Self::Preset(preset.into()),
            ProviderV1::OpenAi => Self::OpenAi,
        }
    }
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

impl From<CapsV1> for Caps {
    fn from(old: CapsV1) -> Self {
        let CapsV1 { tokens, calls, minutes, unattended_turns, at_once, per_minute } = old;
        Self { tokens, calls, minutes, unattended_turns, at_once, per_minute }
    }
}

impl From<FallbackV1> for Fallback {
    fn from(old: FallbackV1) -> Self {
        Self { provider: old.provider.into(), command: old.command, model: old.model }
    }
}

fn env(old: Vec<(String, EnvValueV1)>) -> Vec<(String, EnvValue)> {
    old.into_iter().map(|(name, value)| (name, value.into())).collect()
}

fn list<Old, New: From<Old>>(old: Vec<Old>) -> Vec<New> {
    old.into_iter().map(New::from).collect()
}

/// The older versions gave agents with full network access the host's loopback interface as well. They keep it.
impl From<SettingsV1> for SettingsV2 {
    fn from(old: SettingsV1) -> Self {
        let allow_host_loopback = matches!(old.network, NetworkV1::Open);
        Self { first: old, request_env: Vec::new(), allow_host_loopback }
    }
}

impl From<SettingsV2> for SettingsV3 {
    fn from(old: SettingsV2) -> Self {
        Self { second: old, folder_access: None }
    }
}

/// Agents of older versions use the gateway from now on.
impl From<SettingsV3> for SettingsV4 {
    fn from(old: SettingsV3) -> Self {
        Self { third: old, gateway: true, models: Vec::new(), mode: None, permissions: PermissionsV1::Allow }
    }
}

impl From<SettingsV4> for SettingsV5 {
    fn from(old: SettingsV4) -> Self {
        let caps = CapsV1 {
            tokens: None,
            calls: None,
            minutes: None,
            unattended_turns: None,
            at_once: None,
            per_minute: None,
        };
        let (on_limit, verbosity) = (OnLimitV1::Ask, VerbosityV1::Normal);
        Self { fourth: old, on_limit, caps, fallback: Vec::new(), verbosity }
    }
}

impl From<SettingsV5> for SettingsV6 {
    fn from(old: SettingsV5) -> Self {
        Self { fifth: old, allow: Vec::new(), deny: Vec::new(), secrets: Vec::new() }
    }
}

impl From<AgentSecretV1> for AgentSecret {
    fn from(old: AgentSecretV1) -> Self {
        Self { variable: old.variable, secret: old.secret }
    }
}

/// Agents of older versions go on using their tools without questions.
impl From<SettingsV6> for SettingsV7 {
    fn from(old: SettingsV6) -> Self {
        let tools = ToolSettingsV1 { preset: ToolPresetV1::Open, rules: Vec::new(), approval_wait: None };
        Self { sixth: old, tools }
    }
}

impl From<ToolSettingsV1> for ToolSettings {
    fn from(old: ToolSettingsV1) -> Self {
        let ToolSettingsV1 { preset, rules, approval_wait } = old;
        Self { preset: preset.into(), rules: list(rules), approval_wait }
    }
}

impl From<ToolRuleV1> for ToolRule {
    fn from(old: ToolRuleV1) -> Self {
        Self { verdict: old.verdict.into(), pattern: old.pattern }
    }
}

impl From<SettingsV7> for AgentSettings {
    fn from(old: SettingsV7) -> Self {
        let SettingsV7 { sixth, tools } = old;
        let SettingsV6 { fifth, allow, deny, secrets } = sixth;
        let SettingsV5 { fourth, on_limit, caps, fallback, verbosity } = fifth;
        let SettingsV4 { third, gateway, models, mode, permissions } = fourth;
        let SettingsV3 { second: SettingsV2 { first: old, request_env, allow_host_loopback }, folder_access } = third;
        Self {
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
            request_env,
            allow_host_loopback,
            folder_access: folder_access.map(Into::into),
            gateway,
            models,
            mode,
            permissions: permissions.into(),
            on_limit: on_limit.into(),
            caps: caps.into(),
            fallback: list(fallback),
            verbosity: verbosity.into(),
            allow,
            deny,
            secrets: list(secrets),
            tools: tools.into(),
            recall: RecallReach::Chat,
        }
    }
}

impl<S> OldAgent<S> {
    /// With the settings of the next version.
    pub(crate) fn next<T: From<S>>(self) -> OldAgent<T> {
        let Self { folder, settings, origin, created, archived, installs } = self;
        OldAgent { folder, settings: settings.into(), origin, created, archived, installs }
    }
}

impl From<OldAgent<SettingsV7>> for Agent {
    fn from(old: OldAgent<SettingsV7>) -> Self {
        let OldAgent { folder, settings, origin, created, archived, installs } = old;
        let installs = list(installs);
        Self { folder, settings: settings.into(), origin: origin.into(), created, archived, installs }
    }
}

pub(crate) fn upgrade(version: u16, body: &[u8]) -> Result<Agent, Unreadable> {
    let third: OldAgent<SettingsV3> = match version {
        1 => decode::<AgentV1>(body)?.next::<SettingsV2>().next(),
        2 => decode::<OldAgent<SettingsV2>>(body)?.next(),
        3 => decode(body)?,
        4 => return Ok(fifth(decode::<OldAgent<SettingsV4>>(body)?.next())),
        5 => return Ok(fifth(decode(body)?)),
        6 => return Ok(decode::<OldAgent<SettingsV6>>(body)?.next::<SettingsV7>().into()),
        7 => return Ok(decode::<OldAgent<SettingsV7>>(body)?.into()),
        _ => return Err(unknown(version)),
    };
    Ok(fifth(third.next::<SettingsV4>().next()))
}

fn fifth(old: OldAgent<SettingsV5>) -> Agent {
    old.next::<SettingsV6>().next::<SettingsV7>().into()
}
