//! What an incarnation is started with, in one number: a change of it needs another incarnation.

use super::{Cx, Result};
use crate::model::configure::Settings;
use crate::model::entity::{Agent, AgentSettings, ProviderKind};
use crate::model::fnv::fnv_1a;
use crate::model::incarnation::SpecDigest;
use crate::model::session::ChatSession;
use crate::state::{Read, Tables, Write};

/// The digest for a session's next incarnation, and the image that was configured for it.
pub(super) fn of(
    cx: &Cx<'_>,
    txn: &Write<'_>,
    (session, agent): (&ChatSession, &Agent),
) -> Result<(SpecDigest, Option<String>)> {
    let installation = cx.db.settings.get(txn, &())?.unwrap_or_default();
    Ok((digest(session.into(), &agent.settings, &installation), installation.image))
}

/// The zone of an agent's people, if one was configured.
pub(super) fn timezone(db: &Tables, txn: &Read<'_>, agent: &Agent) -> Result<Option<String>> {
    match &agent.settings.timezone {
        Some(zone) => Ok(Some(zone.clone())),
        None => Ok(db.settings.get(txn, &())?.and_then(|settings| settings.timezone)),
    }
}

/// Whether agents with these settings are started in another way than with those.
pub(super) fn differ(
    (before, installed_before): (&AgentSettings, &Settings),
    (after, installed_after): (&AgentSettings, &Settings),
) -> bool {
    let own = Own { provider: None, epoch: 0 };
    digest(own, before, installed_before) != digest(own, after, installed_after)
}

/// What a session itself has to say about its start.
#[derive(Clone, Copy)]
struct Own {
    provider: Option<ProviderKind>,
    epoch: u32,
}

impl From<&ChatSession> for Own {
    fn from(session: &ChatSession) -> Self {
        Self { provider: session.provider, epoch: session.epoch }
    }
}

/// FNV-1a over the words that Rust has for the parts: they may change with a version of Hearth, which costs an idle
/// incarnation its life and nothing else. What is in the context file can change under a living incarnation and does not
/// count.
fn digest(own: Own, settings: &AgentSettings, installation: &Settings) -> SpecDigest {
    let driver = (own.provider.unwrap_or(settings.provider), &settings.command, &settings.model, &settings.effort);
    let tools = (&settings.env, &settings.packages, &settings.mcp_servers, &settings.skills, &settings.blocked_tools);
    let place = (settings.trust, settings.unconfined, settings.network, &settings.mounts, settings.limits);
    // The zone is in the context file, too, and a variable of the agent's programs that only a start can set.
    let zone = settings.timezone.as_ref().or(installation.timezone.as_ref());
    let text = format!("{driver:?} {tools:?} {place:?} {zone:?} {:?} {:?}", installation.image, own.epoch);
    SpecDigest::new(fnv_1a(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::entity::{Network, Trust};

    #[test]
    fn what_only_a_start_can_change_counts_and_nothing_else() {
        let plain = AgentSettings::named("A".to_owned());
        let image = Settings { image: Some("other".to_owned()), ..Settings::default() };
        let zone = Settings { timezone: Some("Europe/Berlin".to_owned()), ..Settings::default() };
        let here = AgentSettings { timezone: zone.timezone.clone(), ..plain.clone() };
        let first = AgentSettings { model: Some("a".to_owned()), ..plain.clone() };
        let second = AgentSettings { model: Some("b".to_owned()), ..plain.clone() };
        let none = Settings::default();
        for (number, before, after, expected) in [
            (1, (&plain, &none), (&plain, &none), false),
            (2, (&plain, &none), (&AgentSettings { name: "B".to_owned(), ..plain.clone() }, &none), false),
            (3, (&plain, &none), (&AgentSettings { max_parallel: 9, ..plain.clone() }, &none), false),
            (4, (&first, &none), (&second, &none), true),
            (5, (&plain, &none), (&AgentSettings { trust: Trust::Main, ..plain.clone() }, &none), true),
            (6, (&plain, &none), (&AgentSettings { network: Network::None, ..plain.clone() }, &none), true),
            (7, (&plain, &none), (&plain, &image), true),
            (8, (&plain, &none), (&plain, &zone), true),
            // What an agent has of its own and what it has of the installation are the same to it.
            (9, (&here, &none), (&plain, &zone), false),
        ] {
            assert_eq!(differ(before, after), expected, "case {number}");
        }
    }
}
