//! Hosts that a new agent may reach at first, so that its first day is not a row of questions.

use super::agent::{Preset, ProviderKind};
use super::host::HostRule;

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

fn rules<'a>(hosts: impl Iterator<Item = &'a &'a str>) -> Vec<HostRule> {
    let mut rules: Vec<HostRule> = hosts.filter_map(|host| host.parse().ok()).collect();
    rules.sort();
    rules.dedup();
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
