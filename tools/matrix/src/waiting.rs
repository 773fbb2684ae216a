//! Messages that the daemon put off: what follows when they are stored. And those that it has answered, which do not come again.

use std::collections::{BTreeSet, VecDeque};

use crate::api::Trouble;
use crate::inbox::{Inbox, Over};
use crate::signs::Sign;

/// Messages of which is remembered that they were passed on.
const REMEMBERED: usize = 10_000;

/// The ids of the last messages that were passed on since the start. After a fault, and in a search, messages come again: the
/// daemon would recognise those that it has stored, but not those that it has refused.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    ids: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Passed {
    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    pub(crate) fn add(&mut self, id: &str) {
        if !self.ids.insert(id.to_owned()) {
            return;
        }
        self.order.push_back(id.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

/// A message of a person.
pub(crate) struct Seen {
    pub(crate) room: String,
    pub(crate) event: String,
    pub(crate) thread: Option<String>,
}

impl Inbox {
    /// Passes on again what was put off.
    pub(crate) fn again(&mut self) -> Result<(), Over> {
        for ticket in self.hand.again()? {
            if let Some(seen) = self.waits.remove(&ticket) {
                self.finish(seen)?;
            }
        }
        Ok(())
    }

    /// Shows that a message is stored.
    pub(crate) fn finish(&mut self, Seen { room, event, thread }: Seen) -> Result<(), Trouble> {
        self.unpark(&room, &event)?;
        self.signs.show(Sign::Seen { room, event, thread });
        Ok(())
    }

    /// Whether a message was put off.
    pub(crate) fn is_waiting(&self, room: &str, id: &str) -> bool {
        self.waits.values().any(|seen| seen.room == room && seen.event == id)
    }
}
