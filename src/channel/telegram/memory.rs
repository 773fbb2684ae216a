//! In-memory state of deliveries, to avoid sending anything twice without need.
//!
//! A crash loses it. After that, all parts of an interrupted multi-part message are sent again, the first one marked,
//! and an edit changes the parts that the message had when it was sent: parts that an edit has added stay as they are.

use std::collections::{BTreeMap, VecDeque};

use super::plan::{self, SendPlan};
use crate::model::address::ForeignId;
use crate::model::id::OutboundId;

/// Maximum number of entries of each kind; the oldest are dropped first.
const MAX: usize = 1_000;

/// An interrupted delivery.
#[derive(Debug, Clone)]
pub(super) struct Stopped {
    /// The remaining steps.
    pub(super) plan: SendPlan,
    /// Whether the first remaining call may have been made.
    pub(super) doubtful: bool,
}

/// What is remembered.
#[derive(Default)]
pub(super) struct Memory {
    stopped: BTreeMap<OutboundId, Stopped>,
    done: BTreeMap<OutboundId, Option<ForeignId>>,
    parts: VecDeque<(ForeignId, Vec<i64>)>,
    moved: BTreeMap<ForeignId, i64>,
}

impl Memory {
    /// Records an interrupted delivery.
    pub(super) fn stop(&mut self, id: OutboundId, stopped: Stopped) {
        bounded(&mut self.stopped);
        self.stopped.insert(id, stopped);
    }

    /// Removes and returns an interrupted delivery.
    pub(super) fn go_on(&mut self, id: OutboundId) -> Option<Stopped> {
        self.stopped.remove(&id)
    }

    /// Records a completed delivery: its id at the platform, and the messages it consists of.
    pub(super) fn done(&mut self, id: OutboundId, chat: &ForeignId, message: Option<ForeignId>, parts: &[i64]) {
        bounded(&mut self.done);
        self.done.insert(id, message);
        let (first, before) = (parts.first(), self.parts.len());
        self.parts.retain(|(place, known)| place != chat || known.first() != first);
        if parts.len() > 1 || self.parts.len() < before {
            self.parts.truncate(MAX - 1);
            self.parts.push_front((chat.clone(), parts.to_vec()));
        }
    }

    /// The platform's id of a completed delivery.
    pub(super) fn made(&self, id: OutboundId) -> Option<Option<ForeignId>> {
        self.done.get(&id).cloned()
    }

    /// The messages that a message consists of, itself first: those of the last edit, or else those of its id.
    pub(super) fn parts(&self, chat: &ForeignId, message: &ForeignId) -> Vec<i64> {
        let sent = plan::messages(message);
        let known = self.parts.iter().find(|(place, parts)| place == chat && parts.first() == sent.first());
        known.map_or(sent, |(_, parts)| parts.clone())
    }

    /// Records a chat's new id.
    pub(super) fn moved(&mut self, chat: &ForeignId, to: i64) {
        bounded(&mut self.moved);
        self.moved.insert(chat.clone(), to);
    }

    /// The new id of a chat.
    pub(super) fn moved_to(&self, chat: &ForeignId) -> Option<i64> {
        self.moved.get(chat).copied()
    }
}

fn bounded<K: Ord, V>(map: &mut BTreeMap<K, V>) {
    while map.len() >= MAX {
        map.pop_first();
    }
}
