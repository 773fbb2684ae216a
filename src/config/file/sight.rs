//! Parses an agent's access to the machine (network, mounts, limits, skills), and where agents run.

use super::section::{Keys, Problems, Section, excerpt};
use super::write::{Fields, Value};
use crate::model::configure::RuntimeKind;
use crate::model::entity::{Access, ExtraMount, Limits, Network, Skills};
use crate::model::mount::container_path;
use crate::model::network::{BadHost, HostRule};
use crate::model::tool::{ToolPreset, ToolRule, ToolSettings};

pub(super) fn networks() -> [(&'static str, Network); Network::ALL.len()] {
    Network::ALL.map(|network| (network.as_str(), network))
}

/// `allow`: sorted, each once.
pub(super) fn allowed_hosts(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<HostRule> {
    hosts(problems, section, "allow", HostRule::check_allowed)
}

/// `deny`: sorted, each once.
pub(super) fn denied_hosts(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<HostRule> {
    hosts(problems, section, "deny", |_| Ok(()))
}

fn hosts(
    problems: &mut Problems<'_>,
    section: &Section<'_>,
    key: &str,
    check: fn(&HostRule) -> Result<(), BadHost>,
) -> Vec<HostRule> {
    let mut rules = Vec::new();
    for (at, text) in section.texts(problems, key) {
        match text.parse::<HostRule>().and_then(|rule| check(&rule).map(|()| rule)) {
            Ok(rule) => rules.push(rule),
            Err(error) => problems.add(at, format!("`{key}`: {error}")),
        }
    }
    rules.sort();
    rules.dedup();
    rules
}

pub(super) const RUNTIMES: [(&str, RuntimeKind); 2] =
    [("podman", RuntimeKind::Podman), ("process", RuntimeKind::Process)];

const MOUNT: Keys =
    Keys { place: "[[agents.mounts]]", known: &["host_path", "container_path", "readonly"], later: &[] };
const LIMITS: Keys = Keys { place: "`limits`", known: &["memory", "cpu", "pids"], later: &[] };

/// Bytes per unit of memory; the largest unit first.
const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
/// Minimum memory with which an agent can start.
const MEMORY_MIN: u64 = 16 << 20;
/// Maximum memory: more than any machine has, and accepted by every runtime.
const MEMORY_MAX: u64 = 1 << 50;
/// Maximum number of processors.
const CPU_MAX: f64 = 1_024.0;
/// Bounds of processes and threads; the upper one is the kernel's.
const PIDS: std::ops::RangeInclusive<i64> = 16..=4_194_304;
/// Longest name of an image, and of a path.
const NAME_MAX: usize = 512;
const PATH_MAX: usize = 4_096;

/// `mounts = [{ host_path, container_path, readonly }]`. Read-only unless the file says otherwise.
pub(super) fn mounts(problems: &mut Problems<'_>, section: &Section<'_>) -> Vec<ExtraMount> {
    let mut mounts: Vec<ExtraMount> = Vec::new();
    for table in section.tables(problems, "mounts", &MOUNT) {
        let host = table.needed(problems, "host_path");
        let container_path = table.text(problems, "container_path").map(|(_, path)| path.to_owned());
        let readonly = table.flag(problems, "readonly").unwrap_or(true);
        let Some((at, host)) = host else { continue };
        let rooted = host.starts_with('/') || host == "~" || host.starts_with("~/");
        if !rooted || host.len() > PATH_MAX || host.chars().any(char::is_control) {
            let what = "is not an absolute path; write one that begins with `/` or `~/`";
            problems.add(at, format!("`host_path`: `{}` {what}", excerpt(host)));
            continue;
        }
        let access = if readonly { Access::ReadOnly } else { Access::ReadWrite };
        let mount = ExtraMount { host_path: host.to_owned(), container_path, access };
        let at = table.get("container_path").map_or(at, |value| value.span().start);
        if place(problems, at, &mounts, &mount) {
            mounts.push(mount);
        }
    }
    mounts
}

/// Checks that a mount does not overlap with another one.
fn place(problems: &mut Problems<'_>, at: usize, others: &[ExtraMount], mount: &ExtraMount) -> bool {
    let path = match container_path(mount) {
        Ok(path) => path,
        Err(path) => {
            let what = "cannot be mounted below /workspace/extra; give a `container_path` that is relative, without `..` \
                        and `:`";
            problems.add(at, format!("`{}` {what}", excerpt(&path)));
            return false;
        }
    };
    let within =
        |one: &str, other: &str| one == other || one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
    let taken = others.iter().filter_map(|other| container_path(other).ok());
    if let Some(other) = taken.into_iter().find(|other| within(other, path) || within(path, other)) {
        let (path, other) = (excerpt(path), excerpt(other));
        problems.add(
            at,
            format!("two mounts overlap at `{path}` and `{other}`; change the `container_path` of one of them"),
        );
        return false;
    }
    true
}

/// `limits = { memory, cpu, pids }`.
pub(super) fn limits(problems: &mut Problems<'_>, section: &Section<'_>) -> Limits {
    let Some(section) = section.table(problems, "limits", &LIMITS) else { return Limits::default() };
    Limits {
        memory: memory(problems, &section),
        cpu: cpu(problems, &section),
        pids: section.number(problems, "pids", PIDS),
    }
}

fn memory(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<u64> {
    let value = section.get("memory")?;
    let bytes = match value.get_ref().as_str() {
        Some(text) => bytes(text),
        None => section.integer(problems, "memory").map(|number| u64::try_from(number).ok())?,
    };
    let good = bytes.filter(|bytes| (MEMORY_MIN..=MEMORY_MAX).contains(bytes));
    if good.is_none() {
        let what =
            "`limits.memory` must be bytes, or a text like \"512MiB\" or \"2GiB\", from 16MiB to 1024TiB; correct it";
        problems.add(value.span().start, what);
    }
    good
}

fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))?;
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| digits)?.checked_mul(unit)
}

