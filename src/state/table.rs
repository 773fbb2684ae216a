//! Typed tables over LMDB's byte tables.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use super::bytes::{ByteRows, ByteTable, Cursor};
use super::envelope::{self, Record, Unreadable, Unwritable};
use super::error::{Error, Result};
use super::key::{KeyPart, Prefix, encoded};
use super::range::{ByteRange, byte_range, prefix_range};
use super::spare::Spare;
use super::touched;
use super::write::Basis;
use super::{Read, Write};

/// Encoding of a table's values.
pub trait Codec<V> {
    /// Encodes a value into an empty buffer.
    ///
    /// # Errors
    ///
    /// [`Unwritable`] if the value cannot be encoded.
    fn encode(value: &V, out: &mut Vec<u8>) -> Result<(), Unwritable>;

    /// Decodes a value.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if the bytes are not a value.
    fn decode(bytes: &[u8]) -> Result<V, Unreadable>;

    /// Newest version of a value that may be replaced, if values have versions.
    fn version() -> Option<u16>;
}

/// Records in versioned, checksummed envelopes.
#[derive(Debug, Clone, Copy)]
pub enum Enveloped {}

/// Values that are derived from records and encoded like keys.
#[derive(Debug, Clone, Copy)]
pub enum Plain {}

impl<V: Record> Codec<V> for Enveloped {
    fn encode(value: &V, out: &mut Vec<u8>) -> Result<(), Unwritable> {
        envelope::seal_into(out, V::VERSION, value)
    }

    fn decode(bytes: &[u8]) -> Result<V, Unreadable> {
        envelope::open(bytes)
    }

    fn version() -> Option<u16> {
        Some(V::VERSION)
    }
}

impl<V: KeyPart> Codec<V> for Plain {
    fn encode(value: &V, out: &mut Vec<u8>) -> Result<(), Unwritable> {
        value.encode_value(out);
        Ok(())
    }

    fn decode(mut bytes: &[u8]) -> Result<V, Unreadable> {
        let value = V::decode_value(&mut bytes).map_err(|bad| Unreadable::Damaged(bad.to_string()))?;
        match bytes.len() {
            0 => Ok(value),
            left => Err(Unreadable::Damaged(format!("{left} bytes after the value's end"))),
        }
    }

    fn version() -> Option<u16> {
        None
    }
}

/// A table of records.
pub type Table<K, V> = Rows<K, V, Enveloped>;

/// A table derived from records.
pub type Index<K, V> = Rows<K, V, Plain>;

/// A handle on a table: reads take a read or a write transaction, writes a write transaction.
pub struct Rows<K, V, C> {
    bytes: ByteRows,
    types: PhantomData<fn(K, C) -> V>,
}

impl<K, V, C> Clone for Rows<K, V, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, C> Copy for Rows<K, V, C> {}

impl<K, V, C> std::fmt::Debug for Rows<K, V, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Rows").field(&self.name()).finish()
    }
}

impl<K, V, C> Rows<K, V, C> {
    pub(super) fn new(name: &'static str, table: ByteTable<'static>, basis: Option<Basis>) -> Self {
        Self { bytes: ByteRows::new(name, table, basis), types: PhantomData }
    }

    /// Name of the table.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.bytes.name()
    }

    /// Number of rows.
    ///
    /// # Errors
    /// [`Error::Lmdb`].
    pub fn len(&self, txn: &Read<'_>) -> Result<u64> {
        self.bytes.len(txn)
    }

    /// Whether there are no rows.
    ///
    /// # Errors
    /// [`Error::Lmdb`].
    pub fn is_empty(&self, txn: &Read<'_>) -> Result<bool> {
        self.len(txn).map(|rows| rows == 0)
    }

    /// The same table without types.
    pub(super) const fn bytes(&self) -> &ByteRows {
        &self.bytes
    }
}

