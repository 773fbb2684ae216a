//! The launch configuration of an incarnation as one number. A change requires a new incarnation.

use crate::model::bound_secret;
use crate::model::configure::Settings;
use crate::model::entity::AgentSettings;
use crate::model::fnv::fnv_1a;
use crate::model::incarnation::SpecDigest;
use std::collections::BTreeSet;

/// Whether a change of settings changes the launch configuration of an incarnation, whichever provider drives it.
pub(crate) fn differ(
    before: &AgentSettings,
    installed_before: &Settings,
    after: &AgentSettings,
    installed_after: &Settings,
) -> bool {
    before.fallback != after.fallback || digest(0, before, installed_before) != digest(0, after, installed_after)
}

/// The launch configuration of an incarnation: the settings in its session, and the session's epoch. FNV-1a over the
/// `Debug` text of the parts. This text may change with a version of Hearth, which only costs a restart of idle incarnations. The content of the context file can change under a live incarnation and is not included.
pub(crate) fn digest(epoch: u32, settings: &AgentSettings, installation: &Settings) -> SpecDigest {
    let driver = (settings.provider, &settings.command, &settings.model, &settings.effort);
    let permitting = (&settings.mode, settings.permissions, settings.verbosity);
    let tools = (&settings.env, &settings.packages, &settings.mcp_servers, &settings.skills, &settings.blocked_tools);
    // The runner listens on the ports that rules name.
    let ports: BTreeSet<_> = settings.allow.iter().filter_map(|rule| rule.port).collect();
    let network = (settings.network, ports, settings.allow_host_loopback, settings.gateway, &settings.models);
    let secrets = (&settings.secrets, bound_secret::used(&settings.secrets, &installation.secrets));
    let place =
        (settings.trust, settings.access_to_folder(), settings.unconfined, network, &settings.mounts, settings.limits);
    // The time zone is in the context file, but also in an environment variable that only a start can set.
    let zone = settings.timezone.as_ref().or(installation.timezone.as_ref());
    let image = &installation.image;
    let text = format!("{driver:?} {permitting:?} {tools:?} {place:?} {secrets:?} {zone:?} {image:?} {epoch:?}");
    SpecDigest::new(fnv_1a(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use crate::model::budget::Fallback;
    use crate::model::entity::{Access, Network, ProviderKind, Trust};
    use crate::rules::launch_spec::*;

    #[test]
    fn what_only_a_start_can_change_counts_and_nothing_else() {
        let plain = AgentSettings::named("A".to_owned());
        let image = Settings { image: Some("other".to_owned()), ..Settings::default() };
        let zone = Settings { timezone: Some("Europe/Berlin".to_owned()), ..Settings::default() };
        let here = AgentSettings { timezone: zone.timezone.clone(), ..plain.clone() };
        let first = AgentSettings { model: Some("a".to_owned()), ..plain.clone() };
        let second = AgentSettings { model: Some("b".to_owned()), ..plain.clone() };
        let none = Settings::default();
        let fallback = vec![Fallback { provider: ProviderKind::Echo, command: Vec::new(), model: None }];
        for (number, before, after, expected) in [
            (1, (&plain, &none), (&plain, &none), false),
            (2, (&plain, &none), (&AgentSettings { name: "B".to_owned(), ..plain.clone() }, &none), false),
            (3, (&plain, &none), (&AgentSettings { max_parallel: 9, ..plain.clone() }, &none), false),
            (4, (&first, &none), (&second, &none), true),
            (5, (&plain, &none), (&AgentSettings { trust: Trust::Main, ..plain.clone() }, &none), true),
            (6, (&plain, &none), (&AgentSettings { network: Network::None, ..plain.clone() }, &none), true),
            (10, (&plain, &none), (&AgentSettings { allow_host_loopback: true, ..plain.clone() }, &none), true),
            (14, (&plain, &none), (&AgentSettings { gateway: false, ..plain.clone() }, &none), true),
            (15, (&plain, &none), (&AgentSettings { models: vec!["m".into()], ..plain.clone() }, &none), true),
            (11, (&plain, &none), (&AgentSettings { request_env: vec!["A".into()], ..plain.clone() }, &none), false),
            (
                12,
                (&plain, &none),
                (&AgentSettings { folder_access: Some(Access::ReadWrite), ..plain.clone() }, &none),
                true,
            ),
            // What the agent's trust already implies.
            (
                13,
                (&plain, &none),
                (&AgentSettings { folder_access: Some(Access::ReadOnly), ..plain.clone() }, &none),
                false,
            ),
            (16, (&plain, &none), (&AgentSettings { fallback, ..plain.clone() }, &none), true),
            (7, (&plain, &none), (&plain, &image), true),
            (8, (&plain, &none), (&plain, &zone), true),
            // An agent's own value and the same value of the installation give the same digest.
            (9, (&here, &none), (&plain, &zone), false),
        ] {
            assert_eq!(differ(before.0, before.1, after.0, after.1), expected, "case {number}");
        }
    }
}
