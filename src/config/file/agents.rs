//! `[[agents]]`.

use std::collections::BTreeSet;

use super::env::NO_VARIABLE;
use super::section::{Keys, Problems, Section, excerpt};
use super::{COUNT_MAX, Once, budgets, env, secrets, sight, tool_rules, tools};
use crate::config::env::is_env_name;
use crate::model::configure::Change;
use crate::model::entity::{
    Access, AgentSettings, Folder, Permissions, Preset, ProviderKind, TechnicalSkips, Trust, Verbosity,
};
use crate::model::recall::RecallReach;

/// The keys of `[[agents]]`.
pub const AGENT_KEYS: &[&str] = &[
    "name",
    "folder",
    "provider",
    "command",
    "env",
    "model",
    "effort",
    "trust",
    "unconfined",
    "blocked_tools",
    "max_prompt_messages",
    "max_parallel",
    "packages",
    "mcp_servers",
    "instructions",
    "network",
    "mounts",
    "limits",
    "skills",
    "timezone",
    "technical_skips",
    "request_env",
    "allow_host_loopback",
    "folder_access",
    "gateway",
    "models",
    "mode",
    "permissions",
    "on_limit",
    "caps",
    "fallback",
    "verbosity",
    "allow",
    "deny",
    "secrets",
    "tools",
    "recall",
];

const AGENTS: Keys = Keys { place: "[[agents]]", known: AGENT_KEYS, later: &[] };

