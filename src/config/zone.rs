//! The time zone of this machine: the variable `TZ`, or the system's setting.

use std::ffi::OsStr;
use std::path::Path;

use super::env::env_lookup;
use crate::time::zone::{Candidates, Chosen, resolve};

/// The link to the rules of the machine's time zone. Its target ends with the name of the time zone.
const LINK: &str = "/etc/localtime";
/// The file with only the name, on Debian systems.
const NAME: &str = "/etc/timezone";
/// Directory of all rules.
const RULES: &str = "zoneinfo/";

/// The machine's settings of the time zone, not validated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    /// The variable `TZ`.
    variable: Option<String>,
    /// The system's setting.
    system: Option<String>,
}

impl Machine {
    /// Reads the environment and the system's setting.
    #[must_use]
    pub fn look() -> Self {
        let link = std::fs::read_link(LINK).ok();
        let written = std::fs::read_to_string(NAME).ok();
        Self::of(env_lookup("TZ").as_deref(), link.as_deref(), written.as_deref())
    }

    /// The effective time zone: the agent's, else the configured one, else the machine's.
    #[must_use]
    pub fn zone(&self, agent: Option<&str>, file: Option<&str>) -> Chosen {
        resolve(Candidates { agent, file, variable: self.variable.as_deref(), system: self.system.as_deref() })
    }

    /// Rejected settings that are not time zones, for people; usually none.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let Chosen { zone, source, refused } = self.zone(None, None);
        let (from, error) = refused.first()?;
        Some(format!("{from}: {error}; {zone} is used instead ({source})"))
    }

    fn of(variable: Option<&str>, link: Option<&Path>, written: Option<&str>) -> Self {
        // POSIX lets a `:` stand before a name, and a name may be a path.
        let variable = variable.map(|text| text.strip_prefix(':').unwrap_or(text)).map(named);
        let variable = variable.filter(|text| Path::new(text) != Path::new(LINK));
        let linked = link.and_then(Path::to_str).filter(|target| target.contains(RULES)).map(named);
        let written = || written.and_then(|text| text.lines().map(str::trim).find(|line| !line.is_empty()));
        let system = linked.or_else(written);
        Self { variable: variable.map(str::to_owned), system: system.map(str::to_owned) }
    }
}

/// Extracts the name from a path of rules; other texts are unchanged.
fn named(text: &str) -> &str {
    let name = text.rsplit_once(RULES).map_or(text, |(_, name)| name);
    let variants = [OsStr::new("posix"), OsStr::new("right")];
    match name.split_once('/') {
        Some((first, rest)) if variants.contains(&OsStr::new(first)) => rest,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_asked_in_order() {
        let berlin = Some("/usr/share/zoneinfo/Europe/Berlin");
        for (variable, link, written, expected, complaint) in [
            (Some("Asia/Tokyo"), berlin, Some("UTC\n"), "Asia/Tokyo", false),
            (Some(":Asia/Tokyo"), berlin, None, "Asia/Tokyo", false),
            (Some(":/usr/share/zoneinfo/Asia/Tokyo"), berlin, None, "Asia/Tokyo", false),
            (Some(":/etc/localtime"), berlin, None, "Europe/Berlin", false),
            (Some(""), berlin, None, "Europe/Berlin", false),
            (Some("IST-2"), berlin, None, "Europe/Berlin", true),
            (None, Some("../usr/share/zoneinfo/posix/Asia/Tokyo"), None, "Asia/Tokyo", false),
            (None, Some("/var/db/timezone/zoneinfo/Asia/Tokyo"), None, "Asia/Tokyo", false),
            (None, Some("/etc/my-rules"), Some("\nAsia/Kolkata\n"), "Asia/Kolkata", false),
            (None, None, Some("Asia/Kolkata"), "Asia/Kolkata", false),
            (None, None, None, "UTC", false),
            (Some("x"), None, Some("y"), "UTC", true),
        ] {
            let machine = Machine::of(variable, link.map(Path::new), written);
            assert_eq!(machine.zone(None, None).zone.name(), expected, "{variable:?} {link:?} {written:?}");
            assert_eq!(machine.complaint().is_some(), complaint, "{:?}", machine.complaint());
            assert_eq!(machine.zone(Some("GMT"), Some("EST")).zone.name(), "GMT");
            assert_eq!(machine.zone(None, Some("EST")).zone.name(), "EST");
        }
        let text = Machine::of(Some("IST-2"), None, None).complaint().unwrap();
        assert!(
            text.starts_with("TZ: `IST-2` is not a time zone")
                && text.ends_with("UTC is used instead (no other setting was found)"),
            "{text}"
        );
    }
}
