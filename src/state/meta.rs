//! Rows about the store itself: its identity, and the counters that give out ids.

use serde::{Deserialize, Serialize};

use super::error::Result;
use super::schema::Tables;
use super::text_key::Text;
use super::{Read, Write};
use crate::model::id::{AgentId, Counted};

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
        let last = match txn.given(I::COUNTER) {
            Some(last) => last,
            None => self.counter::<I>(txn)?,
        };
        let number = last.saturating_add(1);
        txn.give(I::COUNTER, number);
        Ok(I::from_number(number))
    }

    /// How many triggering messages of an agent are pending or claimed.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn waiting(&self, txn: &Write<'_>, agent: AgentId) -> Result<u64> {
        match txn.backlog(agent) {
            Some(count) => Ok(count),
            None => Ok(self.backlog.get(txn, &agent)?.unwrap_or(0)),
        }
    }

    /// Changes how many that are; no row is zero.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn change_waiting(&self, txn: &mut Write<'_>, agent: AgentId, change: impl FnOnce(u64) -> u64) -> Result<()> {
        let count = change(self.waiting(txn, agent)?);
        txn.set_backlog(agent, count);
        Ok(())
    }

    /// Last number given to an id of a kind before this transaction; 0 when there was none.
    ///
    /// # Errors
    /// Those of reading the counter.
    pub fn counter<I: Counted>(&self, txn: &Read<'_>) -> Result<u64> {
        Ok(self.counters.get(txn, &Text::from(I::COUNTER))?.map_or(0, |Number(number)| number))
    }
}