pub(super) fn providers() -> [(&'static str, ProviderKind); ProviderKind::ALL.len()] {
    ProviderKind::ALL.map(|provider| (provider.as_str(), provider))
}

pub(super) const VERBOSITIES: [(&str, Verbosity); 2] =
    [(Verbosity::Normal.as_str(), Verbosity::Normal), (Verbosity::Verbose.as_str(), Verbosity::Verbose)];

pub(super) const RECALLS: [(&str, RecallReach); 2] =
    [(RecallReach::Chat.as_str(), RecallReach::Chat), (RecallReach::Agent.as_str(), RecallReach::Agent)];

pub(super) const PERMISSIONS: [(&str, Permissions); 3] = [
    (Permissions::Allow.as_str(), Permissions::Allow),
    (Permissions::Ask.as_str(), Permissions::Ask),
    (Permissions::Deny.as_str(), Permissions::Deny),
];

pub(super) const TECHNICAL_SKIPS: [(&str, TechnicalSkips); 2] =
    [("tell", TechnicalSkips::Tell), ("retry", TechnicalSkips::Retry)];

pub(super) const ACCESS: [(&str, Access); 2] =
    [(Access::ReadOnly.as_str(), Access::ReadOnly), (Access::ReadWrite.as_str(), Access::ReadWrite)];

pub(super) const TRUSTS: [(&str, Trust); 3] =
    [("main", Trust::Main), ("trusted", Trust::Trusted), ("untrusted", Trust::Untrusted)];

/// Variables that the runner sets for the agent. A configured one would be overwritten or cause harm.
const OWNED: [&str; 5] = ["HOME", "PATH", "TZ", "NANOCLAW_SESSION_NAME", "CLAUDE_SESSION_ID"];

pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Vec<Change> {
    let mut once = Once::default();
    let mut changes = Vec::new();
    for section in top.tables(problems, "agents", &AGENTS) {
        let folder = folder(problems, &section);
        let settings = settings(problems, &section, folder.as_ref());
        let Some(folder) = folder else { continue };
        if once.note(problems, section.at(), format!("the agent `{folder}`")) {
            changes.push(Change::PutAgent(folder, settings));
        }
    }
    changes
}

fn folder(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<Folder> {
    section.needed(problems, "folder")?;
    section.folder(problems, "folder").map(|(_, folder)| folder)
}

fn settings(problems: &mut Problems<'_>, section: &Section<'_>, folder: Option<&Folder>) -> AgentSettings {
    let name = section.line(problems, "name");
    let default = AgentSettings::named(name.unwrap_or_else(|| folder.map(Folder::to_string).unwrap_or_default()));
    let count = |problems: &mut _, key, least| section.number(problems, key, least..=COUNT_MAX);
    let mut settings = AgentSettings {
        name: default.name,
        provider: section.word(problems, "provider", &providers()).unwrap_or(default.provider),
        command: command(problems, section),
        env: env::variables(problems, section, is_owned),
        model: section.line(problems, "model"),
        effort: section.line(problems, "effort"),
        trust: section.word(problems, "trust", &TRUSTS).unwrap_or(default.trust),
        unconfined: section.flag(problems, "unconfined").unwrap_or(default.unconfined),
        blocked_tools: blocked_tools(problems, section),
        max_prompt_messages: count(problems, "max_prompt_messages", 0).unwrap_or(default.max_prompt_messages),
        max_parallel: count(problems, "max_parallel", 1).unwrap_or(default.max_parallel),
        packages: tools::packages(problems, section),
        mcp_servers: tools::servers(problems, section),
        instructions: tools::instructions(problems, section),
        allow: sight::allowed_hosts(problems, section),
        deny: sight::denied_hosts(problems, section),
        secrets: secrets::of_agent(problems, section, is_owned),
        network: default.network,
        mounts: sight::mounts(problems, section),
        limits: sight::limits(problems, section),
        skills: sight::skills(problems, section),
        timezone: section.zone(problems, "timezone"),
        technical_skips: section.word(problems, "technical_skips", &TECHNICAL_SKIPS).unwrap_or(default.technical_skips),
        request_env: request_env(problems, section),
        allow_host_loopback: section.flag(problems, "allow_host_loopback").unwrap_or(default.allow_host_loopback),
        folder_access: section.word(problems, "folder_access", &ACCESS),
        gateway: section.flag(problems, "gateway").unwrap_or(default.gateway),
        models: models(problems, section),
        mode: section.line(problems, "mode"),
        permissions: section.word(problems, "permissions", &PERMISSIONS).unwrap_or(default.permissions),
        on_limit: section.word(problems, "on_limit", &budgets::ON_LIMIT).unwrap_or(default.on_limit),
        caps: budgets::caps(problems, section),
        fallback: budgets::fallback(problems, section),
        verbosity: section.word(problems, "verbosity", &VERBOSITIES).unwrap_or(default.verbosity),
        tools: tool_rules::read(problems, section),
        recall: section.word(problems, "recall", &RECALLS).unwrap_or(default.recall),
    };
    settings.network = section.word(problems, "network", &sight::networks()).unwrap_or(settings.default_network());
    check_provider(problems, section, &settings);
    secrets::check(problems, section, &settings);
    settings
}

/// Checks a provider's required settings. Whether it can be confined is known only where it starts.
fn check_provider(problems: &mut Problems<'_>, section: &Section<'_>, settings: &AgentSettings) {
    let place = |key| section.get(key).map_or(section.at(), |value| value.span().start);
    let said = section.get("command").is_some();
    match settings.provider {
        ProviderKind::Echo | ProviderKind::OpenAi if said => {
            let name = settings.provider.as_str();
            let what = format!("the provider `{name}` runs no command; remove it, or write `provider = \"command\"`");
            problems.add(place("command"), what);
        }
        ProviderKind::OpenAi if settings.model.is_none() => {
            let what = "the provider `openai` needs the name of a model; add `model = \"…\"`";
            problems.add(place("provider"), what);
        }
        ProviderKind::Command if !said => {
            let what = "the provider `command` needs one; add `command = [\"program\", \"argument\"]`";
            problems.add(place("provider"), what);
        }
        ProviderKind::Acp if !said => {
            let what =
                "the provider `acp` needs a program; add `command = [\"opencode\", \"acp\"]`, or that of another agent";
            problems.add(place("provider"), what);
        }
        ProviderKind::Preset(preset) => {
            if let Some(what) = missing_model(preset, settings) {
                problems.add(place("provider"), what);
            }
        }
        ProviderKind::Echo
        | ProviderKind::Command
        | ProviderKind::Claude
        | ProviderKind::Acp
        | ProviderKind::OpenAi => {}
    }
    if matches!(settings.provider, ProviderKind::Acp | ProviderKind::Preset(_)) {
        return;
    }
    for key in ["mode", "permissions"].into_iter().filter(|key| section.get(key).is_some()) {
        let name = settings.provider.as_str();
        let what =
            format!("the provider `{name}` has no `{key}`: only agents with the Agent Client Protocol do; remove it");
        problems.add(place(key), what);
    }
}

/// What is wrong if a known agent is not told which model to use.
fn missing_model(preset: Preset, settings: &AgentSettings) -> Option<String> {
    let about = preset.about();
    let has = |name: &str| settings.env.iter().any(|(known, _)| known == name);
    let config = about.model.config.as_ref().filter(|config| !config.others.iter().any(|name| has(name)));
    if settings.model.is_some() || !settings.command.is_empty() || config.is_none() {
        return None;
    }
    let (name, base_url) = (about.name, about.model.base_url);
    if has(base_url) {
        return Some(format!("the provider `{name}` needs the name of a model at {base_url}; add `model = \"…\"`"));
    }
    about.model.chooses.then(|| {
        format!("the provider `{name}` chooses a model of its maker's unless one is named; add `model = \"…\"`")
    })
}

fn command(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<String> {
    let words = section.texts(problems, "command");
    if words.first().is_some_and(|(_, program)| program.trim().is_empty()) {
        problems.add(words.first().map_or(0, |(at, _)| *at), "`command` must begin with a program; add it");
    }
    if let Some(value) = section.get("command")
        && value.get_ref().as_array().is_some_and(|list| list.is_empty())
    {
        problems.add(value.span().start, "`command` is empty; add a program, or omit the key");
    }
    for (at, _) in words.iter().filter(|(_, word)| word.contains('\0')) {
        problems.add(*at, "`command` contains a NUL character, which no program can be given; remove it");
    }
    words.into_iter().map(|(_, word)| word.to_owned()).collect()
}

fn blocked_tools(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<String> {
    let tools = section.texts(problems, "blocked_tools");
    for (at, _) in tools.iter().filter(|(_, tool)| tool.trim().is_empty() || tool.chars().any(char::is_control)) {
        problems.add(*at, "`blocked_tools` has an entry that is not a tool's name; correct or remove it");
    }
    // Such an entry would block nothing, or only a part of what it says; within `(…)` a comma is part of a rule.
    let of_several = |tool: &str| tool.split('(').next().is_some_and(|name| name.contains(','));
    for (at, _) in tools.iter().filter(|(_, tool)| of_several(tool)) {
        problems.add(*at, "`blocked_tools` has several tools in one entry; give each an entry of its own");
    }
    tools.into_iter().map(|(_, tool)| tool.to_owned()).collect()
}

/// Sorted, each once.
fn request_env(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<String> {
    let names = section.texts(problems, "request_env");
    for (at, name) in names.iter().filter(|(_, name)| !is_env_name(name)) {
        problems.add(*at, format!("`request_env`: `{}` {NO_VARIABLE}", excerpt(name)));
    }
    let names: BTreeSet<&str> = names.into_iter().map(|(_, name)| name).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Sorted, each once. An empty list would forbid every model, which is not what it means.
fn models(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<String> {
    let models = section.texts(problems, "models");
    if let Some(value) = section.get("models")
        && value.get_ref().as_array().is_some_and(|list| list.is_empty())
    {
        problems.add(value.span().start, "`models` is empty; add a model, or omit the key to allow all");
    }
    for (at, _) in models.iter().filter(|(_, name)| name.trim().is_empty() || name.chars().any(char::is_control)) {
        problems.add(*at, "`models` has an entry that is not a model's name; correct or remove it");
    }
    let models: BTreeSet<&str> = models.into_iter().map(|(_, name)| name).collect();
    models.into_iter().map(str::to_owned).collect()
}

/// Whether Hearth sets a variable for every agent.
fn is_owned(name: &str) -> bool {
    OWNED.contains(&name) || name.starts_with("HEARTH_")
}
