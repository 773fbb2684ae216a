//! Encrypted messages that cannot be read yet: they wait in the database until their keys come, or until the owner agrees
//! to the new keys of their sender.

use hearth_bridge::program::state::seconds;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::text;
use crate::keys::{Kind, Result, Table, key};

/// Messages that may wait; more are reported at once.
const MOST: usize = 1_000;
/// Seconds for which a message is kept whose sender has other keys.
const HELD: i64 = 7 * 24 * 3_600;

/// A message that waits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Parked {
    pub(crate) room: String,
    pub(crate) event: Value,
    /// Since when, in seconds since 1970.
    pub(crate) since: i64,
    /// Whether the owner has to agree.
    pub(crate) is_held: bool,
}

impl Parked {
    pub(crate) fn id(&self) -> &str {
        text(&self.event, "/event_id").unwrap_or_default()
    }

    fn place(&self) -> Vec<u8> {
        key(Kind::Parked, &[&self.room, self.id()])
    }

    /// Whether it has waited long enough.
    pub(crate) fn is_over(&self, patience: i64) -> bool {
        seconds().saturating_sub(self.since) >= if self.is_held { HELD } else { patience }
    }
}

/// All of them.
pub(crate) struct ParkedMessages {
    table: Table,
    all: Vec<Parked>,
}

impl ParkedMessages {
    pub(crate) fn open(table: Table) -> Result<Self> {
        let mut all: Vec<Parked> = table.all(&key(Kind::Parked, &[]))?;
        all.sort_by_key(|parked| crate::event::at(&parked.event));
        Ok(Self { table, all })
    }

    pub(crate) fn all(&self) -> Vec<Parked> {
        self.all.clone()
    }

    /// Keeps a message; `false` if there are too many.
    pub(crate) fn park(&mut self, parked: Parked) -> Result<bool> {
        if self.all.iter().any(|other| other.room == parked.room && other.id() == parked.id()) {
            return Ok(true);
        }
        if self.all.len() >= MOST {
            return Ok(false);
        }
        self.table.write(|batch| batch.put(&parked.place(), &parked))?;
        self.all.push(parked);
        Ok(true)
    }

    pub(crate) fn remove(&mut self, room: &str, id: &str) -> Result<()> {
        let is_it = |parked: &Parked| parked.room == room && parked.id() == id;
        if self.all.iter().any(is_it) {
            self.table.write(|batch| batch.delete(&key(Kind::Parked, &[room, id])))?;
            self.all.retain(|parked| !is_it(parked));
        }
        Ok(())
    }
}
