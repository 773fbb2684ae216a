//! Checks of the channels.

use std::collections::BTreeMap;

use super::{Check, CheckStatus, bad, ok};
use crate::channel::terminal;
use crate::cli::configuration::Configuration;
use crate::cli::{channels as networks, labels};
use crate::model::address::ChannelName;
use crate::model::channel::ChannelInstance;
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Reader};

/// Checks each configured channel. Without a reachable daemon, which another check reports, the channel's state is not
/// checked.
pub(super) fn channels(known: &Configuration, daemon: Option<&DaemonStatus>) -> Vec<Check> {
    let look = |channel: &ChannelInstance| match networks::trouble(channel, daemon) {
        Some((found, mend)) => bad("channel", CheckStatus::Warn, found, mend),
        None if daemon.is_none() => ok("channel", format!("{} connects when a daemon runs", channel.name)),
        None => ok("channel", format!("{} is {}", channel.name, networks::shape(channel, daemon).words())),
    };
    known.channels.iter().map(look).collect()
}

/// Reports messages that wait for channels that are not configured.
pub(super) fn unconfigured(reader: &Reader, known: &Configuration) -> Result<Vec<Check>, state::Error> {
    let mut waiting: BTreeMap<ChannelName, u64> = BTreeMap::new();
    let there = |name: &ChannelName| {
        name.as_str() == terminal::NAME || known.channels.iter().any(|channel| channel.name == *name)
    };
    reader.read(|db, txn| {
        for row in db.outgoing_queues.iter(txn)? {
            let (key, ()) = row?;
            let to = db.outbound.require(txn, &key.outbound)?.to;
            if let Some(to) = to.filter(|to| !there(&to.channel)) {
                *waiting.entry(to.channel).or_insert(0) += 1;
            }
        }
        Ok::<_, state::Error>(())
    })?;
    let check = |(channel, count): (ChannelName, u64)| {
        let messages = labels::count(count, "message waits", "messages wait");
        let found = format!("{messages} for the channel {channel}, which is not configured");
        let mend = format!("add [channels.{channel}] to hearth.toml and apply it; messages fail after a week");
        bad("channel", CheckStatus::Warn, found, mend)
    };
    Ok(waiting.into_iter().map(check).collect())
}
