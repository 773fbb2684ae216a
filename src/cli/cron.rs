//! `hearth cron`: the next runs of a cron expression.

use clap::{Args, Subcommand};

use super::{Done, print, zone};
use crate::clock;
use crate::time::cron::Cron;
use crate::time::local;
use crate::time::zone::Zone;

#[derive(Debug, Subcommand)]
pub(super) enum CronCommand {
    /// Show when an expression runs next
    Next(NextArgs),
}

#[derive(Debug, Args)]
pub(super) struct NextArgs {
    /// Minute, hour, day of month, month and day of week, with or without seconds in front; or @daily and the like
    #[arg(value_name = "EXPR", value_parser = Cron::parse)]
    cron: Cron,
    /// The zone it runs in, like Europe/Berlin or +02:00 [default: $TZ, else the machine's]
    #[arg(long, value_name = "ZONE", value_parser = Zone::parse, allow_hyphen_values = true)]
    tz: Option<Zone>,
    /// Runs after this time, local or with its offset [default: now]
    #[arg(long, value_name = "TIME", value_parser = zone::time)]
    after: Option<String>,
    /// Show this many runs
    #[arg(short = 'n', value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    number: u16,
}

pub(super) fn cron(command: &CronCommand, json: bool) -> Done {
    let CronCommand::Next(NextArgs { cron, tz, after, number }) = command;
    let zone = zone::or_the_machines(tz.as_ref());
    let after = after.as_deref().map(|text| local::instant(text, &zone)).transpose()?.unwrap_or_else(clock::wall);
    let next = cron.iter(after, &zone).take(usize::from(*number));
    if json {
        let next: Vec<String> = next.map(|at| at.to_string()).collect();
        return print::json(&serde_json::json!({ "next": next }));
    }
    let row = |at| vec![local::show(at, &zone), zone.to_string(), at.to_string()];
    let rows: Vec<Vec<String>> = next.map(row).collect();
    if rows.is_empty() {
        return print::line("no more runs before the year 2101");
    }
    print::table(&["LOCAL TIME", "ZONE", "UTC"], rows)
}
