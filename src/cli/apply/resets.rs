//! Keys that a file omits for the entities that it names. Applying the file resets them to their defaults.

use super::super::change::Configured;
use super::super::consent::Consent;
use super::super::{Done, Failure, print};
use crate::config::file;
use crate::model::report::FieldChange;

/// An omitted key that goes back to its default.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reset {
    entity: String,
    field: FieldChange,
}

/// The resets of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resets(Vec<Reset>);

impl Resets {
    /// Moves the resets from a report into a separate part.
    pub(super) fn split(mut planned: Configured, toml: &str) -> (Configured, Self) {
        let named = file::named_keys(toml);
        let mut resets = Vec::new();
        for change in &mut planned.changes {
            let Some(keys) = named.get(&change.entity) else { continue };
            let fields = std::mem::take(&mut change.fields);
            let (kept, reset): (Vec<_>, Vec<_>) = fields.into_iter().partition(|field| keys.contains(&field.field));
            change.fields = kept;
            resets.extend(reset.into_iter().map(|field| Reset { entity: change.entity.clone(), field }));
        }
        (planned, Self(resets))
    }

    /// Prints them in words.
    pub(super) fn print(&self) -> Done {
        if self.0.is_empty() {
            return Ok(());
        }
        print::line("reset, because the file omits the key:")?;
        for Reset { entity, field } in &self.0 {
            let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "(default)".to_owned());
            let (before, after) = (side(&field.before), side(&field.after));
            print::line(&format!(
                "  {entity}: {}: `{}` {before} -> {after}",
                effect(entity, &field.field),
                field.field
            ))?;
        }
        Ok(())
    }

    /// Asks the person at the terminal. Scripts are not asked.
    pub(super) fn agree(&self, yes: bool, json: bool) -> Done {
        match Consent::of(yes, json) {
            Consent::Asked if !self.0.is_empty() && !print::agreed("Reset these? [y/N]: ") => Err(Failure::Failed(
                "cancelled: nothing was changed; write the keys into the file to keep them".to_owned(),
            )),
            Consent::Asked | Consent::Given | Consent::Missing => Ok(()),
        }
    }
}

/// The consequence of a key's default for an entity.
fn effect(entity: &str, key: &str) -> &'static str {
    if !entity.starts_with("agent ") {
        return match key {
            "roles" => "this person loses roles",
            "member_of" => "this person loses agents",
            _ => "it has the default",
        };
    }
    match key {
        "trust" => "it becomes untrusted, its memory read-only unless `folder_access` allows writing",
        "permissions" => "it may use the tools that it asks about",
        "folder_access" => "access to its folder and memory follows `trust`",
        "unconfined" => "it runs confined",
        "network" => "its network is open",
        "allow_host_loopback" => "it loses the services of this machine",
        "gateway" => "Hearth keeps the keys of its models from it",
        "models" => "it may use all models",
        "mounts" => "it loses directories",
        "mcp_servers" => "it loses MCP servers",
        "packages" => "its image loses packages",
        "env" => "it loses variables",
        "request_env" => "its requests may name fewer variables",
        "skills" => "it gets all skills",
        "blocked_tools" => "it may use all tools",
        "limits" => "its containers have no limits of their own",
        "provider" => "it only repeats what people write",
        "model" | "effort" => "its provider chooses",
        "timezone" => "it uses the time zone of all agents",
        _ => "it has the default",
    }
}
