//! Typed tables over LMDB's byte tables.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use heed::types::Bytes;
use heed::{MdbError, PutFlags};

use super::envelope::{self, MAX_BODY_BYTES, Record, Unreadable, Unwritable};
use super::error::{Error, Result};
use super::key::{BadKey, KeyPart, Prefix, with_bytes};
use super::range::{ByteRange, borrowed, byte_range, prefix_range};
use super::spare::with_spare;
use super::write::QUIET;
use super::{Read, Write};

/// How the values of a table become bytes.
pub trait Codec<V> {
    /// Writes the bytes of a value where there are none yet.
    ///
    /// # Errors
    /// [`Unwritable`] if it has none.
    fn encode(value: &V, out: &mut Vec<u8>) -> Result<(), Unwritable>;

    /// The value of bytes.
    ///
    /// # Errors
    /// [`Unreadable`] if they are none.
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

pub(super) type ByteTable<'e> = heed::Database<'e, Bytes, Bytes>;

/// A handle on a table: reads take a read or a write transaction, writes a write transaction.
pub struct Rows<K, V, C> {
    name: &'static str,
    bytes: ByteTable<'static>,
    quiet: bool,
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
        f.debug_tuple("Rows").field(&self.name).finish()
    }
}

impl<K, V, C> Rows<K, V, C> {
    pub(super) fn new(name: &'static str, bytes: ByteTable<'static>) -> Self {
        Self { name, bytes, quiet: QUIET.contains(&name), types: PhantomData }
    }

    /// Name of the table.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Number of rows.
    ///
    /// # Errors
    /// [`Error::Lmdb`].
    pub fn len(&self, txn: &Read<'_>) -> Result<u64> {
        self.bytes.len(txn).map_err(Error::lmdb("counting rows"))
    }

    /// Whether there are no rows.
    ///
    /// # Errors
    /// [`Error::Lmdb`].
    pub fn is_empty(&self, txn: &Read<'_>) -> Result<bool> {
        self.len(txn).map(|rows| rows == 0)
    }

    pub(super) fn bytes(&self) -> ByteTable<'static> {
        self.bytes
    }
}

impl<K: KeyPart, V, C: Codec<V>> Rows<K, V, C> {
    /// The row of a key.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::TooNew`] if it cannot be read.
    pub fn get(&self, txn: &Read<'_>, key: &K) -> Result<Option<V>> {
        let bytes = with_bytes(key, |key| self.bytes.get(txn, key)).map_err(Error::lmdb("reading a row"))?;
        bytes.map(|bytes| C::decode(bytes).map_err(|why| self.unreadable(why, || key.shown()))).transpose()
    }

    /// The row of a key that other rows refer to.
    ///
    /// # Errors
    /// As [`Self::get`], and [`Error::Missing`] if there is none.
    pub fn require(&self, txn: &Read<'_>, key: &K) -> Result<V> {
        self.get(txn, key)?.ok_or_else(|| Error::Missing { table: self.name, key: key.shown() })
    }

    /// Whether a key has a row; the row is not decoded.
    ///
    /// # Errors
    /// [`Error::Lmdb`].
    pub fn contains(&self, txn: &Read<'_>, key: &K) -> Result<bool> {
        Ok(with_bytes(key, |key| self.bytes.get(txn, key)).map_err(Error::lmdb("looking for a row"))?.is_some())
    }

    /// Writes a row, new or not.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::TooLarge`], and [`Error::TooNew`] instead of replacing what a newer Hearth wrote.
    pub fn put(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        let refused = self.with_row(txn, (key, value), |txn, key, value| match C::version() {
            Some(known) => put_versioned(self.bytes, txn, (key, value), known),
            None => self.bytes.put(txn, key, value).map(|()| None).map_err(Error::lmdb("writing a row")),
        })?;
        refused.map_or(Ok(()), |why| Err(self.unreadable(why, || key.shown())))
    }

