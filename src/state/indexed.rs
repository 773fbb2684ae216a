//! Tables with derived indexes: a write changes a record together with its index rows.
//!
//! The schema declares an index as a function of one record. Writing, checking and rebuilding the index all use that
//! function.

use std::ops::{Deref, RangeBounds};

use super::Write;
use super::envelope::Record;
use super::error::{Result, readable};
use super::key::{KeyPart, encoded};
use super::range::byte_range;
use super::table::{Codec, Index, Plain, Table};
use super::untyped::Untyped;

/// The indexes of a table, as the schema declares them.
pub trait Derive<K, V>: Copy {
    /// Changes the index rows of a record from those of its old value to those of its new value.
    ///
    /// # Errors
    /// Those of writing rows.
    fn change(&self, txn: &mut Write<'_>, key: &K, before: Option<&V>, after: Option<&V>) -> Result<()>;
}

/// A function that a check or a rebuild applies to a derived row: its index, key and value.
pub(super) type Visit<'a> = &'a mut dyn FnMut(&dyn Untyped, &[u8], &[u8]) -> Result<()>;

/// The derived rows themselves, for checks and rebuilds.
pub(super) trait Rederive<K, V>: Derive<K, V> {
    /// Calls `visit` for the index rows of a record.
    fn rows(&self, key: &K, row: &V, visit: Visit<'_>) -> Result<()>;

    /// Visits the indexes.
    fn indexes(&self, visit: &mut dyn FnMut(&dyn Untyped) -> Result<()>) -> Result<()>;
}

/// A visitor of tables that have derived indexes.
pub(super) trait VisitIndexed {
    /// Handles one table.
    fn visit<K: KeyPart, V: Record, D: Rederive<K, V>>(&mut self, table: &Indexed<K, V, D>) -> Result<()>;
}

/// A table of records with indexes. It is read like any other table.
#[derive(Debug)]
pub struct Indexed<K, V, D> {
    rows: Table<K, V>,
    indexes: D,
}

impl<K, V, D: Copy> Clone for Indexed<K, V, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, D: Copy> Copy for Indexed<K, V, D> {}

impl<K, V, D> Deref for Indexed<K, V, D> {
    type Target = Table<K, V>;

    fn deref(&self) -> &Table<K, V> {
        &self.rows
    }
}

impl<K, V, D> Indexed<K, V, D> {
    pub(super) const fn new(rows: Table<K, V>, indexes: D) -> Self {
        Self { rows, indexes }
    }

    /// The table without its indexes. Writing through it damages the store, which tests do on purpose.
    #[must_use]
    pub const fn rows(&self) -> &Table<K, V> {
        &self.rows
    }

    pub(super) const fn indexes(&self) -> &D {
        &self.indexes
    }
}

impl<K: KeyPart, V: Record, D: Derive<K, V>> Indexed<K, V, D> {
    /// Writes a row, new or not.
    ///
    /// # Errors
    /// As [`Table::put`], and those of reading the old row.
    pub fn put(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        let before = self.rows.exchange(txn, key, value)?;
        self.indexes.change(txn, key, before.as_ref(), Some(value))
    }

    /// Writes a new row; fast if it sorts after all others, such as one with a new id.
    ///
    /// # Errors
    /// As [`Table::put`].
    pub fn append(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        self.rows.append(txn, key, value)?;
        self.indexes.change(txn, key, None, Some(value))
    }