impl<K: KeyPart, V, C: Codec<V>> Rows<K, V, C> {
    /// The row of a key.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::TooNew`] if it cannot be read.
    pub fn get(&self, txn: &Read<'_>, key: &K) -> Result<Option<V>> {
        touched::count();
        let bytes = self.bytes.get(txn, &encoded(key))?;
        bytes.map(|bytes| C::decode(bytes).map_err(|why| self.unreadable(why, key))).transpose()
    }

    /// The row of a key that other rows refer to.
    ///
    /// # Errors
    /// As [`Self::get`], and [`Error::Missing`] if there is none.
    pub fn require(&self, txn: &Read<'_>, key: &K) -> Result<V> {
        self.get(txn, key)?.ok_or_else(|| Error::Missing { table: self.name(), key: key.shown() })
    }

    /// Whether a key has a row; the row is not decoded.
    ///
    /// # Errors
    /// [`Error::Lmdb`].
    pub fn contains(&self, txn: &Read<'_>, key: &K) -> Result<bool> {
        touched::count();
        Ok(self.bytes.get(txn, &encoded(key))?.is_some())
    }

    /// Writes a row, new or not.
    pub(super) fn set(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        let (key_bytes, value) = (encoded(key), self.encoded(key, value)?);
        let refused = match C::version() {
            Some(known) => self.bytes.put_versioned(txn, &key_bytes, &value, known)?,
            None => self.bytes.put(txn, &key_bytes, &value).map(|()| None)?,
        };
        refused.map_or(Ok(()), |why| Err(self.unreadable(why, key)))
    }

    /// Writes a row, new or not, and returns the old one. A new row takes one descent.
    pub(super) fn exchange(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<Option<V>> {
        let (key_bytes, value) = (encoded(key), self.encoded(key, value)?);
        let Some(before) = self.bytes.get_or_put(txn, &key_bytes, &value)? else { return Ok(None) };
        let before = C::decode(before).map_err(|why| self.unreadable(why, key))?;
        touched::count();
        self.bytes.put(txn, &key_bytes, &value)?;
        Ok(Some(before))
    }

    /// Writes a row that was just read, so it cannot be one from a newer Hearth.
    pub(super) fn replace(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        self.bytes.put(txn, &encoded(key), &self.encoded(key, value)?)
    }

    fn encoded(&self, key: &K, value: &V) -> Result<Spare> {
        let mut bytes = Spare::take();
        match C::encode(value, &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(why) => Err(self.bytes.unwritable(why, key.shown())),
        }
    }

    /// Writes a row that must be new.
    pub(super) fn add(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        if self.contains(txn, key)? {
            return Err(Error::Exists { table: self.name(), key: key.shown() });
        }
        self.set(txn, key, value)
    }

    /// Removes a row, and returns whether there was one.
    pub(super) fn remove(&self, txn: &mut Write<'_>, key: &K) -> Result<bool> {
        self.bytes.delete(txn, &encoded(key))
    }

    /// Rows between two keys, in order.
    ///
    /// # Errors
    /// [`Error::Lmdb`] here; each row may have errors of its own.
    pub fn range<'t>(&self, txn: &'t Read<'_>, keys: impl RangeBounds<K>) -> Result<Entries<'t, K, V, C>> {
        self.entries(txn, &byte_range(&keys))
    }

    /// All rows, in order.
    ///
    /// # Errors
    /// As for [`Self::range`].
    pub fn iter<'t>(&self, txn: &'t Read<'_>) -> Result<Entries<'t, K, V, C>> {
        self.range(txn, ..)
    }

    /// Rows whose keys begin with a prefix, in order.
    ///
    /// # Errors
    /// As for [`Self::range`].
    pub fn prefix<'t>(&self, txn: &'t Read<'_>, prefix: &impl Prefix<K>) -> Result<Entries<'t, K, V, C>> {
        self.entries(txn, &prefix_range(prefix))
    }

    /// First row between two keys; `..` is the first of all.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn first(&self, txn: &Read<'_>, keys: impl RangeBounds<K>) -> Result<Option<(K, V)>> {
        self.range(txn, keys)?.next().transpose()
    }

