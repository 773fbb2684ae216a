//! The network of a new agent.

use super::{entity, print};
use crate::config::file;
use crate::config::file::write::{Fields, Value};
use crate::model::configure::Change;
use crate::model::starting_hosts::provider_hosts;

/// Lists the hosts of the provider of a new agent whose network has rules by default. An invalid table is rejected later.
pub(super) fn put(folder: &str, fields: &mut Fields) {
    let Ok(configure) = file::parse(folder, &entity::toml(&[("[[agents]]", fields)])) else { return };
    for change in &configure.changes {
        let Change::PutAgent(_, settings) = change else { continue };
        if settings.unconfined {
            print::warning(&format!(
                "agent {folder} runs unconfined, so its network is `open`: it reaches everything that your user reaches"
            ));
        }
        let hosts: Vec<String> = provider_hosts(settings.provider).iter().map(ToString::to_string).collect();
        if settings.network.has_rules() && settings.allow.is_empty() && !hosts.is_empty() {
            fields.set("allow", Value::Texts(hosts));
        }
    }
}