    /// Updates a row that other rows refer to. Returns the old and the new row.
    ///
    /// # Errors
    /// As [`Table::update`].
    pub fn update(&self, txn: &mut Write<'_>, key: &K, change: impl FnOnce(&mut V)) -> Result<Updated<V>>
    where
        V: Clone,
    {
        let before = self.rows.require(txn, key)?;
        let mut after = before.clone();
        change(&mut after);
        self.replace(txn, key, &before, &after)?;
        Ok(Updated { before, after })
    }

    /// Writes a row that was just read.
    ///
    /// # Errors
    /// As [`Table::put`].
    pub fn replace(&self, txn: &mut Write<'_>, key: &K, before: &V, after: &V) -> Result<()> {
        self.rows.replace(txn, key, after)?;
        self.indexes.change(txn, key, Some(before), Some(after))
    }

    /// Removes a row, and returns whether there was one. Index rows of an unreadable row stay; `check` reports them.
    ///
    /// # Errors
    ///
    /// As [`Table::delete`].
    pub fn delete(&self, txn: &mut Write<'_>, key: &K) -> Result<bool> {
        if let Some(before) = readable(self.rows.get(txn, key))? {
            self.indexes.change(txn, key, Some(&before), None)?;
        }
        self.rows.delete(txn, key)
    }
}

/// A row before and after a change.
#[derive(Debug)]
pub struct Updated<V> {
    /// The old row.
    pub before: V,
    /// The new row.
    pub after: V,
}

/// Derives all index rows of a table again. Skips records that cannot be read; `check` reports them.
pub(super) fn rebuild<K: KeyPart, V: Record, D: Rederive<K, V>>(
    table: &Indexed<K, V, D>,
    txn: &mut Write<'_>,
) -> Result<()> {
    table.indexes.indexes(&mut |index| index.bytes().clear(txn))?;
    let mut next = table.rows.first_key(txn)?;
    while let Some(key) = next {
        if let Some(row) = readable(table.rows.get(txn, &key))? {
            table.indexes.change(txn, &key, None, Some(&row))?;
        }
        next = table.rows.next_key(txn, &key)?;
    }
    Ok(())
}

/// Writes the index rows of one record again, and so those of an index that is new.
pub(super) fn complete<K: KeyPart, V: Record, D: Derive<K, V>>(
    table: &Indexed<K, V, D>,
    txn: &mut Write<'_>,
    key: &K,
) -> Result<()> {
    match readable(table.rows.get(txn, key))? {
        Some(row) => table.indexes.change(txn, key, None, Some(&row)),
        None => Ok(()),
    }
}

/// An index that is written by hand, because it cannot be derived from one record. The schema says why.
#[derive(Debug)]
pub struct Manual<K, V>(Index<K, V>);

impl<K, V> Clone for Manual<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Manual<K, V> {}

impl<K, V> Deref for Manual<K, V> {
    type Target = Index<K, V>;

    fn deref(&self) -> &Index<K, V> {
        &self.0
    }
}

impl<K: KeyPart, V: KeyPart> Manual<K, V> {
    pub(super) const fn new(rows: Index<K, V>) -> Self {
        Self(rows)
    }

    /// Writes a row, new or not.
    ///
    /// # Errors
    /// [`Error::Full`](super::Error::Full) and [`Error::Lmdb`](super::Error::Lmdb).
    pub fn put(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        self.0.set(txn, key, value)
    }

    /// Removes a row, and returns whether there was one.
    ///
    /// # Errors
    ///
    /// As [`Self::put`].
    pub fn delete(&self, txn: &mut Write<'_>, key: &K) -> Result<bool> {
        self.0.remove(txn, key)
    }

    /// Removes the rows between two keys.
    ///
    /// # Errors
    /// As [`Self::delete`].
    pub fn delete_range(&self, txn: &mut Write<'_>, keys: impl RangeBounds<K>) -> Result<()> {
        self.0.bytes().delete_range(txn, &byte_range(&keys))
    }
}

/// Changes the rows of one index from those of a record's old value to those of its new value.
pub(super) fn change<K, V, IK: KeyPart, IV: KeyPart, R>(
    index: &Index<IK, IV>,
    txn: &mut Write<'_>,
    key: &K,
    before: Option<&V>,
    after: Option<&V>,
    derive: impl Fn(&K, &V) -> R,
) -> Result<()>
where
    R: IntoIterator<Item = (IK, IV)> + PartialEq,
{
    let (before, after) = (before.map(|row| derive(key, row)), after.map(|row| derive(key, row)));
    if before == after {
        return Ok(());
    }
    for (key, _) in before.into_iter().flatten() {
        index.remove(txn, &key)?;
    }
    for (key, value) in after.into_iter().flatten() {
        index.set(txn, &key, &value)?;
    }
    Ok(())
}

/// Calls `visit` for the rows of a record in one index.
pub(super) fn visit<K, V, IK: KeyPart, IV: KeyPart, R>(
    index: &Index<IK, IV>,
    key: &K,
    row: &V,
    derive: impl Fn(&K, &V) -> R,
    visit: Visit<'_>,
) -> Result<()>
where
    R: IntoIterator<Item = (IK, IV)>,
{
    for (key, value) in derive(key, row) {
        let mut bytes = Vec::new();
        if <Plain as Codec<IV>>::encode(&value, &mut bytes).is_ok() {
            visit(index, &encoded(&key), &bytes)?;
        }
    }
    Ok(())
}
