//! From the format of an older store to this one's, in steps that are never changed once they are released.

use super::Write;
use super::error::Result;
use super::meta::Meta;
use super::schema::Tables;

/// Format of the stores that this program writes: which tables there are, how keys lie, what the rows of one table say
/// about those of another. What a record looks like is its own version's business.
///
/// * 1: the first one. Not frozen yet: until the file contracts are complete, a store of an earlier commit may be
///   unreadable.
pub const FORMAT: u32 = 1;

/// One step: makes a store of format `to` out of one of format `to - 1`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// The format afterwards.
    pub(super) to: u32,
    /// The work; it runs in the transaction that also writes the new format.
    pub(super) run: fn(&Tables, &mut Write<'_>) -> Result<()>,
}

/// All steps in order.
pub(super) const STEPS: &[Step] = &[];

/// Gives a new store its identity, or an old one the format `to`. Returns the identity row.
pub(super) fn migrate(db: &Tables, txn: &mut Write<'_>, install: u64, steps: &[Step], to: u32) -> Result<Meta> {
    let Some(mut meta) = db.meta.get(txn, &())? else {
        let meta = Meta { format: to, install, runs: 0 };
        db.meta.put(txn, &(), &meta)?;
        return Ok(meta);
    };
    if meta.format == to {
        return Ok(meta);
    }
    for step in steps.iter().filter(|step| step.to > meta.format) {
        (step.run)(db, txn)?;
    }
    meta.format = to;
    db.meta.put(txn, &(), &meta)?;
    Ok(meta)
}
