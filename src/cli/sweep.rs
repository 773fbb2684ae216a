//! `hearth sweep --once`: runs one sweep, at the current or a simulated time.

use clap::Args;

use super::offline::{Host, host, mismatch};
use super::{Done, Failure, print, time_args};
use crate::config::Paths;
use crate::model::Timestamp;
use crate::model::input::Input;
use crate::model::report::{Caused, Reply};
use crate::socket::command::Answer;
use crate::socket::protocol::Request;
use crate::state::Reader;

#[derive(Debug, Args)]
pub(super) struct SweepArgs {
    /// Do it one time (required)
    #[arg(long, required = true)]
    once: bool,
    /// Act as if it were this time; while a daemon runs, only with --dry-run
    #[arg(long, value_name = "TIME", value_parser = time_args::parse_time)]
    at: Option<Timestamp>,
    /// Only show what would happen
    #[arg(long)]
    dry_run: bool,
}

/// Runs a sweep and prints its effects.
pub(super) fn sweep(paths: &Paths, args: &SweepArgs, json: bool) -> Done {
    Reader::open(paths.data())?; // there is nothing to look at without a store, so none is made
    let effects = match host(paths)? {
        Host::Daemon(mut client) => {
            let at = args.at.map(Timestamp::millis);
            match client.answer(&Request::Sweep { at, dry_run: args.dry_run })? {
                Answer::Swept(effects) => effects,
                other => return Err(mismatch(&other)),
            }
        }
        Host::Store(local) => match local.submit_at(Input::Sweep(Vec::new()), args.dry_run, args.at)? {
            Reply::Swept(mut effects) => {
                // A daemon's own threads do this.
                let removed = if args.dry_run { 0 } else { local.tidy(args.at)? };
                let about = format!("{removed} unused files");
                effects.extend((removed > 0).then(|| Caused { what: "removed".into(), about }));
                effects
            }
            other => return Err(Failure::Failed(other.unexpected())),
        },
    };
    if json {
        return print::json(&serde_json::json!({ "effects": effects }));
    }
    if effects.is_empty() {
        return print::line("nothing is due");
    }
    effects.iter().try_for_each(|one| print::line(&format!("{:9} {}", one.what, one.about)))
}
