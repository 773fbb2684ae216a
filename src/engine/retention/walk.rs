//! How far the removal of one kind of rows has come, from sweep to sweep.

use crate::engine::{Cx, Result};
use crate::state::{Number, Text, Write};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Whether a walk begins again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// What was passed over is left for another walk.
    Never,
    /// What was passed over is looked at every day.
    Daily,
}

/// A walk over a table in the order of its ids, continued by every sweep.
pub(super) struct Walk {
    key: Text,
    day: Option<(Text, u64)>,
    /// What is in the table; none if it has to be written in any case.
    noted: Option<u64>,
    at: u64,
    looked: usize,
}

impl Walk {
    /// Goes on where the last sweep stopped.
    pub(super) fn resume(cx: &Cx<'_>, txn: &Write<'_>, name: &str, again: Again) -> Result<Self> {
        let key = Text::new(name)?;
        let noted = cx.db.swept.get(txn, &key)?.map_or(0, |Number(at)| at);
        let mut walk = Self { key, day: None, noted: Some(noted), at: noted, looked: 0 };
        if again == Again::Daily {
            let today = u64::try_from(cx.now.wall.millis().div_euclid(DAY_MS)).unwrap_or(0);
            let key = Text::new(format!("{name}_day"))?;
            if cx.db.swept.get(txn, &key)?.map_or(0, |Number(day)| day) != today && noted > 0 {
                (walk.at, walk.noted) = (0, None);
            }
            walk.day = Some((key, today));
        }
        Ok(walk)
    }

    /// The next row, as long as not too many were looked at.
    pub(super) fn next<T>(&mut self, max: usize, find: impl FnOnce(u64) -> Result<Option<T>>) -> Result<Option<T>> {
        if self.looked >= max {
            return Ok(None);
        }
        self.looked += 1;
        find(self.at)
    }

    /// Leaves a row where it is.
    pub(super) fn pass(&mut self, id: u64) {
        self.at = id;
    }

    /// Notes how far it came, if that changed.
    pub(super) fn note(self, cx: &Cx<'_>, txn: &mut Write<'_>) -> Result<()> {
        if self.noted == Some(self.at) {
            return Ok(());
        }
        if let Some((key, today)) = &self.day {
            cx.db.swept.put(txn, key, &Number(*today))?;
        }
        cx.db.swept.put(txn, &self.key, &Number(self.at))
    }
}
