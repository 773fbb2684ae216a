//! `hearth sweep --once`: one look at what is due, now or as if it were another time.

use clap::Args;

use super::local::{Host, host, unfit};
use super::{Done, out, since};
use crate::config::Paths;
use crate::model::Timestamp;
use crate::model::input::Input;
use crate::model::report::Reply;
use crate::socket::client::unexpected;
use crate::socket::protocol::{Request, Response};
use crate::socket::shape::{EffectJson, SweptJson};
use crate::state::Reader;

#[derive(Debug, Args)]
pub(super) struct SweepArgs {
    /// Do it one time (required)
    #[arg(long, required = true)]
    once: bool,
    /// Act as if it were this time; while a daemon runs, only with --dry-run
    #[arg(long, value_name = "TIME", value_parser = since::parse_time)]
    at: Option<Timestamp>,
    /// Only show what would happen
    #[arg(long)]
    dry_run: bool,
}

/// Sweeps and says what that causes.
pub(super) fn sweep(paths: &Paths, args: &SweepArgs, json: bool) -> Done {
    Reader::open(paths.data())?; // there is nothing to look at without a store, so none is made
    let swept = match host(paths, args.dry_run)? {
        Host::Daemon(mut client) => {
            let at = args.at.map(Timestamp::millis);
            match client.ask(&Request::Sweep { at, dry_run: args.dry_run })? {
                Response::Swept(swept) => swept,
                other => return Err(unexpected(other).into()),
            }
        }
        Host::Store(local) => match local.submit_at(Input::Sweep(Vec::new()), args.dry_run, args.at)? {
            Reply::Swept(caused) => {
                let mut swept = SweptJson::from(caused.as_slice());
                // With a daemon its own threads do this.
                let removed = if args.dry_run { 0 } else { local.tidy(args.at)? };
                let about = format!("{removed} files that nobody needs any more");
                swept.effects.extend((removed > 0).then(|| EffectJson { effect: "removed".to_owned(), about }));
                swept
            }
            other => return Err(unfit(other)),
        },
    };
    if json {
        return out::json(&swept);
    }
    if swept.effects.is_empty() {
        return out::line("nothing is due");
    }
    swept.effects.iter().try_for_each(|one| out::line(&format!("{:9} {}", one.effect, one.about)))
}
