//! From the format of an older store to this one's, in steps that are never changed once they are released.

use super::Write;
use super::error::Result;
use super::meta::Meta;
use super::schema::Tables;

/// Format of the stores that this program writes: which tables there are, how keys lie, what the rows of one table say
/// about those of another. What a record looks like is its own version's business.
///
/// * 1: the first one. It is frozen: a store of it lies among the fixtures, and opens for ever.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::configure::Settings;
    use crate::state::tests::store;
    use crate::state::{Error, Number, Text};

    fn renames(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
        db.counters.put(txn, &Text::new("renamed")?, &Number(2))
    }

    fn needs_the_rename(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
        db.counters.require(txn, &Text::new("renamed")?)?;
        db.settings.put(txn, &(), &Settings { max_containers: Some(3), ..Settings::default() })
    }

    fn fails(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
        renames(db, txn)?;
        db.settings.require(txn, &()).map(|_| ())
    }

    const TO_2: Step = Step { to: 2, run: renames };
    const TO_3: Step = Step { to: 3, run: needs_the_rename };

    #[test]
    fn steps_run_once_and_in_order() {
        let (_dir, store) = store();
        store.begin_run().unwrap();
        let meta = store.write(|db, txn| migrate(db, txn, 9, &[TO_2, TO_3], 3)).unwrap();
        assert_eq!(meta, Meta { format: 3, install: store.install(), runs: 1 });
        assert_eq!(store.read(|db, txn| db.meta.require(txn, &())).unwrap(), meta);
        assert_eq!(store.read(|db, txn| db.settings.require(txn, &())).unwrap().max_containers, Some(3));
        store.write(|db, txn| db.counters.delete(txn, &Text::new("renamed")?)).unwrap();
        store.write(|db, txn| migrate(db, txn, 9, &[TO_2, TO_3], 3)).unwrap();
        assert_eq!(store.read(|db, txn| db.counters.len(txn)).unwrap(), 0, "no step ran again");
    }

    #[test]
    fn a_step_that_fails_leaves_the_old_store() {
        let (_dir, store) = store();
        let failed = store.write(|db, txn| migrate(db, txn, 9, &[Step { to: 2, run: fails }], 2));
        assert!(matches!(failed, Err(Error::Missing { table: "settings", .. })), "{failed:?}");
        let (format, rows) =
            store.read(|db, txn| Ok::<_, Error>((db.meta.require(txn, &())?.format, db.counters.len(txn)?))).unwrap();
        assert_eq!((format, rows), (1, 0));
    }

    /// Formats without a step between them would be skipped silently.
    #[test]
    fn there_is_a_step_to_every_format_after_the_first() {
        let mut formats = STEPS.iter().map(|step| step.to);
        assert!(formats.clone().eq((2..).take(STEPS.len())));
        assert_eq!(formats.next_back().unwrap_or(1), FORMAT);
    }
}