    /// As [`Self::put`], for a row that is new and mostly comes after all others, as that of a new id does: its place need
    /// not be looked for.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn append(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        let appended = self.with_row(txn, (key, value), |txn, key, value| {
            match self.bytes.put_with_flags(txn, PutFlags::APPEND, key, value) {
                Err(heed::Error::Mdb(MdbError::KeyExist)) => Ok(false),
                put => put.map(|()| true).map_err(Error::lmdb("writing a row")),
            }
        })?;
        if appended { Ok(()) } else { self.put(txn, key, value) }
    }

    /// Changes a row that other rows refer to; returns it as it is now, and what `change` says.
    ///
    /// # Errors
    /// As [`Self::require`] and [`Self::put`].
    pub fn update<T>(&self, txn: &mut Write<'_>, key: &K, change: impl FnOnce(&mut V) -> T) -> Result<(V, T)> {
        let mut value = self.require(txn, key)?;
        let said = change(&mut value);
        self.replace(txn, key, &value)?;
        Ok((value, said))
    }

    /// Writes a row that was read just now: it is not one that a newer Hearth wrote.
    pub(super) fn replace(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        self.with_row(txn, (key, value), |txn, key, value| {
            self.bytes.put(txn, key, value).map_err(Error::lmdb("writing a row"))
        })
    }

    /// Changes the table by the bytes of a row.
    fn with_row<'t, T>(
        &self,
        txn: &mut Write<'t>,
        (key, value): (&K, &V),
        work: impl FnOnce(&mut Write<'t>, &[u8], &[u8]) -> Result<T>,
    ) -> Result<T> {
        self.changes(txn);
        with_spare(|bytes| {
            C::encode(value, bytes).map_err(|why| self.unwritable(why, key))?;
            with_bytes(key, |key| work(txn, key, bytes))
        })
    }

    /// Writes a row that must be new.
    ///
    /// # Errors
    /// As [`Self::put`], and [`Error::Exists`].
    pub fn insert(&self, txn: &mut Write<'_>, key: &K, value: &V) -> Result<()> {
        if self.contains(txn, key)? {
            return Err(Error::Exists { table: self.name, key: key.shown() });
        }
        self.put(txn, key, value)
    }

    /// Removes a row; tells whether there was one.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::Lmdb`]: even a removal needs pages.
    pub fn delete(&self, txn: &mut Write<'_>, key: &K) -> Result<bool> {
        self.changes(txn);
        with_bytes(key, |key| self.bytes.delete(txn, key)).map_err(Error::lmdb("removing a row"))
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
        let row = with_bytes(prefix, |prefix| {
            let row = self.bytes.get_greater_than_or_equal_to(txn, prefix);
            row.map(|row| row.filter(|(key, _)| key.starts_with(prefix)))
        });
        row.map_err(Error::lmdb("reading a row"))?.map(|(key, value)| self.decode(key, value)).transpose()
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

    /// At most `limit` rows between two keys. What was collected can be worked on while the table is changed.
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
        let range = prefix_range(prefix);
        let rows = self.bytes.range(txn, &borrowed(&range)).map_err(Error::lmdb("opening a cursor"))?;
        rows.map(|row| row.map(|_| 1).map_err(Error::lmdb("counting rows"))).sum()
    }

    /// The last rows whose keys begin with a prefix, at most `limit`, the last one first.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub fn collect_last(&self, txn: &Read<'_>, prefix: &impl Prefix<K>, limit: usize) -> Result<Vec<(K, V)>> {
        let range = prefix_range(prefix);
        let rows = self.bytes.rev_range(txn, &borrowed(&range)).map_err(Error::lmdb("opening a cursor"))?;
        let read = |row: heed::Result<(&[u8], &[u8])>| {
            let (key, value) = row.map_err(Error::lmdb("reading a row"))?;
            self.decode(key, value)
        };
        rows.take(limit).map(read).collect()
    }

    /// First key after a key; its row is not decoded.
    ///
    /// # Errors
    /// [`Error::Lmdb`], and [`Error::Damaged`] for a key that is none.
    pub fn next_key(&self, txn: &Read<'_>, key: &K) -> Result<Option<K>> {
        let range = (Bound::Excluded(key.to_bytes()), Bound::Unbounded);
        let mut rows = self.bytes.range(txn, &borrowed(&range)).map_err(Error::lmdb("opening a cursor"))?;
        let Some((key, _)) = rows.next().transpose().map_err(Error::lmdb("reading a row"))? else { return Ok(None) };
        let damaged = |bad: BadKey| Error::Damaged { table: self.name, key: hex(key), reason: bad.to_string() };
        K::from_bytes(key).map(Some).map_err(damaged)
    }

    /// The highest key; its row is not decoded.
    pub(super) fn last_key(&self, txn: &Read<'_>) -> Result<Option<K>> {
        let Some((key, _)) = self.bytes.last(txn).map_err(Error::lmdb("reading a row"))? else { return Ok(None) };
        let damaged = |bad: BadKey| Error::Damaged { table: self.name, key: hex(key), reason: bad.to_string() };
        K::from_bytes(key).map(Some).map_err(damaged)
    }

    /// Copies rows out as they lie, see [`slice_of`].
    pub(super) fn slice(
        &self,
        txn: &Read<'_>,
        after: Option<&[u8]>,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<ByteRow>> {
        slice_of(self.bytes, txn, after, (max_rows, max_bytes))
    }

    /// Reads a row that was taken out as bytes.
    pub(super) fn decode(&self, key: &[u8], value: &[u8]) -> Result<(K, V)> {
        let damaged = |reason| Error::Damaged { table: self.name, key: hex(key), reason };
        let key = K::from_bytes(key).map_err(|bad| damaged(bad.to_string()))?;
        let value = C::decode(value).map_err(|why| self.unreadable(why, || key.shown()))?;
        Ok((key, value))
    }

    /// Writes any bytes as a row, to see what becomes of them.
    #[cfg(test)]
    pub(super) fn put_bytes(&self, txn: &mut Write<'_>, key: &K, value: &[u8]) -> Result<()> {
        self.bytes.put(txn, &key.to_bytes(), value).map_err(Error::lmdb("writing a row"))
    }

    fn changes(&self, txn: &mut Write<'_>) {
        if self.quiet {
            txn.forget();
        }
    }

    fn entries<'t>(&self, txn: &'t Read<'_>, range: &ByteRange) -> Result<Entries<'t, K, V, C>> {
        let rows = self.bytes.range(txn, &borrowed(range)).map_err(Error::lmdb("opening a cursor"))?;
        Ok(Entries { table: *self, rows })
    }

    fn last_of(&self, txn: &Read<'_>, range: &ByteRange) -> Result<Option<(K, V)>> {
        let mut rows = self.bytes.rev_range(txn, &borrowed(range)).map_err(Error::lmdb("opening a cursor"))?;
        let Some(row) = rows.next() else { return Ok(None) };
        let (key, value) = row.map_err(Error::lmdb("reading a row"))?;
        self.decode(key, value).map(Some)
    }

    fn unreadable(&self, why: Unreadable, key: impl FnOnce() -> String) -> Error {
        let (table, key) = (self.name, key());
        match why {
            Unreadable::TooNew { found } => {
                Error::TooNew { table, key, found, known: C::version().unwrap_or_default() }
            }
            Unreadable::Damaged(reason) => Error::Damaged { table, key, reason },
        }
    }

    fn unwritable(&self, why: Unwritable, key: &K) -> Error {
        let (table, key) = (self.name, key.shown());
        match why {
            Unwritable::TooLarge(bytes) => Error::TooLarge { table, key, bytes, max: MAX_BODY_BYTES },
            Unwritable::Encoding(reason) => Error::Unwritable { table, key, reason },
        }
    }
}

