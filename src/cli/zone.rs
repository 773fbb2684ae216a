//! The zone that holds, for commands with a store to ask and for those without one.

use super::out;
use crate::config::Machine;
use crate::socket::protocol::DaemonStatus;
use crate::time::local::{self, BadTime};
use crate::time::zone::{Chosen, Source, Zone};

/// The zone that was given, else the machine's; a `TZ` that is no zone is told.
pub(super) fn or_the_machines(given: Option<&Zone>) -> Zone {
    if let Some(zone) = given {
        return zone.clone();
    }
    let machine = Machine::look();
    if let Some(complaint) = machine.complaint() {
        out::warning(&complaint);
    }
    machine.zone(None, None).zone
}

/// The zone that holds where this is configured, and in words where it comes from. What a daemon sees of the machine and its
/// environment may differ from what is seen here, and its word counts.
pub(super) fn that_holds(daemon: Option<&DaemonStatus>, agent: Option<&str>, common: Option<&str>) -> (Zone, String) {
    let Chosen { zone, source, .. } = Machine::look().zone(agent, common);
    let configured = matches!(source, Source::Agent | Source::File);
    match daemon.filter(|_| !configured).and_then(|daemon| Some((Zone::parse(&daemon.zone).ok()?, &daemon.zone_from))) {
        Some((zone, from)) => (zone, from.clone()),
        None => (zone, source.to_string()),
    }
}

/// A text that is a time in some zone; which one is known later.
pub(super) fn time(text: &str) -> Result<String, BadTime> {
    local::instant(text, &Zone::utc()).map(|_| text.to_owned())
}
