//! The position of one retention walk, kept from sweep to sweep.

use crate::Result;
use crate::state::{Number, Text};
use crate::tx::Tx;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Whether a walk starts over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Skipped rows are handled by another walk.
    Never,
    /// Skipped rows are examined again every day.
    Daily,
}

/// A walk over a table in the order of its ids. Every sweep continues it.
pub(crate) struct Walk {
    key: Text,
    day: Option<(Text, u64)>,
    /// The stored position; none if it has to be written in any case.
    noted: Option<u64>,
    at: u64,
    looked: usize,
}

impl Walk {
    /// Continues where the last sweep stopped.
    pub(crate) fn resume(tx: &Tx<'_, '_>, name: &str, again: Pass) -> Result<Self> {
        let key = Text::new(name)?;
        let noted = tx.db.retention_cursors.get(tx, &key)?.map_or(0, |Number(at)| at);
        let mut walk = Self { key, day: None, noted: Some(noted), at: noted, looked: 0 };
        if again == Pass::Daily {
            let today = u64::try_from(tx.now.wall.millis().div_euclid(DAY_MS)).unwrap_or(0);
            let key = Text::new(format!("{name}_day"))?;
            if tx.db.retention_cursors.get(tx, &key)?.map_or(0, |Number(day)| day) != today && noted > 0 {
                (walk.at, walk.noted) = (0, None);
            }
            walk.day = Some((key, today));
        }
        Ok(walk)
    }

    /// The next row, up to a limit per sweep.
    pub(crate) fn next<T>(&mut self, max: usize, find: impl FnOnce(u64) -> Result<Option<T>>) -> Result<Option<T>> {
        if self.looked >= max {
            return Ok(None);
        }
        self.looked += 1;
        find(self.at)
    }

    /// Skips a row.
    pub(crate) fn pass(&mut self, id: u64) {
        self.at = id;
    }

    /// Stores the position if it changed.
    pub(crate) fn note(self, tx: &mut Tx<'_, '_>) -> Result<()> {
        if self.noted == Some(self.at) {
            return Ok(());
        }
        if let Some((key, today)) = &self.day {
            tx.db.retention_cursors.put(tx, key, &Number(*today))?;
        }
        tx.db.retention_cursors.put(tx, &self.key, &Number(self.at))
    }
}
