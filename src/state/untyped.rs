//! Type-erased access to tables, for dump, import and check.
//!
//! Code that walks all tables (dump, export, import, check) is compiled only once. Only the code in this file is
//! compiled for each table.

use serde::Serialize;

use super::Write;
use super::bytes::ByteRows;
use super::envelope::{Record, Unwritable};
use super::error::{Error, Result};
use super::key::{BadKey, KeyPart};
use super::table::{Codec, Index, Plain, Rows, Table};

/// A row's value, and the parts of its key in text form.
pub(super) struct RowText {
    pub(super) key: Vec<String>,
    pub(super) value: String,
}

/// Output form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowFormat {
    /// For people.
    Text,
    /// As JSON.
    Json,
}

/// A table, independent of its types.
pub(super) trait Untyped {
    /// The table as raw bytes.
    fn bytes(&self) -> &ByteRows;

    /// Name and current version of its records; none for an index.
    fn record(&self) -> Option<(&'static str, u16)>;

    /// The parts of a key in text form.
    fn key(&self, key: &[u8]) -> Result<Vec<String>, BadKey>;

    /// Whether a row can be read.
    fn read(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// A row for display. People's texts and names are included only if `bodies` is set.
    fn show(&self, key: &[u8], value: &[u8], form: RowFormat, bodies: bool) -> Result<RowText>;

    /// Inserts an imported row, which must be new.
    fn take_in(&self, txn: &mut Write<'_>, key: &[u8], value: Foreign<'_>) -> Result<(), NotTaken>;
}

/// An imported value.
#[derive(Clone, Copy)]
pub(super) struct Foreign<'a> {
    /// A record in [`RowFormat::Json`].
    pub(super) json: &'a str,
    /// A row of an index, in its stored bytes.
    pub(super) bytes: Option<&'a [u8]>,
}

/// Why an imported row was not written.
pub(super) enum NotTaken {
    /// Its key is not valid for this table.
    Key(BadKey),
    /// Its value is not valid for this table; the reason, if known.
    Value(Option<serde_json::Error>),
    /// The store refused it.
    Store(Error),
}

impl<K: KeyPart, V: Record> Untyped for Table<K, V> {
    fn bytes(&self) -> &ByteRows {
        Rows::bytes(self)
    }

    fn record(&self) -> Option<(&'static str, u16)> {
        Some((V::NAME, V::VERSION))
    }

    fn key(&self, key: &[u8]) -> Result<Vec<String>, BadKey> {
        K::from_bytes(key).map(|key| parts(&key))
    }

    fn read(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.decode(key, value).map(drop)
    }

    fn show(&self, key: &[u8], value: &[u8], form: RowFormat, bodies: bool) -> Result<RowText> {
        let (key, mut value) = self.decode(key, value)?;
        if !bodies {
            value.redact();
        }
        let value = match form {
            RowFormat::Text => format!("{value:?}"),
            RowFormat::Json => json_of(self, &key, &value)?,
        };
        Ok(RowText { key: parts(&key), value })
    }

    fn take_in(&self, txn: &mut Write<'_>, key: &[u8], value: Foreign<'_>) -> Result<(), NotTaken> {
        let value = serde_json::from_str(value.json).map_err(|why| NotTaken::Value(Some(why)))?;
        insert(self, txn, key, &value)
    }
}

impl<K: KeyPart, V: KeyPart> Untyped for Index<K, V> {
    fn bytes(&self) -> &ByteRows {
        Rows::bytes(self)
    }

    fn record(&self) -> Option<(&'static str, u16)> {
        None
    }

    fn key(&self, key: &[u8]) -> Result<Vec<String>, BadKey> {
        K::from_bytes(key).map(|key| parts(&key))
    }

    fn read(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.decode(key, value).map(drop)
    }

    fn show(&self, key: &[u8], value: &[u8], form: RowFormat, _bodies: bool) -> Result<RowText> {
        let (key, value) = self.decode(key, value)?;
        let value = match form {
            RowFormat::Text => parts(&value).join("/"),
            RowFormat::Json => json_of(self, &key, &parts(&value))?,
        };
        Ok(RowText { key: parts(&key), value })
    }

    fn take_in(&self, txn: &mut Write<'_>, key: &[u8], value: Foreign<'_>) -> Result<(), NotTaken> {
        let value = value.bytes.and_then(|bytes| <Plain as Codec<V>>::decode(bytes).ok());
        insert(self, txn, key, &value.ok_or(NotTaken::Value(None))?)
    }
}

fn insert<K: KeyPart, V, C: Codec<V>>(
    rows: &Rows<K, V, C>,
    txn: &mut Write<'_>,
    key: &[u8],
    value: &V,
) -> Result<(), NotTaken> {
    let key = K::from_bytes(key).map_err(NotTaken::Key)?;
    rows.add(txn, &key, value).map_err(NotTaken::Store)
}

fn json_of<K: KeyPart, V, C>(rows: &Rows<K, V, C>, key: &K, value: &impl Serialize) -> Result<String> {
    let no_json = |why: serde_json::Error| Unwritable::Encoding(format!("it cannot be converted to JSON: {why}"));
    serde_json::to_string(value).map_err(|why| rows.bytes().unwritable(no_json(why), key.shown()))
}

fn parts(key: &impl KeyPart) -> Vec<String> {
    let mut parts = Vec::new();
    key.show(&mut parts);
    parts
}
