//! The whole store as text or as JSON lines, for people, bug reports and snapshots of tests.
//!
//! It walks the list of tables, so no table can be forgotten. It works beside a running daemon: rows are copied out in
//! slices, each in a read transaction of its own, and nothing is written while one is open. So what is shown of one
//! table may be a moment younger than what was shown of another. A row that cannot be read is shown as such, and the
//! walk goes on.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::envelope::Record;
use super::error::{Error, Result};
use super::key::KeyPart;
use super::schema::Tables;
use super::store::Reader;
use super::table::{ByteRow, Codec, Index, Rows, Table};
use super::tables::{About, Visitor};

mod follow;

pub use follow::{Changes, Follow};

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people: a heading per table, a line per row; empty tables are left out.
    Text,
    /// For programs: one JSON object per row.
    Json,
}

/// What is written.
#[derive(Debug, Clone)]
pub struct Options {
    /// How.
    pub format: Format,
    /// Only this table.
    pub table: Option<String>,
    /// With what people wrote and what they are called.
    pub bodies: bool,
}

/// What was written.
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
    tables.visit(&mut Tour(&mut walk))?;
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

/// A slice is what one read transaction copies: far less than a second's work.
const SLICE_ROWS: usize = 500;
const SLICE_BYTES: usize = 4 << 20;

struct Walk<'a> {
    reader: &'a Reader,
    options: &'a Options,
    out: &'a mut dyn Write,
    summary: Summary,
}

/// A row, ready to be written.
struct Shown {
    name: String,
    key: Vec<String>,
    text: String,
    json: serde_json::Value,
}

#[derive(Serialize)]
struct Line<'a> {
    table: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'a str>,
    key: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

impl Show for Walk<'_> {
    fn options(&self) -> &Options {
        self.options
    }

    fn rows<K: KeyPart, V, C: Codec<V>>(
        &mut self,
        about: &About,
        rows: &Rows<K, V, C>,
        show: impl Fn(K, V) -> Shown,
    ) -> Result<()> {
        self.summary.tables += 1;
        let mut begun = false;
        each_row(self.reader, rows, |(key, value)| {
            if !std::mem::replace(&mut begun, true) {
                self.heading(about)?;
            }
            match rows.decode(&key, &value) {
                Ok((key, value)) => self.row(about, &show(key, value)),
                Err(error) => self.unreadable(about, &super::table::hex(&key), &error),
            }
        })
    }
}

impl Walk<'_> {
    fn heading(&mut self, about: &About) -> Result<()> {
        match self.options.format {
            Format::Text => {
                writeln!(self.out, "# {} ({}): {}", about.name, about.kind.as_str(), about.purpose).map_err(output)
            }
            Format::Json => Ok(()),
        }
    }

    fn row(&mut self, about: &About, row: &Shown) -> Result<()> {
        self.summary.rows += 1;
        let text = if row.text.is_empty() { row.name.clone() } else { format!("{}: {}", row.name, row.text) };
        let value = Some(&row.json);
        let line = Line { table: about.name, change: None, key: &row.key, value, unreadable: None };
        put(self.out, self.options.format, &text, &line)
    }

    fn unreadable(&mut self, about: &About, key: &str, error: &Error) -> Result<()> {
        self.summary.unreadable += 1;
        let reason = error.to_string();
        let (text, key) = (format!("{key}: !! {reason}"), [key.to_owned()]);
        let line = Line { table: about.name, change: None, key: &key, value: None, unreadable: Some(reason) };
        put(self.out, self.options.format, &text, &line)
    }
}

fn output(source: std::io::Error) -> Error {
    Error::Io { path: PathBuf::from("the output"), source }
}

/// Somebody who shows tables, without regard to what their rows are.
trait Show {
    fn options(&self) -> &Options;

    fn rows<K: KeyPart, V, C: Codec<V>>(
        &mut self,
        about: &About,
        rows: &Rows<K, V, C>,
        show: impl Fn(K, V) -> Shown,
    ) -> Result<()>;
}

/// Leads somebody through the tables that are wanted.
struct Tour<'a, S>(&'a mut S);

impl<S: Show> Tour<'_, S> {
    fn skips(&self, about: &About) -> bool {
        self.0.options().table.as_deref().is_some_and(|wanted| wanted != about.name)
    }
}

impl<S: Show> Visitor for Tour<'_, S> {
    type Error = Error;

    fn table<K: KeyPart, V: Record>(&mut self, about: &About, table: &Table<K, V>) -> Result<()> {
        if self.skips(about) {
            return Ok(());
        }
        let bodies = self.0.options().bodies;
        self.0.rows(about, table, |key, value| of_record(&key, value, bodies))
    }

    fn index<K: KeyPart, V: KeyPart>(&mut self, about: &About, index: &Index<K, V>) -> Result<()> {
        if self.skips(about) {
            return Ok(());
        }
        self.0.rows(about, index, |key, value| of_index(&key, &value))
    }
}

/// Does something with every row of a table, slice by slice; no transaction is open meanwhile.
fn each_row<K: KeyPart, V, C: Codec<V>>(
    reader: &Reader,
    rows: &Rows<K, V, C>,
    mut work: impl FnMut(ByteRow) -> Result<()>,
) -> Result<()> {
    let mut last: Option<Vec<u8>> = None;
    loop {
        let slice = reader.read(|_, txn| rows.slice(txn, last.as_deref(), SLICE_ROWS, SLICE_BYTES))?;
        let Some((key, _)) = slice.last() else { return Ok(()) };
        last = Some(key.clone());
        slice.into_iter().try_for_each(&mut work)?;
    }
}

/// Writes one row, as text or as JSON.
fn put(out: &mut dyn Write, format: Format, text: &str, line: &Line<'_>) -> Result<()> {
    match format {
        Format::Text => writeln!(out, "{text}").map_err(output),
        Format::Json => {
            let text = serde_json::to_string(line).map_err(|e| output(e.into()))?;
            writeln!(out, "{text}").map_err(output)
        }
    }
}

fn of_record<K: KeyPart, V: Record>(key: &K, mut value: V, bodies: bool) -> Shown {
    if !bodies {
        value.redact();
    }
    let json = serde_json::to_value(&value).unwrap_or_default();
    Shown { name: key.shown(), key: parts(key), text: format!("{value:?}"), json }
}

fn of_index<K: KeyPart, V: KeyPart>(key: &K, value: &V) -> Shown {
    let value = parts(value);
    Shown { name: key.shown(), key: parts(key), text: value.join("/"), json: value.into() }
}

fn parts(key: &impl KeyPart) -> Vec<String> {
    let mut parts = Vec::new();
    key.show(&mut parts);
    parts
}
