//! State of an installation that `hearth status`, its live view and `hearth doctor` share.

use super::channels;
use super::problems::{self, FailedStarts, FrozenAgent, RateLimitedAgent, StateFiles};
use crate::console::Rank;
use crate::model::channel::ChannelInstance;
use crate::socket::protocol::DaemonStatus;
use crate::state::{self, Read, Tables};

/// The data that the three commands report. Reading it costs a few index rows, however large the store is.
pub(super) struct Report {
    pub(super) messages: MessageCounts,
    /// Agents whose provider limits requests or cannot be reached.
    pub(super) held_off: Vec<RateLimitedAgent>,
    pub(super) frozen: Vec<FrozenAgent>,
    /// Sessions with waiting messages whose starts fail.
    pub(super) failed_starts: Vec<FailedStarts>,
    /// Session state files that need attention.
    pub(super) state_files: Vec<StateFiles>,
    pub(super) channels: Vec<ChannelInstance>,
}

/// Messages by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MessageCounts {
    pub(super) due: u64,
    pub(super) claimed: u64,
    pub(super) scheduled: u64,
    pub(super) backing_off: u64,
    /// Outgoing messages that were not sent yet.
    pub(super) unsent: u64,
}

impl Report {
    /// Reads the report.
    pub(super) fn read(db: &Tables, txn: &Read<'_>) -> Result<Self, state::Error> {
        Ok(Self {
            messages: MessageCounts {
                due: db.ready_messages.len(txn)?,
                claimed: db.claimed_messages.len(txn)?,
                scheduled: db.scheduled_messages.len(txn)?,
                backing_off: db.messages_in_backoff.len(txn)?,
                unsent: db.outgoing_queues.len(txn)?.saturating_add(db.scheduled_outbound.len(txn)?),
            },
            held_off: problems::held_off(db, txn)?,
            frozen: problems::frozen(db, txn)?,
            failed_starts: problems::failed_starts(db, txn)?,
            state_files: problems::state_files(db, txn)?,
            channels: db.channels.iter(txn)?.map(|row| row.map(|(_, channel)| channel)).collect::<Result<_, _>>()?,
        })
    }

    /// Warnings about rate limits and failed starts of agents that a person sees.
    pub(super) fn agent_warnings(&self, rank: &Rank) -> impl Iterator<Item = String> {
        let frozen = self.frozen.iter().filter(|one| rank.sees(&one.agent)).map(FrozenAgent::words);
        let limited = self.held_off.iter().filter(|one| rank.sees(&one.agent)).map(RateLimitedAgent::words);
        let failed = self.failed_starts.iter().filter(|one| rank.sees(&one.agent)).map(FailedStarts::words);
        frozen.chain(limited).chain(failed)
    }

    /// Warnings about session state files of agents that a person sees.
    pub(super) fn file_warnings(&self, rank: &Rank) -> impl Iterator<Item = String> {
        self.state_files.iter().filter(|one| rank.sees(&one.agent)).map(|one| one.found.clone())
    }

    /// Warnings about channels.
    pub(super) fn channel_warnings(&self, daemon: Option<&DaemonStatus>) -> impl Iterator<Item = String> {
        let found = self.channels.iter().filter_map(move |channel| channels::trouble(channel, daemon));
        found.map(|(what, _)| format!("channel {what}"))
    }
}
