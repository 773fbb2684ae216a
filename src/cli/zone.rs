//! The zone of commands that have no store to ask.

use super::out;
use crate::config::Machine;
use crate::time::local::{self, BadTime};
use crate::time::zone::Zone;

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

/// A text that is a time in some zone; which one is known later.
pub(super) fn time(text: &str) -> Result<String, BadTime> {
    local::instant(text, &Zone::utc()).map(|_| text.to_owned())
}
