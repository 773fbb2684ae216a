//! Rows about the store itself: its identity, and the counters that give out ids.

use serde::{Deserialize, Serialize};

use super::error::Result;
use super::schema::Tables;
use super::text_key::Text;
use super::{Read, Write};
use crate::model::id::Counted;

/// Identity of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Format of the store as a whole: which tables there are and how their keys lie.
    pub format: u32,
    /// Random name of this installation; labels what it starts on the machine.
    pub install: u64,
    /// Starts of the daemon so far.
    pub runs: u64,
}

/// Last number that was given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Number(pub u64);

impl Tables {
    /// Gives out the next id of a kind. Numbers begin with 1 and are never used again.
    ///
    /// # Errors
    /// Those of reading and writing the counter.
    pub fn allocate<I: Counted>(&self, txn: &mut Write<'_>) -> Result<I> {
        let key = Text::from(I::COUNTER);
        let next = |last: Option<Number>| Number(last.map_or(0, |Number(last)| last).saturating_add(1));
        self.counters.upsert(txn, &key, next).map(|Number(number)| I::from_number(number))
    }

    /// Last number given to an id of a kind; 0 when there was none.
    ///
    /// # Errors
    /// Those of reading the counter.
    pub fn counter<I: Counted>(&self, txn: &Read<'_>) -> Result<u64> {
        Ok(self.counters.get(txn, &Text::from(I::COUNTER))?.map_or(0, |Number(number)| number))
    }
}
