//! The network of a new agent.

use super::{entity, print};
use crate::config::file;
use crate::config::file::write::{Fields, Value};
use crate::model::configure::Change;
use crate::model::entity::Network;
use crate::model::starting_hosts::provider_hosts;

/// Chooses the network of a new agent. An invalid table is rejected later.
pub(super) fn put(folder: &str, fields: &mut Fields) {
    fields.set("network", Value::Text(Network::Ask.as_str().to_owned()));
    let Ok(configure) = file::parse(folder, &entity::toml(&[("[[agents]]", fields)])) else { return };
    for change in &configure.changes {
        let Change::PutAgent(_, settings) = change else { continue };
        let mut network = settings.trust.first_network();
        if settings.unconfined {
            network = Network::Open;
            print::warning(&format!(
                "agent {folder} runs unconfined, so its network is `open`: it reaches everything that your user reaches"
            ));
        }
        fields.set("network", Value::Text(network.as_str().to_owned()));
        let hosts: Vec<String> = provider_hosts(settings.provider).iter().map(ToString::to_string).collect();
        if network.has_rules() && settings.allow.is_empty() && !hosts.is_empty() {
            fields.set("allow", Value::Texts(hosts));
        }
    }
}
