//! Exports a store as JSON lines.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{Error, First, Last, Result, Row, VERSION, seal, to_hex};
use crate::backup::{self, Progress, Step};
use crate::reader::Reader;
use crate::schema::Tables;
use crate::tables::{About, Kind};
use crate::untyped::{RowFormat, RowText, Untyped};
use crate::{Error as StateError, migrate};

/// Result of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Rows of all tables.
    pub rows: u64,
    /// Digest of all lines but the last. The last line contains it.
    pub sha256: String,
}

/// Writes a store as lines. The store must not change meanwhile, because rows of different tables belong together;
/// usually it is a copy.
///
/// # Errors
/// [`Error`]; what was written lacks its last line then.
pub fn export(reader: &Reader, out: &mut dyn Write, progress: &dyn Progress) -> Result<Exported> {
    let total = reader.read(backup::count)?;
    progress.begin(Step::Rows, Some(total));
    let tables = reader.read(|tables, _| Ok::<Tables, StateError>(*tables))?;
    let mut lines = Lines { reader, out, progress, hasher: Sha256::new(), rows: 0, tables: BTreeMap::new() };
    lines.write("", &First { hearth_export: VERSION, format: migrate::FORMAT, hearth: hearth() })?;
    tables.all().try_for_each(|(about, rows)| lines.table(about, rows))?;
    lines.end()
}

fn hearth() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

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

    fn table(&mut self, about: &About, rows: &dyn Untyped) -> Result<()> {
        let mut count = 0_u64;
        self.reader.each_slice(rows.bytes(), &mut |slice| {
            self.progress.advance(u64::try_from(slice.len()).unwrap_or(u64::MAX));
            for (key, value) in slice {
                self.write(about.name, &row_of(about, rows, &key, &value)?)?;
                count = count.saturating_add(1);
            }
            Ok::<_, Error>(())
        })?;
        self.rows = self.rows.saturating_add(count);
        self.tables.insert(about.name.to_owned(), count);
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

fn row_of(about: &About, rows: &dyn Untyped, key: &[u8], value: &[u8]) -> Result<Row> {
    let table = about.name;
    let RowText { key: parts, value: json } = rows.show(key, value, RowFormat::Json, true)?;
    Ok(Row {
        table: table.to_owned(),
        key: parts,
        key_bytes: to_hex(key),
        version: rows.record().map(|(_, version)| version),
        value: RawValue::from_string(json).map_err(|source| Error::Json { table, source })?,
        value_bytes: (about.kind == Kind::Index).then(|| to_hex(value)),
    })
}
