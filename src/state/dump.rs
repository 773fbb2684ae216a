//! Dumps the whole store as text or as JSON lines, for people, bug reports and snapshot tests.
//!
//! It walks the list of tables, so no table can be forgotten. It works while a daemon writes: rows are copied in
//! slices, each in its own read transaction, and no output is written while one is open. So different tables may be
//! shown at slightly different times. An unreadable row is shown as such, and the walk continues.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::value::RawValue;

use super::error::{Error, Result};
use super::hex::hex;
use super::reader::Reader;
use super::schema::Tables;
use super::tables::About;
use super::untyped::{RowFormat, RowText, Untyped};

mod follow;

pub use follow::{Changes, Follow};

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people: a heading per table, a line per row; empty tables are omitted.
    Text,
    /// For programs: one JSON object per row.
    Json,
}

/// Options of a dump.
#[derive(Debug, Clone)]
pub struct Options {
    /// How.
    pub format: Format,
    /// Only this table.
    pub table: Option<String>,
    /// Whether to include people's texts and names.
    pub bodies: bool,
}

/// Summary of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Tables that were walked.
    pub tables: usize,
    /// Rows that were shown.
    pub rows: u64,
    /// Rows that could not be read.
    pub unreadable: u64,
}

/// Writes the store.
///
/// # Errors
/// Those of reading the store, and [`Error::Io`] of the output. Rows that cannot be read are counted instead.
pub fn dump(reader: &Reader, options: &Options, out: &mut dyn Write) -> Result<Summary> {
    let mut walk = Walk { reader, options, out, summary: Summary::default() };
    let tables = reader.read(|tables, _| Ok::<Tables, Error>(*tables))?;
    tables.all().filter(|(about, _)| options.names(about)).try_for_each(|(about, rows)| walk.table(about, rows))?;
    Ok(walk.summary)
}

/// The store as one text.
///
/// # Errors
/// As for [`dump`].
pub fn to_text(reader: &Reader, bodies: bool) -> Result<String> {
    let mut bytes = Vec::new();
    dump(reader, &Options { format: Format::Text, table: None, bodies }, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Walk<'a> {
    reader: &'a Reader,
    options: &'a Options,
    out: &'a mut dyn Write,
    summary: Summary,
}

#[derive(Serialize)]
struct DumpLine<'a> {
    table: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'a str>,
    key: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

impl Walk<'_> {
    fn table(&mut self, about: &About, rows: &dyn Untyped) -> Result<()> {
        self.summary.tables += 1;
        let mut begun = false;
        self.reader.each_slice(rows.bytes(), &mut |slice| {
            for (key, value) in slice {
                if !std::mem::replace(&mut begun, true) {
                    self.heading(about)?;
                }
                match self.options.show(rows, &key, &value) {
                    Ok(row) => self.row(about, &row)?,
                    Err(error) => self.unreadable(about, &hex(&key), &error)?,
                }
            }
            Ok(())
        })
    }

    fn heading(&mut self, about: &About) -> Result<()> {
        match self.options.format {
            Format::Text => {
                writeln!(self.out, "# {} ({}): {}", about.name, about.kind.as_str(), about.purpose).map_err(output)
            }
            Format::Json => Ok(()),
        }
    }

    fn row(&mut self, about: &About, row: &Row) -> Result<()> {
        self.summary.rows += 1;
        let line = DumpLine { table: about.name, change: None, key: &row.key, value: row.json(), unreadable: None };
        put(self.out, self.options.format, &row.text(), &line)
    }

    fn unreadable(&mut self, about: &About, key: &str, error: &Error) -> Result<()> {
        self.summary.unreadable += 1;
        let reason = error.to_string();
        let (text, key) = (format!("{key}: !! {reason}"), [key.to_owned()]);
        let line = DumpLine { table: about.name, change: None, key: &key, value: None, unreadable: Some(reason) };
        put(self.out, self.options.format, &text, &line)
    }
}

fn output(source: std::io::Error) -> Error {
    Error::Io { path: PathBuf::from("the output"), source }
}

impl Options {
    /// Whether a table is selected.
    fn names(&self, about: &About) -> bool {
        self.table.as_deref().is_none_or(|wanted| wanted == about.name)
    }

    /// A row, formatted as the options say.
    fn show(&self, rows: &dyn Untyped, key: &[u8], value: &[u8]) -> Result<Row> {
        let form = match self.format {
            Format::Text => RowFormat::Text,
            Format::Json => RowFormat::Json,
        };
        let RowText { key, value } = rows.show(key, value, form, self.bodies)?;
        let value = match self.format {
            Format::Text => DumpValue::Text(value),
            Format::Json => DumpValue::Json(RawValue::from_string(value).map_err(|e| output(e.into()))?),
        };
        Ok(Row { key, value })
    }
}

/// A row, ready to be written.
struct Row {
    key: Vec<String>,
    value: DumpValue,
}

enum DumpValue {
    Text(String),
    Json(Box<RawValue>),
}

impl Row {
    fn text(&self) -> String {
        match &self.value {
            DumpValue::Text(text) if !text.is_empty() => format!("{}: {text}", name(&self.key)),
            DumpValue::Text(_) | DumpValue::Json(_) => name(&self.key),
        }
    }

    fn json(&self) -> Option<&RawValue> {
        match &self.value {
            DumpValue::Text(_) => None,
            DumpValue::Json(json) => Some(json),
        }
    }
}

/// A key as one text.
fn name(key: &[String]) -> String {
    if key.is_empty() { "()".to_owned() } else { key.join("/") }
}

/// Writes one row, as text or as JSON.
fn put(out: &mut dyn Write, format: Format, text: &str, line: &DumpLine<'_>) -> Result<()> {
    match format {
        Format::Text => writeln!(out, "{text}").map_err(output),
        Format::Json => {
            let text = serde_json::to_string(line).map_err(|e| output(e.into()))?;
            writeln!(out, "{text}").map_err(output)
        }
    }
}
