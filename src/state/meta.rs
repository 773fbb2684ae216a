//! Records about the store itself: its identity, and the last number of a counter.

use serde::{Deserialize, Serialize};

use crate::model::id::{OutboundId, OutgoingId};

/// Identity of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Format of the store as a whole: its tables and the layout of their keys.
    pub format: u32,
    /// Random id of this installation; labels what it starts on this machine.
    pub install: u64,
    /// Starts of the daemon so far.
    pub runs: u64,
    /// Epochs of outgoing ids, in ascending order of their first numbers. Only ever appended to.
    pub epochs: Vec<Epoch>,
}

/// A range of outgoing ids that have the same random prefix outside of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// The first number of the range. It ends where the next one begins.
    pub from: u64,
    /// The prefix.
    pub random: u32,
}

/// Last allocated number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Number(pub u64);

impl Meta {
    /// Begins an epoch: outgoing ids after `last` get another prefix. Replaces an epoch in which no id was allocated.
    pub(super) fn begin_epoch(&mut self, last: u64, entropy: u64) {
        let from = last.saturating_add(1);
        let (high, low) = (entropy >> 32, entropy & u64::from(u32::MAX));
        self.epochs.retain(|epoch| epoch.from < from);
        self.epochs.push(Epoch { from, random: u32::try_from(high ^ low).unwrap_or_default() });
    }

    /// An outgoing id as it is known outside of the store.
    #[must_use]
    pub fn outgoing(&self, id: OutboundId) -> OutgoingId {
        let epoch = self.epochs.iter().rev().find(|epoch| epoch.from <= id.number());
        OutgoingId { id, epoch: epoch.map(|epoch| epoch.random) }
    }
}
