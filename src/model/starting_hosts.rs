//! Hosts that a new agent may reach at first, so that its first day is not a row of questions.

use super::access::Network;
use super::agent::{AgentSettings, Preset, ProviderKind};
use super::gateway::{Api, bound};
use super::host::{DEFAULT_PORT, Endpoint, HostPattern, HostRule};

/// Registries of packages.
const REGISTRIES: [&str; 8] = [
    "registry.npmjs.org",
    "pypi.org",
    "files.pythonhosted.org",
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "deb.debian.org:80",
    "security.debian.org:80",
];

/// Hosts of Git.
const GIT: [&str; 5] =
    ["github.com", "codeload.github.com", "objects.githubusercontent.com", "raw.githubusercontent.com", "gitlab.com"];

/// Hosts that a provider's program needs besides the model gateway, such as for a login of its own.
const fn of_provider(provider: ProviderKind) -> &'static [&'static str] {
    match provider {
        ProviderKind::Claude | ProviderKind::Preset(Preset::ClaudeAcp) => &["api.anthropic.com"],
        ProviderKind::Preset(Preset::Opencode) => &["opencode.ai", "models.dev"],
        ProviderKind::Preset(Preset::Gemini) => {
            &["generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com"]
        }
        ProviderKind::Preset(Preset::Codex) => &["api.openai.com", "auth.openai.com", "chatgpt.com"],
        ProviderKind::Preset(Preset::Qwen) => &["chat.qwen.ai", "dashscope.aliyuncs.com"],
        ProviderKind::Preset(Preset::Copilot) => &["api.github.com", "api.githubcopilot.com"],
        ProviderKind::Preset(Preset::Hermes)
        | ProviderKind::Echo
        | ProviderKind::Command
        | ProviderKind::Acp
        | ProviderKind::OpenAi => &[],
    }
}

/// Rules for the hosts of a provider, sorted.
#[must_use]
pub fn provider_hosts(provider: ProviderKind) -> Vec<HostRule> {
    rules(of_provider(provider).iter())
}

/// Rules for the hosts of a provider, registries of packages and hosts of Git, sorted.
#[must_use]
pub fn starting_hosts(provider: ProviderKind) -> Vec<HostRule> {
    rules(of_provider(provider).iter().chain(&REGISTRIES).chain(&GIT))
}

/// The hosts of an agent's provider, if its program has to reach them itself and none of them is in the list of hosts to
/// which its network is limited. What the gateway reaches for it needs no rule.
#[must_use]
pub fn unlisted_hosts(settings: &AgentSettings) -> Vec<HostRule> {
    let has_server = Api::ALL.iter().any(|api| settings.env.iter().any(|(name, _)| name == api.base_variable()));
    if settings.unconfined || settings.network != Network::Listed || has_server || !bound(settings).is_empty() {
        return Vec::new();
    }
    let is_listed = |rule: &HostRule| match &rule.pattern {
        HostPattern::Exact(host) => {
            let to = Endpoint { host: host.clone(), port: rule.port.unwrap_or(DEFAULT_PORT) };
            settings.allow.iter().any(|allowed| allowed.allows(&to))
        }
        HostPattern::Below(_) => false,
    };
    let hosts = provider_hosts(settings.provider);
    if hosts.iter().any(is_listed) { Vec::new() } else { hosts }
}

fn rules<'a>(hosts: impl Iterator<Item = &'a &'a str>) -> Vec<HostRule> {
    let mut rules: Vec<HostRule> = hosts.filter_map(|host| host.parse().ok()).collect();
    rules.sort();
    rules.dedup();
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::EnvValue;

    #[test]
    fn every_host_is_a_rule_for_exactly_one_host() {
        let mut providers = vec![ProviderKind::Claude, ProviderKind::OpenAi, ProviderKind::Echo];
        providers.extend(Preset::ALL.map(ProviderKind::Preset));
        for provider in providers {
            let rules = starting_hosts(provider);
            assert_eq!(rules.len(), of_provider(provider).len() + REGISTRIES.len() + GIT.len(), "{provider:?}");
            assert!(rules.iter().all(HostRule::is_exact));
            assert!(provider_hosts(provider).iter().all(|rule| rules.contains(rule)));
        }
    }

    #[test]
    fn a_program_that_signs_in_on_its_own_needs_its_hosts_in_the_list() {
        let claude = AgentSettings {
            provider: ProviderKind::Claude,
            network: Network::Listed,
            ..AgentSettings::named("main".to_owned())
        };
        let env = |name: &str| vec![(name.to_owned(), EnvValue::Plain("x".to_owned()))];
        let allow = |host: &str| vec![host.parse().unwrap()];
        let with = |change: &dyn Fn(&mut AgentSettings)| {
            let mut settings = claude.clone();
            change(&mut settings);
            unlisted_hosts(&settings).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for (case, change, needs) in [
            ("no key", &(|_: &mut AgentSettings| {}) as &dyn Fn(&mut AgentSettings), true),
            ("another host", &|one| one.allow = allow("example.org"), true),
            ("another port", &|one| one.allow = allow("api.anthropic.com:8443"), true),
            ("a key that it has itself", &|one| (one.env, one.gateway) = (env("ANTHROPIC_API_KEY"), false), true),
            ("a key that the gateway has", &|one| one.env = env("ANTHROPIC_API_KEY"), false),
            ("its own server", &|one| one.env = env("ANTHROPIC_BASE_URL"), false),
            ("the host", &|one| one.allow = allow("api.anthropic.com"), false),
            ("all its names", &|one| one.allow = allow("*.anthropic.com"), false),
            ("a person is asked", &|one| one.network = Network::Ask, false),
            ("unconfined", &|one| one.unconfined = true, false),
            ("echo", &|one| one.provider = ProviderKind::Echo, false),
        ] {
            let expected: &[&str] = if needs { &["api.anthropic.com"] } else { &[] };
            assert_eq!(with(change), expected, "{case}");
        }
        assert_eq!(with(&|one| one.provider = ProviderKind::Preset(Preset::Codex)).len(), 3);
    }
}
