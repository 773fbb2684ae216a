//! `[secrets.NAME]`: secrets that are bound to hosts, and the variables of agents that stand for them.

use toml::de::DeValue;

use super::section::{Keys, Problems, Section, excerpt, with_article};
use crate::config::env::is_env_name;
use crate::model::bound_secret::{
    AgentSecret, BadSecret, BoundSecret, SecretHeader, SecretHost, SecretUse, is_secret_name,
};
use crate::model::entity::{AgentSettings, EnvValue};

const KEYS: Keys = Keys { place: "[secrets.NAME]", known: &["value", "hosts", "header", "requests"], later: &[] };

/// Secrets of an installation, and their hosts and patterns.
const SECRETS_MAX: usize = 200;
const LIST_MAX: usize = 100;
/// The header of a secret that names none.
const HEADER: &str = "Authorization: Bearer {}";

/// The secrets of the installation, sorted by name.
pub(super) fn read(problems: &mut Problems<'_>, top: &Section<'_>) -> Vec<BoundSecret> {
    let mut secrets = Vec::new();
    for (name, section) in top.named_tables(problems, "secrets", &KEYS) {
        if !is_secret_name(name) {
            let what = "cannot be the name of a secret; use 1 to 64 letters, digits, `_` and `-`";
            problems.add(section.at(), format!("`{}` {what}", excerpt(name)));
        }
        let value = value(problems, &section);
        let hosts = hosts(problems, &section);
        let header = header(problems, &section);
        let requests = list(problems, &section, "requests", str::parse);
        if let (Some(value), Some(header)) = (value, header) {
            secrets.push(BoundSecret { name: name.to_owned(), value, hosts, header, requests });
        }
    }
    if secrets.len() > SECRETS_MAX {
        problems.add(top.at(), format!("there are {} secrets; write at most {SECRETS_MAX}", secrets.len()));
    }
    secrets.sort_by(|one, other| one.name.cmp(&other.name));
    secrets
}

/// The text is never part of a message: it may be the secret itself.
fn value(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<String> {
    let (at, text) = section.needed(problems, "value")?;
    let is_good = is_reference(text);
    if !is_good {
        problems.add(
            at,
            "`value` is no reference to a secret; write \"env:NAME\", \"file:/path\" or \"cmd:program argument\"",
        );
    }
    is_good.then(|| text.to_owned())
}

/// Whether a text is a reference to a secret that can be resolved.
pub(super) fn is_reference(text: &str) -> bool {
    match text.split_once(':') {
        _ if text.chars().any(char::is_control) => false,
        Some(("env", name)) => is_env_name(name),
        Some(("file", path)) => path.starts_with('/'),
        Some(("cmd", line)) => !line.trim().is_empty(),
        _ => false,
    }
}

fn hosts(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<SecretHost> {
    let mut hosts = list(problems, section, "hosts", str::parse);
    if section.get("hosts").is_none() {
        problems.add(section.at(), "`hosts` is missing in [secrets.NAME]; add the hosts that get the secret");
    } else if hosts.is_empty() && section.texts(problems, "hosts").is_empty() {
        let at = section.get("hosts").map_or(section.at(), |value| value.span().start);
        problems.add(at, "`hosts` names no host that can get the secret; write one like \"api.example.org\"");
    }
    hosts.sort();
    hosts.dedup();
    hosts
}

fn header(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<SecretHeader> {
    let (at, text) = section.text(problems, "header").unwrap_or((section.at(), HEADER));
    text.parse().map_err(|error| problems.add(at, format!("`header`: {error}"))).ok()
}

fn list<T>(
    problems: &mut Problems<'_>,
    section: &Section<'_>,
    key: &str,
    parse: fn(&str) -> Result<T, BadSecret>,
) -> Vec<T> {
    let texts = section.texts(problems, key);
    if let Some((at, _)) = texts.get(LIST_MAX) {
        problems.add(*at, format!("`{key}` has {} entries; write at most {LIST_MAX}", texts.len()));
    }
    let mut found = Vec::new();
    for (at, text) in texts {
        match parse(text) {
            Ok(one) => found.push(one),
            Err(error) => problems.add(at, format!("`{key}`: {error}")),
        }
    }
    found
}

/// `secrets = { VARIABLE = "name" }` of an agent, sorted by variable.
pub(super) fn of_agent(
    problems: &mut Problems<'_>,
    section: &Section<'_>,
    is_owned: fn(&str) -> bool,
) -> Vec<AgentSecret> {
    let Some(value) = section.get("secrets") else { return Vec::new() };
    let Some(table) = value.get_ref().as_table() else {
        section.wrong_type(problems, "secrets", "a table, in braces: { VARIABLE = \"name\" }");
        return Vec::new();
    };
    let mut secrets = Vec::new();
    for (variable, secret) in table {
        let (at, variable) = (variable.span().start, variable.get_ref().as_ref());
        if !is_env_name(variable) {
            problems.add(at, format!("`secrets`: `{}` {}", excerpt(variable), super::env::NO_VARIABLE));
        } else if is_owned(variable) {
            problems.add(at, format!("`{variable}` is set by Hearth for every agent; remove it"));
        }
        match secret.get_ref() {
            DeValue::String(name) if SecretUse::parse(name).is_some() => {
                secrets.push(AgentSecret { variable: variable.to_owned(), secret: name.to_string() });
            }
            DeValue::String(name) if EnvValue::is_reference(name) => {
                let what = format!(
                    "`secrets.{}` is a reference; write it as `value` in [secrets.NAME], and the name here",
                    excerpt(variable)
                );
                problems.add(secret.span().start, what);
            }
            DeValue::String(_) => {
                let what = format!(
                    "`secrets.{}` is not the name of a secret; write that of a [secrets.NAME], or NAME.url for its base URL",
                    excerpt(variable)
                );
                problems.add(secret.span().start, what);
            }
            other => {
                let found = with_article(other.type_str());
                let what = format!("`secrets.{}` is {found}; write the name of a secret, in quotes", excerpt(variable));
                problems.add(secret.span().start, what);
            }
        }
    }
    secrets.sort();
    secrets
}

/// Reports what an agent's secrets do not go together with.
pub(super) fn check(problems: &mut Problems<'_>, section: &Section<'_>, settings: &AgentSettings) {
    let AgentSettings { secrets, env, network, .. } = settings;
    let at = section.get("secrets").map_or(section.at(), |value| value.span().start);
    for AgentSecret { variable, .. } in secrets {
        if env.iter().any(|(name, _)| name == variable) {
            problems.add(at, format!("`{variable}` is in `secrets` and in `env`; keep one of them"));
        }
    }
    if !secrets.is_empty() && !network.has_rules() {
        let what = "`secrets` are added to requests on their way through Hearth, and this agent's network does not lead \
                    there; write `network = \"ask\"` or `network = \"listed\"`";
        problems.add(at, what);
    }
}
