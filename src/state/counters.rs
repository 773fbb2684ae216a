//! Allocates ids, and counts the messages that wait for an agent.

use super::error::Result;
use super::meta::{Meta, Number};
use super::schema::Tables;
use super::text_key::Text;
use super::{Read, Write};
use crate::model::id::{AgentId, Counted, Counter, OutboundId, OutgoingId};

/// Kinds of ids that people type as answers, and that agents remember.
const WRITTEN_DOWN: [Counter; 4] = [Counter::ApprovalId, Counter::QuestionId, Counter::SkipId, Counter::TaskId];

/// A multiple of a thousand above a number, one of ten thousand.
const fn skip_ahead(last: u64, entropy: u64) -> u64 {
    let thousands = (last / 1_000).saturating_add(1 + entropy % 10_000);
    thousands.saturating_mul(1_000)
}

impl Tables {
    /// An outgoing id as it is known outside of the store. It never changes.
    ///
    /// # Errors
    /// Those of reading the epochs.
    pub fn outgoing(&self, txn: &Read<'_>, id: OutboundId) -> Result<OutgoingId> {
        Ok(self.meta.require(txn, &())?.outgoing(id))
    }

    /// Begins an epoch in a copied store, because the original may have allocated further ids meanwhile. Ids that leave
    /// the store must not repeat. Outgoing ids get another prefix. Ids that people and agents write down continue at a
    /// higher number, so that "ap7 1" never decides something that its author has not seen. Assigns a new installation
    /// id if one is given. Returns the identity row.
    pub(super) fn begin_epoch(&self, txn: &mut Write<'_>, entropy: u64, install: Option<u64>) -> Result<Meta> {
        let mut meta = self.meta.require(txn, &())?;
        meta.begin_epoch(self.counter::<OutboundId>(txn)?, entropy);
        meta.install = install.unwrap_or(meta.install);
        self.meta.put(txn, &(), &meta)?;
        for counter in WRITTEN_DOWN {
            let key = Text::from(counter);
            let last = self.counters.get(txn, &key)?.map_or(0, |Number(number)| number);
            self.counters.put(txn, &key, &Number(skip_ahead(last, entropy)))?;
        }
        Ok(meta)
    }

    /// Allocates the next id of a kind. Numbers start at 1 and are never reused.
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

    /// Number of pending or claimed triggering messages of an agent.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn waiting(&self, txn: &Write<'_>, agent: AgentId) -> Result<u64> {
        match txn.backlog(agent) {
            Some(count) => Ok(count),
            None => Ok(self.backlog.get(txn, &agent)?.unwrap_or(0)),
        }
    }

    /// Updates that number. No row means zero.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn change_waiting(&self, txn: &mut Write<'_>, agent: AgentId, change: impl FnOnce(u64) -> u64) -> Result<()> {
        let count = change(self.waiting(txn, agent)?);
        txn.set_backlog(agent, count);
        Ok(())
    }

    /// Last number allocated for a kind of id before this transaction; 0 if there is none.
    ///
    /// # Errors
    /// Those of reading the counter.
    pub fn counter<I: Counted>(&self, txn: &Read<'_>) -> Result<u64> {
        Ok(self.counters.get(txn, &Text::from(I::COUNTER))?.map_or(0, |Number(number)| number))
    }

    /// Writes the counters and backlogs that a transaction keeps in memory, and commits it.
    pub(super) fn commit(&self, mut txn: Write<'_>) -> Result<()> {
        let held = txn.take_held();
        for (counter, number) in Counter::ALL.iter().zip(held.counters) {
            if let Some(number) = number {
                self.counters.replace(&mut txn, &Text::from(*counter), &Number(number))?;
            }
        }
        for (agent, count) in held.backlog {
            match count {
                0 => drop(self.backlog.delete(&mut txn, &agent)?),
                count => self.backlog.put(&mut txn, &agent, &count)?,
            }
        }
        txn.finish()
    }
}
