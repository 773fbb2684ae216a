//! Byte-level access to tables: everything that does not depend on row types, compiled once for all tables.

use std::ops::Bound;

use heed::types::Bytes;
use heed::{MdbError, PutFlags};

use super::envelope::{self, MAX_BODY_BYTES, Unreadable, Unwritable};
use super::error::{Error, Result};
use super::hex::hex;
use super::key::BadKey;
use super::range::{ByteRange, borrowed};
use super::write::Basis;
use super::{Read, Write};

/// A table as LMDB knows it.
pub(super) type ByteTable<'e> = heed::Database<'e, Bytes, Bytes>;

/// Key and value of a row, as stored.
pub(super) type ByteRow = (Vec<u8>, Vec<u8>);

/// Rows between two keys, as long as the transaction lives.
pub(super) type Cursor<'t> = heed::RoRange<'t, Bytes, Bytes>;

/// Decodes a row from its key and value.
type Reading<'a, T> = &'a dyn Fn(&[u8], &[u8]) -> Result<T>;

/// A handle on a table with untyped keys and values.
#[derive(Clone, Copy)]
pub(super) struct ByteRows {
    name: &'static str,
    table: ByteTable<'static>,
    basis: Option<Basis>,
}

impl ByteRows {
    pub(super) const fn new(name: &'static str, table: ByteTable<'static>, basis: Option<Basis>) -> Self {
        Self { name, table, basis }
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) const fn table(&self) -> ByteTable<'static> {
        self.table
    }

    pub(super) fn len(&self, txn: &Read<'_>) -> Result<u64> {
        self.table.len(txn).map_err(Error::lmdb("counting rows"))
    }

    pub(super) fn get<'t>(&self, txn: &'t Read<'_>, key: &[u8]) -> Result<Option<&'t [u8]>> {
        self.table.get(txn, key).map_err(Error::lmdb("reading a row"))
    }

    /// The first row whose key begins with a prefix.
    pub(super) fn first_in<'t>(&self, txn: &'t Read<'_>, prefix: &[u8]) -> Result<Option<(&'t [u8], &'t [u8])>> {
        let row = self.table.get_greater_than_or_equal_to(txn, prefix).map_err(Error::lmdb("reading a row"))?;
        Ok(row.filter(|(key, _)| key.starts_with(prefix)))
    }

    pub(super) fn all<'t>(&self, txn: &'t Read<'_>) -> Result<Cursor<'t>> {
        self.range(txn, &(Bound::Unbounded, Bound::Unbounded))
    }

    pub(super) fn range<'t>(&self, txn: &'t Read<'_>, range: &ByteRange) -> Result<Cursor<'t>> {
        self.table.range(txn, &borrowed(range)).map_err(Error::lmdb("opening a cursor"))
    }

    pub(super) fn last<'t>(&self, txn: &'t Read<'_>, range: &ByteRange) -> Result<Option<(&'t [u8], &'t [u8])>> {
        self.backwards(txn, range)?.next().transpose().map_err(Error::lmdb("reading a row"))
    }

    /// The last rows of a range, at most `limit`, the last one first, decoded by `read`.
    pub(super) fn collect_last<T>(
        &self,
        txn: &Read<'_>,
        range: &ByteRange,
        limit: usize,
        read: Reading<'_, T>,
    ) -> Result<Vec<T>> {
        let read = |row: heed::Result<(&[u8], &[u8])>| {
            let (key, value) = row.map_err(Error::lmdb("reading a row"))?;
            read(key, value)
        };
        self.backwards(txn, range)?.take(limit).map(read).collect()
    }

    fn backwards<'t>(&self, txn: &'t Read<'_>, range: &ByteRange) -> Result<heed::RoRevRange<'t, Bytes, Bytes>> {
        self.table.rev_range(txn, &borrowed(range)).map_err(Error::lmdb("opening a cursor"))
    }

    pub(super) fn count(&self, txn: &Read<'_>, range: &ByteRange) -> Result<u64> {
        self.range(txn, range)?.map(|row| row.map(|_| 1).map_err(Error::lmdb("counting rows"))).sum()
    }

    pub(super) fn last_key<'t>(&self, txn: &'t Read<'_>) -> Result<Option<&'t [u8]>> {
        Ok(self.table.last(txn).map_err(Error::lmdb("reading a row"))?.map(|(key, _)| key))
    }

    /// Writes a row, replacing any old one.
    pub(super) fn put(&self, txn: &mut Write<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        self.changes(txn);
        self.table.put(txn, key, value).map_err(Error::lmdb("writing a row"))
    }

    /// The row of a key. If there is none, writes the given one.
    pub(super) fn get_or_put<'t>(
        &self,
        txn: &'t mut Write<'_>,
        key: &'t [u8],
        value: &'t [u8],
    ) -> Result<Option<&'t [u8]>> {
        self.changes(txn);
        self.table.get_or_put(txn, key, value).map_err(Error::lmdb("writing a row"))
    }

    /// Writes a record. Refuses to replace a record of a newer Hearth, even for a caller that has not read it. A new
    /// row costs one descent.
    pub(super) fn put_versioned(
        &self,
        txn: &mut Write<'_>,
        key: &[u8],
        value: &[u8],
        known: u16,
    ) -> Result<Option<Unreadable>> {
        match self.get_or_put(txn, key, value)?.map(envelope::version_of) {
            None => return Ok(None),
            Some(Ok(found)) if found > known => return Ok(Some(Unreadable::TooNew { found })),
            Some(Ok(_)) => {}
            Some(Err(why)) => return Ok(Some(why)),
        }
        self.table.put(txn, key, value).map(|()| None).map_err(Error::lmdb("writing a row"))
    }

    /// Appends a row after all others. Returns false if its key does not belong there.
    pub(super) fn append(&self, txn: &mut Write<'_>, key: &[u8], value: &[u8]) -> Result<bool> {
        self.changes(txn);
        match self.table.put_with_flags(txn, PutFlags::APPEND, key, value) {
            Err(heed::Error::Mdb(MdbError::KeyExist)) => Ok(false),
            put => put.map(|()| true).map_err(Error::lmdb("writing a row")),
        }
    }

    pub(super) fn delete(&self, txn: &mut Write<'_>, key: &[u8]) -> Result<bool> {
        self.changes(txn);
        self.table.delete(txn, key).map_err(Error::lmdb("removing a row"))
    }

    /// Removes the rows of a range. After the first one, none is searched for.
    pub(super) fn delete_range(&self, txn: &mut Write<'_>, range: &ByteRange) -> Result<()> {
        self.changes(txn);
        self.table.delete_range(txn, &borrowed(range)).map(drop).map_err(Error::lmdb("removing rows"))
    }

    /// Removes all rows.
    pub(super) fn clear(&self, txn: &mut Write<'_>) -> Result<()> {
        self.changes(txn);
        self.table.clear(txn).map_err(Error::lmdb("removing all rows"))
    }

    fn changes(&self, txn: &mut Write<'_>) {
        if let Some(basis) = self.basis {
            txn.forget(basis);
        }
    }

    /// Copies raw rows that follow a key: at most this many rows, and at most about this many bytes.
    pub(super) fn slice(
        &self,
        txn: &Read<'_>,
        after: Option<&[u8]>,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<ByteRow>> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let range: (Bound<&[u8]>, Bound<&[u8]>) = (start, Bound::Unbounded);
        let mut rows = Vec::new();
        let mut bytes = 0_usize;
        for row in self.table.range(txn, &range).map_err(Error::lmdb("opening a cursor"))? {
            let (key, value) = row.map_err(Error::lmdb("reading a row"))?;
            bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
            rows.push((key.to_vec(), value.to_vec()));
            if rows.len() >= max_rows || bytes >= max_bytes {
                break;
            }
        }
        Ok(rows)
    }

    /// The error for a key that is invalid for this table.
    pub(super) fn bad_key(&self, key: &[u8], bad: &BadKey) -> Error {
        Error::Damaged { table: self.name, key: hex(key), reason: bad.to_string() }
    }

    /// The error for a value that is invalid for this table, whose versions are known up to `known`.
    pub(super) fn unreadable(&self, why: Unreadable, key: String, known: Option<u16>) -> Error {
        let table = self.name;
        match why {
            Unreadable::TooNew { found } => Error::TooNew { table, key, found, known: known.unwrap_or_default() },
            Unreadable::Damaged(reason) => Error::Damaged { table, key, reason },
        }
    }

    pub(super) fn unwritable(&self, why: Unwritable, key: String) -> Error {
        let table = self.name;
        match why {
            Unwritable::TooLarge(bytes) => Error::TooLarge { table, key, bytes, max: MAX_BODY_BYTES },
            Unwritable::Encoding(reason) => Error::Unwritable { table, key, reason },
        }
    }
}