/// The inverse of reading it.
pub(super) fn memory_value(bytes: u64) -> Value {
    match UNITS.iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => Value::Text(format!("{}{name}", bytes / unit)),
        None => Value::Plain(bytes.to_string()),
    }
}

fn cpu(problems: &mut Problems<'_>, section: &Section<'_>) -> Option<u32> {
    let number = section.decimal(problems, "cpu")?;
    let good = (0.01..=CPU_MAX).contains(&number);
    if !good {
        let at = section.get("cpu").map_or(section.at(), |value| value.span().start);
        problems.add(at, format!("`limits.cpu` counts processors, from 0.01 to {CPU_MAX}; write a number like 1.5"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 10 and 1,024,000")]
    good.then(|| (number * 1_000.0).round() as u32)
}

/// `skills = "all"` or names.
pub(super) fn skills(problems: &mut Problems<'_>, section: &Section<'_>) -> Skills {
    let Some(value) = section.get("skills") else { return Skills::All };
    if let Some(text) = value.get_ref().as_str() {
        if text != "all" {
            let what = "write \"all\", or a list of names in brackets";
            problems.add(value.span().start, format!("`skills` cannot be \"{}\"; {what}", excerpt(text)));
        }
        return Skills::All;
    }
    let mut names = Vec::new();
    for (at, name) in section.texts(problems, "skills") {
        if is_skill_name(name) {
            names.push(name.to_owned());
        } else {
            let what =
                "is not the name of a skill; use 1 to 64 letters, digits, `_`, `-` and `.`, first a letter or digit";
            problems.add(at, format!("`{}` {what}", excerpt(name)));
        }
    }
    names.sort();
    names.dedup();
    Skills::Only(names)
}

/// Whether a name can be one of a skill, which is a directory's.
pub fn is_skill_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    name.len() <= 64
        && name.bytes().all(plain)
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// The image of containers, as an engine names it.
pub(super) fn image(problems: &mut Problems<'_>, top: &Section<'_>) -> Option<String> {
    let (at, name) = top.text(problems, "image")?;
    if let Err(why) = decide_image(name) {
        let given = excerpt(name);
        let like = "write one like \"localhost/hearth-agent:latest\"";
        problems.add(at, format!("`{given}` is not the name of an image{why}; {like}"));
        return None;
    }
    Some(name.to_owned())
}

/// Checks that a name is `[host[:port]/]path[:tag][@sha256:digest]`. The error says what is wrong, if known.
fn decide_image(name: &str) -> Result<(), &'static str> {
    if name.contains("://") {
        return Err(": it must not have a prefix like `docker://`");
    }
    let (rest, digest) = name.split_once('@').map_or((name, None), |(rest, digest)| (rest, Some(digest)));
    let hex = |digest: &str| digest.len() == 64 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if digest.is_some_and(|digest| !digest.strip_prefix("sha256:").is_some_and(hex)) {
        return Err(": `@` must be followed by `sha256:` and 64 digits");
    }
    // A colon after the last slash is that of the tag, one before it that of a port.
    let (path, tag) = match rest.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let tagged = |tag: &str| {
        tag.len() <= 128
            && tag.bytes().next().is_some_and(word)
            && tag.bytes().all(|b| word(b) || b == b'.' || b == b'-')
    };
    if name.len() > NAME_MAX || !tag.is_none_or(tagged) {
        return Err("");
    }
    let host =
        path.split_once('/').map(|(host, _)| host).filter(|host| host.contains(['.', ':']) || *host == "localhost");
    let path = host.map_or(path, |host| path.get(host.len() + 1..).unwrap_or_default());
    let port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let named = |host: &str| {
        let (name, number) = host.split_once(':').map_or((host, None), |(name, number)| (name, Some(number)));
        let plain = |label: &str| {
            let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
            ends(label.bytes().next())
                && ends(label.bytes().last())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        name.split('.').all(plain) && number.is_none_or(port)
    };
    if !host.is_none_or(named) {
        return Err("");
    }
    if path.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(": only its tag may have upper-case letters");
    }
    let small = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |part: &str| {
        let separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        part.bytes().next().is_some_and(small)
            && part.bytes().last().is_some_and(small)
            && separators.into_iter().all(|one| matches!(one, "" | "." | "_" | "__") || one.bytes().all(|b| b == b'-'))
    };
    if path.split('/').all(part) { Ok(()) } else { Err("") }
}

/// The inverse of reading what decides about tool calls.
pub(super) fn tools(settings: &ToolSettings) -> Option<Value> {
    let preset = Value::Text(settings.preset.as_str().to_owned());
    let mut fields = Fields::default();
    fields.set("preset", preset.clone());
    if !settings.rules.is_empty() {
        let rule = |rule: &ToolRule| vec![(rule.verdict.as_str().to_owned(), Value::Text(rule.pattern.clone()))];
        fields.set("rules", Value::Tables(settings.rules.iter().map(rule).collect()));
    }
    if let Some(minutes) = settings.approval_wait {
        fields.plain("approval_wait", minutes);
    }
    match settings {
        ToolSettings { rules, approval_wait: None, preset: ToolPreset::Open } if rules.is_empty() => None,
        ToolSettings { rules, approval_wait: None, .. } if rules.is_empty() => Some(preset),
        _ => Some(Value::Table(fields.into_list())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images() {
        let digest = "a".repeat(64);
        for name in [
            "debian",
            "debian:13",
            "localhost/hearth-agent:0.1.0",
            "docker.io/library/debian:trixie-slim",
            "Registry.example.org:5000/a/b__c/d-e.f:V1_2.3-x",
            "library/x_y",
            "4fcd79d9b2af",
            &format!("localhost/x@sha256:{digest}"),
            &format!("x:1@sha256:{digest}"),
        ] {
            assert_eq!(decide_image(name), Ok(()), "{name}");
        }
        for (name, word) in [
            ("docker://x", "docker://"),
            ("UPPER/x", "upper-case"),
            ("x/Y:1", "upper-case"),
            ("x@sha256:12", "sha256"),
            ("", ""),
            ("a b", ""),
            ("/x", ""),
            ("x/", ""),
            ("x//y", ""),
            ("-x", ""),
            ("x:", ""),
            ("x:.1", ""),
            ("a..b/c_/d", ""),
            ("host:port/x", ""),
            ("localhost:/x", ""),
            ("x$(id)", ""),
            ("x\nRUN y", ""),
        ] {
            assert!(decide_image(name).is_err_and(|why| why.contains(word)), "{name:?}");
        }
    }
}
