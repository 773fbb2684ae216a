//! Messages that the daemon put off: what follows when they are stored.

use crate::api::Trouble;
use crate::inbox::{Inbox, Over};
use crate::signs::Sign;

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
