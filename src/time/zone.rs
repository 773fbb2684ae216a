//! Decides which time zone applies.

use std::fmt;

pub use hearth_zone::{BadZone, Zone};

/// Source of a time zone, in order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The agent's own.
    Agent,
    /// The one of the installation, from `hearth.toml`.
    File,
    /// The variable `TZ` of the daemon.
    Variable,
    /// The machine's.
    System,
    /// None of the others was set.
    Default,
}

/// Candidates for the time zone, as text. Missing and empty ones are ignored.
#[derive(Debug, Clone, Copy, Default)]
pub struct Candidates<'a> {
    /// The agent's own.
    pub agent: Option<&'a str>,
    /// The one of the installation.
    pub file: Option<&'a str>,
    /// The variable `TZ`.
    pub variable: Option<&'a str>,
    /// The machine's.
    pub system: Option<&'a str>,
}

/// The chosen time zone, and the candidates that were rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub zone: Zone,
    /// Where it came from.
    pub source: Source,
    /// Candidates before it that are not valid zones.
    pub refused: Vec<(Source, BadZone)>,
}

/// The first candidate that is a zone; UTC if none is.
#[must_use]
pub fn resolve(candidates: Candidates<'_>) -> Chosen {
    let Candidates { agent, file, variable, system } = candidates;
    let mut refused = Vec::new();
    for (source, text) in
        [(Source::Agent, agent), (Source::File, file), (Source::Variable, variable), (Source::System, system)]
    {
        let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
        match Zone::parse(text) {
            Ok(zone) => return Chosen { zone, source, refused },
            Err(error) => refused.push((source, error)),
        }
    }
    Chosen { zone: Zone::utc(), source: Source::Default, refused }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "the agent",
            Self::File => "the configuration",
            Self::Variable => "TZ",
            Self::System => "the machine",
            Self::Default => "no other setting was found",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_zone_of_the_order_holds() {
        let all = ["Asia/Tokyo", "Europe/Berlin", "America/New_York", "Asia/Kolkata"];
        for (from, to, expected, source, refused) in [
            (0, "Asia/Tokyo", "Asia/Tokyo", "the agent", 0),
            (1, "Europe/Berlin", "Europe/Berlin", "the configuration", 0),
            (2, "America/New_York", "America/New_York", "TZ", 0),
            (2, "nowhere", "Asia/Kolkata", "the machine", 1),
            (2, "", "Asia/Kolkata", "the machine", 0),
            (3, "IST-2", "UTC", "no other setting was found", 1),
            (3, "asia/kolkata", "asia/kolkata", "the machine", 0),
        ] {
            let at = |index: usize| match index.cmp(&from) {
                std::cmp::Ordering::Less => None,
                std::cmp::Ordering::Equal => Some(to),
                std::cmp::Ordering::Greater => Some(all[index]),
            };
            let chosen = resolve(Candidates { agent: at(0), file: at(1), variable: at(2), system: at(3) });
            let said = chosen.source.to_string();
            assert_eq!((chosen.zone.name(), &*said, chosen.refused.len()), (expected, source, refused), "{to}");
        }
    }
}
