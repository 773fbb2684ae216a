//! `hearth time`: shows an instant in UTC and in a time zone.

use clap::{Args, Subcommand};

use super::{Done, print, zone};
use crate::time::local;
use crate::time::zone::Zone;

#[derive(Debug, Subcommand)]
pub(super) enum TimeCommand {
    /// Show the instant that a written time means
    Parse(ParseArgs),
}

#[derive(Debug, Args)]
pub(super) struct ParseArgs {
    /// Local time like 2026-01-15T09:00 or 2026-01-15, or a time with its offset like 2026-01-15T09:00:00Z
    #[arg(value_name = "TEXT", value_parser = zone::time)]
    text: String,
    /// The zone of local times, like Europe/Berlin or +02:00 [default: $TZ, else the machine's]
    #[arg(long, value_name = "ZONE", value_parser = Zone::parse, allow_hyphen_values = true)]
    tz: Option<Zone>,
}

/// Shows an instant.
pub(super) fn time(command: &TimeCommand, json: bool) -> Done {
    let TimeCommand::Parse(ParseArgs { text, tz }) = command;
    let zone = zone::or_the_machines(tz.as_ref());
    let at = local::instant(text, &zone)?;
    let shown = local::show(at, &zone);
    if json {
        return print::json(&serde_json::json!({ "utc": at.to_string(), "local": shown, "zone": zone.name() }));
    }
    print::table(&["LOCAL TIME", "ZONE", "UTC"], vec![vec![shown, zone.to_string(), at.to_string()]])
}