    /// Last row between two keys; `..` is the last of all.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn last(&self, txn: &Read<'_>, keys: impl RangeBounds<K>) -> Result<Option<(K, V)>> {
        self.last_of(txn, &byte_range(&keys))
    }

    /// First row whose key begins with a prefix.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn first_in(&self, txn: &Read<'_>, prefix: &impl Prefix<K>) -> Result<Option<(K, V)>> {
        let row = self.bytes.first_in(txn, &encoded(prefix))?;
        row.map(|(key, value)| self.decode(key, value)).transpose()
    }

    /// Last row between two keys, with its value as it is stored.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub(super) fn last_stored<'t>(
        &self,
        txn: &'t Read<'_>,
        keys: impl RangeBounds<K>,
    ) -> Result<Option<(K, &'t [u8])>> {
        let row = self.bytes.last(txn, &byte_range(&keys))?;
        row.map(|(key, value)| Ok((self.decode_key(key)?, value))).transpose()
    }

    /// Last row whose key begins with a prefix.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn last_in(&self, txn: &Read<'_>, prefix: &impl Prefix<K>) -> Result<Option<(K, V)>> {
        self.last_of(txn, &prefix_range(prefix))
    }

    /// First row after a key.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn after(&self, txn: &Read<'_>, key: &K) -> Result<Option<(K, V)>> {
        self.entries(txn, &(Bound::Excluded(key.to_bytes()), Bound::Unbounded))?.next().transpose()
    }

    /// At most `limit` rows between two keys. The table may be changed while the result is used.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn collect_range(&self, txn: &Read<'_>, keys: impl RangeBounds<K>, limit: usize) -> Result<Vec<(K, V)>> {
        self.range(txn, keys)?.take(limit).collect()
    }

    /// At most `limit` rows whose keys begin with a prefix.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn collect_prefix(&self, txn: &Read<'_>, prefix: &impl Prefix<K>, limit: usize) -> Result<Vec<(K, V)>> {
        self.prefix(txn, prefix)?.take(limit).collect()
    }

    /// Number of rows whose keys begin with a prefix; none of them is decoded.
    ///
    /// # Errors
    /// [`Error::Lmdb`].
    pub fn count_prefix(&self, txn: &Read<'_>, prefix: &impl Prefix<K>) -> Result<u64> {
        self.bytes.count(txn, &prefix_range(prefix))
    }

    /// The last rows whose keys begin with a prefix, at most `limit`, the last one first.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn collect_last(&self, txn: &Read<'_>, prefix: &impl Prefix<K>, limit: usize) -> Result<Vec<(K, V)>> {
        self.bytes.collect_last(txn, &prefix_range(prefix), limit, &|key, value| self.decode(key, value))
    }

    /// The last rows between two keys, at most `limit`, the last one first.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn collect_last_of(&self, txn: &Read<'_>, keys: impl RangeBounds<K>, limit: usize) -> Result<Vec<(K, V)>> {
        self.bytes.collect_last(txn, &byte_range(&keys), limit, &|key, value| self.decode(key, value))
    }

    /// First key after a key; its row is not decoded.
    ///
    /// # Errors
    ///
    /// [`Error::Lmdb`], and [`Error::Damaged`] for an invalid key.
    pub fn next_key(&self, txn: &Read<'_>, key: &K) -> Result<Option<K>> {
        let range = (Bound::Excluded(key.to_bytes()), Bound::Unbounded);
        let row = self.bytes.range(txn, &range)?.next().transpose().map_err(Error::lmdb("reading a row"))?;
        row.map(|(key, _)| self.decode_key(key)).transpose()
    }

    /// The lowest key; its row is not decoded.
    pub(super) fn first_key(&self, txn: &Read<'_>) -> Result<Option<K>> {
        let row = self.bytes.all(txn)?.next().transpose().map_err(Error::lmdb("reading a row"))?;
        row.map(|(key, _)| self.decode_key(key)).transpose()
    }

    /// The highest key; its row is not decoded.
    pub(super) fn last_key(&self, txn: &Read<'_>) -> Result<Option<K>> {
        self.bytes.last_key(txn)?.map(|key| self.decode_key(key)).transpose()
    }

    /// Decodes a row from its bytes.
    pub(super) fn decode(&self, key: &[u8], value: &[u8]) -> Result<(K, V)> {
        touched::count();
        let key = self.decode_key(key)?;
        let value = C::decode(value).map_err(|why| self.unreadable(why, &key))?;
        Ok((key, value))
    }

    /// Writes arbitrary bytes as a row, for tests.
    #[cfg(test)]
    pub(super) fn put_bytes(&self, txn: &mut Write<'_>, key: &K, value: &[u8]) -> Result<()> {
        self.bytes.put(txn, &encoded(key), value)
    }

    fn decode_key(&self, key: &[u8]) -> Result<K> {
        K::from_bytes(key).map_err(|bad| self.bytes.bad_key(key, &bad))
    }

    fn entries<'t>(&self, txn: &'t Read<'_>, range: &ByteRange) -> Result<Entries<'t, K, V, C>> {
        Ok(Entries { table: *self, rows: self.bytes.range(txn, range)? })
    }

    fn last_of(&self, txn: &Read<'_>, range: &ByteRange) -> Result<Option<(K, V)>> {
        let row = self.bytes.last(txn, range)?;
        row.map(|(key, value)| self.decode(key, value)).transpose()
    }

    fn unreadable(&self, why: Unreadable, key: &K) -> Error {
        self.bytes.unreadable(why, key.shown(), C::version())
    }
}

