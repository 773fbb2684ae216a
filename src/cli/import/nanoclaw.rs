//! `hearth import nanoclaw PATH`.
//!
//! The import uses the same inputs as other commands, in atomic steps. An interrupted import can be repeated and skips
//! completed steps. Existing data is never changed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::{Done, Failure, print};
use crate::config::Paths;
use crate::contracts::nanoclaw::{self, Item, Kind, Outcome, Wishes};
use crate::engine::pattern;
use crate::model::entity::UnknownSenders;
use crate::time::cron::Cron;
use crate::time::every::Every;
use crate::time::local;
use crate::time::zone::Zone;

mod grants;
mod here;
mod report;
mod take;

#[derive(Debug, Args)]
pub(in crate::cli) struct NanoclawArgs {
    /// The installation: the directory with data/v2.db, or of version 1 with store/messages.db
    path: PathBuf,
    /// Only show what would be imported
    #[arg(long)]
    dry_run: bool,
    /// The rule for strangers in chats of version 1, which had none
    #[arg(long, value_name = "RULE", value_enum, default_value_t = UnknownSendersArg::RequestApproval)]
    unknown_senders: UnknownSendersArg,
    /// List everything, including what was imported or unchanged without a remark
    #[arg(long)]
    all: bool,
}

/// The words of `hearth.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UnknownSendersArg {
    #[value(name = "strict")]
    Strict,
    #[value(name = "request_approval")]
    RequestApproval,
    #[value(name = "public")]
    Public,
}

impl From<UnknownSendersArg> for UnknownSenders {
    fn from(rule: UnknownSendersArg) -> Self {
        match rule {
            UnknownSendersArg::Strict => Self::Strict,
            UnknownSendersArg::RequestApproval => Self::RequestApproval,
            UnknownSendersArg::Public => Self::Public,
        }
    }
}

/// Imports an installation, or reports what an import would do.
pub(in crate::cli) fn nanoclaw(paths: &Paths, args: &NanoclawArgs, json: bool) -> Done {
    let wishes = Wishes {
        strangers: args.unknown_senders.into(),
        pattern: &pattern::check,
        recurrence: &check_recurrence,
        time: &|text| local::instant(text, &Zone::utc()).map(drop).map_err(|error| error.to_string()),
    };
    let found = nanoclaw::read(&args.path, &wishes)?;
    let mut items =
        if args.dry_run { take::rehearse(paths, &args.path, &found)? } else { take::take(paths, &args.path, &found)? };
    items.extend(found.items.iter().cloned());
    items.sort_by_key(|item| (item.kind, item.outcome));
    report::print(&report::Source { path: &args.path, found: &found, rehearsal: args.dry_run }, &items, args.all, json)
}

/// Checks a recurrence in the same way as tasks: text that begins with a digit and has no spaces is an interval.
fn check_recurrence(text: &str) -> Result<(), String> {
    let bare = text.trim();
    let interval = bare.starts_with(|c: char| c.is_ascii_digit()) && !bare.contains(char::is_whitespace);
    if interval {
        return Every::parse(bare).map(drop).map_err(|error| error.to_string());
    }
    Cron::parse(bare).map(drop).map_err(|error| error.to_string())
}

/// Counts items by kind and outcome.
fn counts(items: &[Item]) -> BTreeMap<Kind, BTreeMap<Outcome, u64>> {
    let mut counts: BTreeMap<Kind, BTreeMap<Outcome, u64>> = BTreeMap::new();
    for item in items {
        *counts.entry(item.kind).or_default().entry(item.outcome).or_default() += item.count;
    }
    counts
}

/// The message for a failure that stops the import.
fn stopped(what: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Failed(why) | Failure::Changed(why) | Failure::Store(_, why) => {
            print::warning("imported data is kept; repeat the command to continue");
            Failure::Failed(format!("{what}: {why}"))
        }
        other => other,
    }
}
