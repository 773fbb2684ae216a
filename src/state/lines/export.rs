//! From the store to lines.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};

use super::{Error, First, Last, Result, Row, VERSION, seal, to_hex};
use crate::state::backup::{self, Progress, Step};
use crate::state::envelope::Record;
use crate::state::key::KeyPart;
use crate::state::schema::Tables;
use crate::state::store::Reader;
use crate::state::table::{ByteRow, ByteTable, Codec, Index, Rows, Table, slice_of};
use crate::state::tables::{About, Visitor};
use crate::state::{Error as StateError, migrate};

/// Rows and bytes that are copied out at once.
const SLICE_ROWS: usize = 500;
const SLICE_BYTES: usize = 4 << 20;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Rows of all tables.
    pub rows: u64,
    /// Digest of all lines but the last, which says it too.
    pub sha256: String,
}

/// Writes a store that nobody changes meanwhile, usually a copy: rows of different tables belong together.
///
/// # Errors
/// [`Error`]; what was written lacks its last line then.
pub fn export(reader: &Reader, out: &mut dyn Write, progress: &dyn Progress) -> Result<Exported> {
    let total = reader.read(backup::count)?;
    progress.begin(Step::Rows, Some(total));
    let tables = reader.read(|tables, _| Ok::<Tables, StateError>(*tables))?;
    let mut lines = Lines { reader, out, progress, hasher: Sha256::new(), rows: 0, tables: BTreeMap::new() };
    lines.write("", &First { hearth_export: VERSION, format: migrate::FORMAT, hearth: hearth() })?;
    tables.visit(&mut lines)?;
    lines.end()
}

fn hearth() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// The line of a row, by the bytes of its key and its value.
type RowOf<'a> = &'a dyn Fn(&[u8], &[u8]) -> Result<Row>;

struct Lines<'a> {
    reader: &'a Reader,
    out: &'a mut dyn Write,
    progress: &'a dyn Progress,
    hasher: Sha256,
    rows: u64,
    tables: BTreeMap<String, u64>,
}

impl Lines<'_> {
    fn write(&mut self, table: &'static str, line: &impl serde::Serialize) -> Result<()> {
        let mut text = seal(&serde_json::to_string(line).map_err(|source| Error::Json { table, source })?);
        text.push('\n');
        self.hasher.update(text.as_bytes());
        self.out.write_all(text.as_bytes()).map_err(Error::Write)
    }

    fn rows<K: KeyPart, V, C: Codec<V>>(
        &mut self,
        about: &About,
        rows: &Rows<K, V, C>,
        line: impl Fn(V, &[u8]) -> serde_json::Result<(Box<RawValue>, Option<String>)>,
    ) -> Result<()> {
        self.walk(about.name, rows.bytes(), &|key_bytes, value_bytes| {
            let (key, value) = rows.decode(key_bytes, value_bytes)?;
            let (value, value_bytes) =
                line(value, value_bytes).map_err(|source| Error::Json { table: about.name, source })?;
            let mut parts = Vec::new();
            key.show(&mut parts);
            let (table, key_bytes) = (about.name.to_owned(), to_hex(key_bytes));
            Ok(Row { table, key: parts, key_bytes, version: C::version(), value, value_bytes })
        })
    }

    /// What does not depend on a table's types is compiled once.
    fn walk(&mut self, table: &'static str, bytes: ByteTable<'_>, row: RowOf<'_>) -> Result<()> {
        let (mut last, mut count) = (None, 0_u64);
        loop {
            let slice: Vec<ByteRow> =
                self.reader.read(|_, txn| slice_of(bytes, txn, last.as_deref(), (SLICE_ROWS, SLICE_BYTES)))?;
            if slice.is_empty() {
                break;
            }
            self.progress.advance(u64::try_from(slice.len()).unwrap_or(u64::MAX));
            for (key, value) in slice {
                self.write(table, &row(&key, &value)?)?;
                count = count.saturating_add(1);
                last = Some(key);
            }
        }
        self.rows = self.rows.saturating_add(count);
        self.tables.insert(table.to_owned(), count);
        Ok(())
    }

    fn end(mut self) -> Result<Exported> {
        let sha256 = backup::hex(std::mem::take(&mut self.hasher));
        let (rows, tables) = (self.rows, std::mem::take(&mut self.tables));
        self.write("", &Last { end: true, rows, tables, sha256: sha256.clone() })?;
        self.out.flush().map_err(Error::Write)?;
        Ok(Exported { rows, sha256 })
    }
}

impl Visitor for Lines<'_> {
    type Error = Error;

    fn table<K: KeyPart, V: Record>(&mut self, about: &About, table: &Table<K, V>) -> Result<()> {
        self.rows(about, table, |value, _| Ok((to_raw_value(&value)?, None)))
    }

    fn index<K: KeyPart, V: KeyPart>(&mut self, about: &About, index: &Index<K, V>) -> Result<()> {
        self.rows(about, index, |value, bytes| {
            let mut parts = Vec::new();
            value.show(&mut parts);
            Ok((to_raw_value(&parts)?, Some(to_hex(bytes))))
        })
    }
}
