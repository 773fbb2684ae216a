//! Tables whose types whoever looks at them does not know: rows as people, files and other machines see them.
//!
//! What walks all tables (the dump, exports and imports, a look whether all can be read) is written and compiled once; only
//! what is here is compiled for each of them.

use serde::Serialize;

use super::Write;
use super::bytes::{ByteRow, ByteRows};
use super::envelope::{Record, Unwritable};
use super::error::{Error, Result};
use super::key::{BadKey, KeyPart};
use super::store::Reader;
use super::table::{Codec, Index, Plain, Rows, Table};

/// What a row says, and the parts of its key as people write them.
pub(super) struct Shown {
    /// The key.
    pub(super) key: Vec<String>,
    /// The value.
    pub(super) value: String,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// For people.
    Text,
    /// As JSON.
    Json,
}

/// A table of any types.
pub(super) trait Untyped {
    /// The table by its bytes.
    fn bytes(&self) -> &ByteRows;

    /// What its records are called, and the version of them that is written; none for rows of an index.
    fn record(&self) -> Option<(&'static str, u16)>;

    /// The parts of a key as people write them.
    fn key(&self, key: &[u8]) -> Result<Vec<String>, BadKey>;

    /// Whether a row can be read.
    fn read(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// A row as it is shown, with what people wrote and what they are called only if `bodies` are wanted.
    fn show(&self, row: (&[u8], &[u8]), form: Form, bodies: bool) -> Result<Shown>;

    /// Writes a row that comes from elsewhere and must be new.
    fn take_in(&self, txn: &mut Write<'_>, key: &[u8], value: Foreign<'_>) -> Result<(), NotTaken>;
}

/// A value from elsewhere.
#[derive(Clone, Copy)]
pub(super) struct Foreign<'a> {
    /// A record, as [`Form::Json`] says it.
    pub(super) json: &'a str,
    /// A row of an index, as it lies in the store.
    pub(super) bytes: Option<&'a [u8]>,
}

/// Why a row from elsewhere is not written.
pub(super) enum NotTaken {
    /// Its key is none of this table.
    Key(BadKey),
    /// Its value is none of this table, and why if there is more to say.
    Value(Option<serde_json::Error>),
    /// The store does not take it.
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

    fn show(&self, (key, value): (&[u8], &[u8]), form: Form, bodies: bool) -> Result<Shown> {
        let (key, mut value) = self.decode(key, value)?;
        if !bodies {
            value.redact();
        }
        let value = match form {
            Form::Text => format!("{value:?}"),
            Form::Json => json_of(self, &key, &value)?,
        };
        Ok(Shown { key: parts(&key), value })
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

    fn show(&self, (key, value): (&[u8], &[u8]), form: Form, _bodies: bool) -> Result<Shown> {
        let (key, value) = self.decode(key, value)?;
        let value = match form {
            Form::Text => parts(&value).join("/"),
            Form::Json => json_of(self, &key, &parts(&value))?,
        };
        Ok(Shown { key: parts(&key), value })
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
    rows.insert(txn, &key, value).map_err(NotTaken::Store)
}

fn json_of<K: KeyPart, V, C>(rows: &Rows<K, V, C>, key: &K, value: &impl Serialize) -> Result<String> {
    let no_json = |why: serde_json::Error| Unwritable::Encoding(format!("it has no JSON: {why}"));
    serde_json::to_string(value).map_err(|why| rows.bytes().unwritable(no_json(why), key.shown()))
}

fn parts(key: &impl KeyPart) -> Vec<String> {
    let mut parts = Vec::new();
    key.show(&mut parts);
    parts
}

/// Rows and bytes that one read transaction copies: far less than a second's work.
const SLICE: (usize, usize) = (500, 4 << 20);

/// Does something with all rows of a table, slice by slice; no transaction is open meanwhile.
pub(super) fn each_slice<E: From<Error>>(
    reader: &Reader,
    rows: &ByteRows,
    work: &mut dyn FnMut(Vec<ByteRow>) -> Result<(), E>,
) -> Result<(), E> {
    let mut last: Option<Vec<u8>> = None;
    loop {
        let slice = reader.read(|_, txn| rows.slice(txn, last.as_deref(), SLICE))?;
        let Some((key, _)) = slice.last() else { return Ok(()) };
        last = Some(key.clone());
        work(slice)?;
    }
}
