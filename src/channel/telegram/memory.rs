//! What is remembered of deliveries while the daemon runs, so that nothing is sent twice that need not be.
//!
//! A crash forgets it: of a message in several parts all parts are then sent again, the first one marked; and an edit of a
//! message in several parts changes the first one and sends the others anew.

use std::collections::{BTreeMap, VecDeque};

use super::plan::Plan;
use crate::model::address::ForeignId;
use crate::model::id::OutboundId;

/// Entries of each kind; the oldest go first.
const MAX: usize = 1_000;

/// A delivery that stopped on its way.
#[derive(Debug, Clone)]
pub(super) struct Stopped {
    /// What is left.
    pub(super) plan: Plan,
    /// Whether the first call that is left may have been made.
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
    /// A delivery stopped.
    pub(super) fn stop(&mut self, id: OutboundId, stopped: Stopped) {
        bounded(&mut self.stopped);
        self.stopped.insert(id, stopped);
    }

    /// Where a delivery stopped, once.
    pub(super) fn go_on(&mut self, id: OutboundId) -> Option<Stopped> {
        self.stopped.remove(&id)
    }

    /// A delivery was made: the platform has it under this id, and it consists of these messages.
    pub(super) fn done(&mut self, id: OutboundId, chat: &ForeignId, message: Option<ForeignId>, parts: &[i64]) {
        bounded(&mut self.done);
        self.done.insert(id, message);
        let first = parts.first();
        self.parts.retain(|(place, known)| place != chat || known.first() != first);
        if parts.len() > 1 {
            self.parts.truncate(MAX - 1);
            self.parts.push_front((chat.clone(), parts.to_vec()));
        }
    }

    /// What the platform has of a delivery that was made.
    pub(super) fn made(&self, id: OutboundId) -> Option<Option<ForeignId>> {
        self.done.get(&id).cloned()
    }

    /// The messages of which one consists, itself first; none if it is alone or nothing is known.
    pub(super) fn parts(&self, chat: &ForeignId, message: &ForeignId) -> Vec<i64> {
        let Ok(message) = message.as_str().parse::<i64>() else { return Vec::new() };
        let known = self.parts.iter().find(|(place, parts)| place == chat && parts.first() == Some(&message));
        known.map(|(_, parts)| parts.clone()).unwrap_or_default()
    }

    /// A chat has another id.
    pub(super) fn moved(&mut self, chat: &ForeignId, to: i64) {
        bounded(&mut self.moved);
        self.moved.insert(chat.clone(), to);
    }

    /// The other id of a chat.
    pub(super) fn moved_to(&self, chat: &ForeignId) -> Option<i64> {
        self.moved.get(chat).copied()
    }
}

fn bounded<K: Ord, V>(map: &mut BTreeMap<K, V>) {
    while map.len() >= MAX {
        map.pop_first();
    }
}
