//! Follows changes: compares the rows of each table with their state at the last look.
//!
//! The number of the last transaction tells whether anything changed. If so, all tables are walked in slices, each in
//! its own read transaction. A digest per row is remembered. A row that changes twice between two looks is shown once,
//! and one that is added and removed between them is not shown.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write;

use super::{DumpLine, Options, Row, name, put};
use crate::error::{Error, Result};
use crate::hex::hex;
use crate::reader::Reader;
use crate::schema::Tables;
use crate::tables::About;
use crate::untyped::Untyped;

/// Digest of a row's value, by the bytes of its key.
type Held = BTreeMap<Vec<u8>, u64>;

/// State that is kept between two looks.
pub struct Follow<'a> {
    reader: &'a Reader,
    options: Options,
    held: BTreeMap<&'static str, Held>,
    last: Option<usize>,
}

/// Result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Rows that were added, changed or removed.
    pub rows: u64,
    /// Of these, rows that cannot be read.
    pub unreadable: u64,
}

impl<'a> Follow<'a> {
    /// Remembers the current rows.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn start(reader: &'a Reader, options: Options) -> Result<Self> {
        let mut follow = Self { reader, options, held: BTreeMap::new(), last: None };
        follow.look(None)?;
        Ok(follow)
    }

    /// Writes what has changed since the last look.
    ///
    /// # Errors
    /// Those of reading the store, and [`Error::Io`] of the output. Rows that cannot be read are counted instead.
    pub fn changes(&mut self, out: &mut dyn Write) -> Result<Changes> {
        self.look(Some(out))
    }

    fn look<'b>(&'b mut self, out: Option<&'b mut (dyn Write + 'b)>) -> Result<Changes> {
        let last = self.reader.last_change();
        if self.last == Some(last) {
            return Ok(Changes::default());
        }
        let tables = self.reader.read(|tables, _| Ok::<Tables, Error>(*tables))?;
        let mut look = FollowPass {
            reader: self.reader,
            options: &self.options,
            held: &mut self.held,
            out,
            changes: Changes::default(),
        };
        for (about, rows) in tables.all().filter(|(about, _)| self.options.names(about)) {
            look.table(about, rows)?;
        }
        let changes = look.changes;
        self.last = Some(last); // the number before the look: changes made during the look are examined again
        Ok(changes)
    }
}

struct FollowPass<'a> {
    reader: &'a Reader,
    options: &'a Options,
    held: &'a mut BTreeMap<&'static str, Held>,
    out: Option<&'a mut dyn Write>,
    changes: Changes,
}

/// Kind of a change: the word for programs, and the sign for people.
type What = (&'static str, char);

const ADDED: What = ("added", '+');
const CHANGED: What = ("changed", '~');
const REMOVED: What = ("removed", '-');

impl FollowPass<'_> {
    fn table(&mut self, about: &'static About, rows: &dyn Untyped) -> Result<()> {
        let mut before = self.held.remove(about.name).unwrap_or_default();
        let mut now = Held::new();
        self.reader.each_slice(rows.bytes(), &mut |slice| {
            for (key, value) in slice {
                let digest = digest(&value);
                match before.remove(&key) {
                    Some(old) if old == digest => {}
                    old => {
                        let what = if old.is_some() { CHANGED } else { ADDED };
                        self.row(about, what, &key, self.options.show(rows, &key, &value))?;
                    }
                }
                now.insert(key, digest);
            }
            Ok::<_, Error>(())
        })?;
        for key in before.into_keys() {
            self.removed(about, &rows.key(&key).unwrap_or_else(|_| vec![hex(&key)]))?;
        }
        self.held.insert(about.name, now);
        Ok(())
    }

    fn row(&mut self, about: &About, (word, sign): What, key: &[u8], row: Result<Row>) -> Result<()> {
        if self.out.is_none() {
            return Ok(());
        }
        self.changes.rows += 1;
        let table = about.name;
        match row {
            Ok(row) => {
                let json = DumpLine { table, change: Some(word), key: &row.key, value: row.json(), unreadable: None };
                self.line(&format!("{sign} {table} {}", row.text()), &json)
            }
            Err(error) => {
                self.changes.unreadable += 1;
                let (key, reason) = ([hex(key)], error.to_string());
                let text = format!("{sign} {table} {}: !! {reason}", key.concat());
                self.line(
                    &text,
                    &DumpLine { table, change: Some(word), key: &key, value: None, unreadable: Some(reason) },
                )
            }
        }
    }

    fn removed(&mut self, about: &About, key: &[String]) -> Result<()> {
        let ((word, sign), table) = (REMOVED, about.name);
        self.changes.rows += 1;
        let json = DumpLine { table, change: Some(word), key, value: None, unreadable: None };
        self.line(&format!("{sign} {table} {}", name(key)), &json)
    }

    fn line(&mut self, text: &str, json: &DumpLine<'_>) -> Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        put(*out, self.options.format, text, json)
    }
}

fn digest(value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
