//! `--merge`: a file that changes only the keys that it names.

use super::super::configuration::Configuration;
use super::super::{Failure, entity};
use crate::config::file;
use crate::config::file::write::{self, Fields};
use crate::model::configure::Change;

/// The text of a file whose agents keep the keys that it omits.
pub(super) fn merged(known: &Configuration, toml: &str, name: &str) -> Result<String, Failure> {
    let named = file::agent_keys(toml);
    let mut changes = file::parse(name, toml)?.changes;
    for change in &mut changes {
        let Change::PutAgent(folder, settings) = &*change else { continue };
        let here = known.agents.iter().find(|agent| agent.folder == *folder);
        let (Some(here), Some(keys)) = (here, named.get(folder.as_str())) else { continue };
        let wanted = Fields::of_agent(folder, settings);
        let mut fields = Fields::of_agent(folder, &here.settings);
        for key in keys {
            match wanted.get(key) {
                Some(value) => fields.set(key, value.clone()),
                // It is named with its default.
                None => drop(fields.clear(key)),
            }
        }
        let text = entity::toml(&[("[[agents]]", &fields)]);
        if let Some(merged) = file::parse(name, &text)?.changes.into_iter().next() {
            *change = merged;
        }
    }
    Ok(write::write(&changes))
}