impl<K: KeyPart, V: KeyPart> Index<K, V> {
    /// Removes an index row whose record is missing or unreadable.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Lmdb`].
    pub fn discard_leftover(&self, txn: &mut Write<'_>, key: &K) -> Result<()> {
        self.remove(txn, key).map(drop)
    }
}

impl<K: KeyPart, V: Record> Table<K, V> {
    /// Writes a row, new or not.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::TooLarge`], and [`Error::TooNew`] instead of replacing what a newer Hearth wrote.
    pub fn put(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        self.set(txn, key, value)
    }

    /// Like [`Self::put`], optimized for a new row that usually sorts after all others, such as one with a new id.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn append(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        let appended = self.bytes.append(txn, &encoded(key), &self.encoded(key, value)?)?;
        if appended { Ok(()) } else { self.set(txn, key, value) }
    }

    /// Updates a row that other rows refer to. Returns the new row and the result of `change`.
    ///
    /// # Errors
    /// As [`Self::require`] and [`Self::put`].
    pub fn update<T>(&self, txn: &mut Write<'_>, key: &K, change: impl FnOnce(&mut V) -> T) -> Result<(V, T)> {
        let mut value = self.require(txn, key)?;
        let said = change(&mut value);
        self.replace(txn, key, &value)?;
        Ok((value, said))
    }

    /// Removes a row, and returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] and [`Error::Lmdb`]: even a removal needs pages.
    pub fn delete(&self, txn: &mut Write<'_>, key: &K) -> Result<bool> {
        self.remove(txn, key)
    }
}

/// Rows in order, as long as the transaction lives.
pub struct Entries<'t, K, V, C> {
    table: Rows<K, V, C>,
    rows: Cursor<'t>,
}

impl<'t, K: KeyPart, V, C: Codec<V>> Entries<'t, K, V, C> {
    /// The same rows, with their values as they are stored. Nothing is copied.
    pub(super) fn stored(self) -> impl Iterator<Item = Result<(K, &'t [u8])>> + use<'t, K, V, C> {
        let Self { table, rows } = self;
        rows.map(move |row| {
            touched::count();
            let (key, value) = row.map_err(Error::lmdb("reading a row"))?;
            Ok((table.decode_key(key)?, value))
        })
    }
}

impl<K: KeyPart, V, C: Codec<V>> Iterator for Entries<'_, K, V, C> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?.map_err(Error::lmdb("reading a row"));
        Some(row.and_then(|(key, value)| self.table.decode(key, value)))
    }
}

impl<K, V, C> std::fmt::Debug for Entries<'_, K, V, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Entries").field(&self.table.name()).finish()
    }
}