/// Rows in order, as long as the transaction lives.
pub struct Entries<'t, K, V, C> {
    table: Rows<K, V, C>,
    rows: heed::RoRange<'t, Bytes, Bytes>,
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
        f.debug_tuple("Entries").field(&self.table.name).finish()
    }
}

/// Key and value of a row as they lie in the store.
pub(super) type ByteRow = (Vec<u8>, Vec<u8>);

/// Writes a row, or says why the old one stays: one that a newer Hearth wrote is not replaced, not even by a caller that has
/// not read it. A row that is new costs one descent.
fn put_versioned(
    table: ByteTable<'_>,
    txn: &mut Write<'_>,
    (key, value): (&[u8], &[u8]),
    known: u16,
) -> Result<Option<Unreadable>> {
    let old = table.get_or_put(txn, key, value).map_err(Error::lmdb("writing a row"))?;
    match old.map(envelope::version_of) {
        None => return Ok(None),
        Some(Ok(found)) if found > known => return Ok(Some(Unreadable::TooNew { found })),
        Some(Ok(_)) => {}
        Some(Err(why)) => return Ok(Some(why)),
    }
    table.put(txn, key, value).map(|()| None).map_err(Error::lmdb("writing a row"))
}

/// Copies rows out as they lie, after a key: at most so many, and no more once they have so many bytes.
pub(super) fn slice_of(
    table: ByteTable<'_>,
    txn: &Read<'_>,
    after: Option<&[u8]>,
    (max_rows, max_bytes): (usize, usize),
) -> Result<Vec<ByteRow>> {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let range: (Bound<&[u8]>, Bound<&[u8]>) = (start, Bound::Unbounded);
    let mut rows = Vec::new();
    let mut bytes = 0_usize;
    for row in table.range(txn, &range).map_err(Error::lmdb("opening a cursor"))? {
        let (key, value) = row.map_err(Error::lmdb("reading a row"))?;
        bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
        rows.push((key.to_vec(), value.to_vec()));
        if rows.len() >= max_rows || bytes >= max_bytes {
            break;
        }
    }
    Ok(rows)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
