//! The effective time zone, for commands with and without a store.

use super::print;
use crate::config::Machine;
use crate::socket::protocol::DaemonStatus;
use crate::time::local::{self, BadTime};
use crate::time::zone::{Chosen, Source, Zone};

/// The given time zone, or else the machine's. Warns about an invalid `TZ`.
pub(super) fn or_the_machines(given: Option<&Zone>) -> Zone {
    if let Some(zone) = given {
        return zone.clone();
    }
    let machine = Machine::look();
    if let Some(complaint) = machine.complaint() {
        print::warning(&complaint);
    }
    machine.zone(None, None).zone
}

/// The effective time zone for a configuration, and a text about its source. The daemon's view of the machine and its
/// environment takes precedence over this command's.
pub(super) fn that_holds(daemon: Option<&DaemonStatus>, agent: Option<&str>, common: Option<&str>) -> (Zone, String) {
    let Chosen { zone, source, .. } = Machine::look().zone(agent, common);
    let configured = matches!(source, Source::Agent | Source::File);
    match daemon.filter(|_| !configured).and_then(|daemon| Some((Zone::parse(&daemon.zone).ok()?, &daemon.zone_from))) {
        Some((zone, from)) => (zone, from.clone()),
        None => (zone, source.to_string()),
    }
}

/// Checks that a text is a time. Its time zone is known later.
pub(super) fn time(text: &str) -> Result<String, BadTime> {
    local::instant(text, &Zone::utc()).map(|_| text.to_owned())
}
