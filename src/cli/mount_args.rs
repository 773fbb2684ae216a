//! Agents' access to the machine: mount flags, the verdict of the allow-list, and warnings.

use serde::Serialize;

use super::{Done, print, problems};
use crate::config::Paths;
use crate::config::file;
use crate::config::file::write::{Fields, Value};
use crate::contracts::allowlist::{self, MountDecision};
use crate::model::configure::{Change, Configure};
use crate::model::entity::{Access, AgentSettings};
use crate::model::mount::{EXTRA, container_path};

/// A declared mount and its verdict.
#[derive(Debug, Serialize)]
pub(super) struct MountJson {
    host_path: String,
    /// Path in the container; null if unknown.
    place: Option<String>,
    readonly: bool,
    /// `read-only` or `read-write`: the effective access, or the declared one if the mount is refused.
    access: &'static str,
    allowed: bool,
    /// Why it is allowed or refused.
    reason: String,
}

/// Parses `PATH[:PLACE][:ro|rw]`. Errors are reported by the parser of hearth.toml.
pub(super) fn mounts(given: &[String]) -> Option<Value> {
    let one = |text: &String| {
        let (path, access) = match text.rsplit_once(':') {
            Some((path, "rw")) => (path, false),
            Some((path, "ro")) => (path, true),
            _ => (text.as_str(), true),
        };
        let (host, place) = match path.split_once(':') {
            Some((host, place)) => (host, Some(place)),
            None => (path, None),
        };
        let mut fields = vec![("host_path".to_owned(), Value::Text(host.to_owned()))];
        fields.extend(place.map(|place| ("container_path".to_owned(), Value::Text(place.to_owned()))));
        fields.push(("readonly".to_owned(), Value::Plain(access.to_string())));
        fields
    };
    (!given.is_empty()).then(|| Value::Tables(given.iter().map(one).collect()))
}

/// `all`, or names.
pub(super) fn skills(given: &[String]) -> Option<Value> {
    match given {
        [] => None,
        [all] if all == "all" => Some(Value::Text(all.clone())),
        // `all` together with names is an error, which the parser reports.
        names if names.iter().any(|name| name == "all") => Some(Value::Text(names.join(", "))),
        names => Some(Value::Texts(names.to_vec())),
    }
}

/// Overwrites limits with the given ones.
pub(super) fn put_limits(fields: &mut Fields, given: [(&str, &Option<String>); 3]) {
    let mut limits = match fields.get("limits") {
        Some(Value::Table(limits)) => limits.clone(),
        _ => Vec::new(),
    };
    for (key, text) in given {
        let Some(text) = text else { continue };
        let number =
            text.parse::<f64>().is_ok_and(f64::is_finite) && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let whole = number && !text.starts_with('.') && !text.ends_with('.');
        limits.retain(|(known, _)| known != key);
        limits.push((key.to_owned(), if whole { Value::Plain(text.clone()) } else { Value::Text(text.clone()) }));
    }
    if !limits.is_empty() {
        fields.set("limits", Value::Table(limits));
    }
}

/// The verdict of the current allow-list on each declared mount.
pub(super) fn judged(paths: &Paths, settings: &AgentSettings) -> Vec<MountJson> {
    let one = |(mount, verdict): (_, MountDecision)| {
        let mount: &crate::model::entity::ExtraMount = mount;
        let (access, allowed, reason) = match verdict {
            MountDecision::Allowed(allowed) => (allowed.mount.access, true, allowed.reason),
            MountDecision::Refused(reason) => (mount.access, false, reason),
        };
        MountJson {
            host_path: mount.host_path.clone(),
            place: container_path(mount).ok().map(|path| format!("{EXTRA}/{path}")),
            readonly: access == Access::ReadOnly,
            access: access.as_str(),
            allowed,
            reason,
        }
    };
    settings.mounts.iter().zip(allowlist::judge(paths, &settings.mounts)).map(one).collect()
}

/// Prints the mounts of an agent.
pub(super) fn print(mounts: &[MountJson]) -> Done {
    if mounts.is_empty() {
        return Ok(());
    }
    print::line("")?;
    let row = |one: &MountJson| {
        let access = if one.readonly { "read-only" } else { "READ-WRITE" };
        let allowed = if one.allowed { "allowed" } else { "REFUSED" };
        vec![
            one.host_path.clone(),
            one.place.clone().unwrap_or_default(),
            access.into(),
            allowed.into(),
            one.reason.clone(),
        ]
    };
    print::table(&["MOUNT", "SEEN AT", "ACCESS", "ALLOW-LIST", "WHY"], mounts.iter().map(row).collect())
}

/// Warns about mounts in a file that an agent could write to.
pub(super) fn warn_of_mounts(configure: &Configure) {
    for change in &configure.changes {
        let Change::PutAgent(folder, settings) = change else { continue };
        for mount in settings.mounts.iter().filter(|mount| mount.access == Access::ReadWrite) {
            print::warning(&format!(
                "agent {folder} gets {} READ-WRITE: it can change and delete everything there if the allow-list \
                 permits it; omit `readonly = false` if reading is enough",
                mount.host_path
            ));
        }
    }
}

/// Warns about mounts and `recall` in one agent's table. An invalid table is rejected later.
pub(super) fn warn_of_writable(folder: &str, toml: &str) {
    if let Ok(configure) = file::parse(folder, toml) {
        warn_of_mounts(&configure);
        problems::warn_of_recall(&configure);
    }
}
