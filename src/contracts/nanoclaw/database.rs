//! SQLite files of another program, which may still run: they are copied with what belongs to them, and the copy is read.
//! Nothing is ever opened, locked, made or written beside the original.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSql, ValueRef};
use rusqlite::{Connection, OpenFlags};

use super::error::Error;

/// How often a file that changes is copied again.
const TRIES: usize = 5;

/// What SQLite keeps beside a database: what was written and is not in it yet, or what is to be undone.
const BESIDE: [&str; 2] = ["-wal", "-journal"];

/// The copy of a database, open; it goes with this.
pub(super) struct Database {
    connection: Connection,
    /// Where the original is.
    path: PathBuf,
    tables: BTreeSet<String>,
    _copy: tempfile::TempDir,
}

/// One row: what it says by the name of the column, whichever columns there are.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Row(BTreeMap<String, Value>);

/// A value of SQLite that can mean something here.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Integer(i64),
    Real(f64),
    Text(String),
}

impl Database {
    /// Copies a database and opens the copy.
    ///
    /// # Errors
    /// [`Error`] if it is written all the time, is damaged or is no database.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let copy = tempfile::Builder::new().prefix("hearth-import-").tempdir();
        let copy = copy.map_err(|error| Error::io("make a directory for a copy of", path, error))?;
        let place = copy.path().join("copy.db");
        copy_still(path, &place)?;
        let damaged = |error: rusqlite::Error| Error::Damaged { path: path.to_owned(), what: words(&error) };
        // What has to be undone or taken from the log is done to the copy, which is why it can be written.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&place, flags).map_err(damaged)?;
        let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(damaged)?;
        if sound != "ok" {
            return Err(Error::Damaged { path: path.to_owned(), what: sound });
        }
        let tables = tables(&connection).map_err(damaged)?;
        Ok(Self { connection, path: path.to_owned(), tables, _copy: copy })
    }

    /// Whether there is a table.
    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.contains(table)
    }

    /// That these tables with these columns are there, without which it means nothing.
    pub(super) fn need(&self, needed: &[(&str, &[&str])]) -> Result<(), Error> {
        let foreign = |what: String| Error::Foreign { path: self.path.clone(), what };
        for (table, columns) in needed {
            if !self.has(table) {
                return Err(foreign(format!("it has no table `{table}`")));
            }
            let there = self.columns(table)?;
            if let Some(missing) = columns.iter().find(|column| !there.contains(**column)) {
                return Err(foreign(format!("its table `{table}` has no column `{missing}`")));
            }
        }
        Ok(())
    }

    /// The columns of a table.
    pub(super) fn columns(&self, table: &str) -> Result<BTreeSet<String>, Error> {
        let fault = |error: rusqlite::Error| self.table_error(table, &error);
        let mut query = self.connection.prepare("SELECT name FROM pragma_table_info(?1)").map_err(fault)?;
        let names = query.query_map([table], |row| row.get(0)).map_err(fault)?;
        names.collect::<Result<_, _>>().map_err(fault)
    }

    /// All rows of a table in the order in which they were made; none if there is no such table.
    pub(super) fn rows(&self, table: &str) -> Result<Vec<Row>, Error> {
        if self.has(table) { self.query(table, &format!("SELECT * FROM \"{table}\""), &[]) } else { Ok(Vec::new()) }
    }

    /// How many rows a table has.
    pub(super) fn count(&self, table: &str) -> Result<u64, Error> {
        if !self.has(table) {
            return Ok(0);
        }
        let count = self.connection.query_row(&format!("SELECT count(*) FROM \"{table}\""), [], |row| row.get(0));
        let count: i64 = count.map_err(|error| self.table_error(table, &error))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// The rows that a query finds; `table` is for messages.
    pub(super) fn query(&self, table: &str, sql: &str, values: &[&dyn ToSql]) -> Result<Vec<Row>, Error> {
        let fault = |error: rusqlite::Error| self.table_error(table, &error);
        let mut query = self.connection.prepare(sql).map_err(fault)?;
        let names: Vec<String> = query.column_names().map(str::to_owned).collect();
        let mut found = query.query(values).map_err(fault)?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().map_err(fault)? {
            let mut values = BTreeMap::new();
            for (at, name) in names.iter().enumerate() {
                if let Some(value) = value(row.get_ref(at).map_err(fault)?) {
                    values.insert(name.clone(), value);
                }
            }
            rows.push(Row(values));
        }
        Ok(rows)
    }

    fn table_error(&self, table: &str, error: &rusqlite::Error) -> Error {
        Error::Table { path: self.path.clone(), table: table.to_owned(), what: words(error) }
    }
}

fn tables(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let mut query = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
    query.query_map([], |row| row.get(0))?.collect()
}

/// Bytes that are no text are as good as none: NanoClaw keeps none.
fn value(value: ValueRef<'_>) -> Option<Value> {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => None,
        ValueRef::Integer(number) => Some(Value::Integer(number)),
        ValueRef::Real(number) => Some(Value::Real(number)),
        ValueRef::Text(text) => Some(Value::Text(String::from_utf8_lossy(text).into_owned())),
    }
}

fn words(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(words)) => words.clone(),
        other => other.to_string(),
    }
}

impl Row {
    /// What a column says as text; none if it says nothing, or is not there.
    pub(super) fn text(&self, column: &str) -> Option<String> {
        self.0.get(column).map(|value| match value {
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Text(text) => text.clone(),
        })
    }

    /// The same, where nothing is as good as an empty text.
    pub(super) fn filled(&self, column: &str) -> Option<String> {
        self.text(column).filter(|text| !text.trim().is_empty())
    }

    /// The same for what has to be named in messages.
    pub(super) fn name(&self, column: &str) -> String {
        self.text(column).unwrap_or_default()
    }

    /// What a column says as a number; SQLite keeps what it was given, so that texts can be numbers.
    pub(super) fn number(&self, column: &str) -> Option<i64> {
        match self.0.get(column)? {
            Value::Integer(number) => Some(*number),
            Value::Real(_) => None,
            Value::Text(text) => text.trim().parse().ok(),
        }
    }

    /// Whether a column says that something is so.
    pub(super) fn is_set(&self, column: &str) -> bool {
        self.number(column).is_some_and(|number| number != 0)
    }
}

/// Copies a database with what lies beside it, as it is at one moment: none of them may change meanwhile.
fn copy_still(path: &Path, place: &Path) -> Result<(), Error> {
    for _ in 0..TRIES {
        let before = looks(path)?;
        for (end, found) in &before {
            let (from, to) = (with_end(path, end), with_end(place, end));
            match found {
                Some(_) => copy(&from, &to)?,
                None => remove(&to)?,
            }
        }
        if looks(path)? == before {
            return Ok(());
        }
    }
    Err(Error::Busy { path: path.to_owned() })
}

/// What tells two states of a file apart.
type Look = (u64, u64, i64, i64);

fn looks(path: &Path) -> Result<Vec<(&'static str, Option<Look>)>, Error> {
    let all = std::iter::once("").chain(BESIDE);
    all.map(|end| {
        let path = with_end(path, end);
        let look = |found: Metadata| (found.ino(), found.size(), found.mtime(), found.mtime_nsec());
        match std::fs::metadata(&path) {
            Ok(found) if found.is_file() => Ok((end, Some(look(found)))),
            Ok(_) => Err(Error::Damaged { path, what: "it is not a file".to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((end, None)),
            Err(error) => Err(Error::io("look at", &path, error)),
        }
    })
    .collect()
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let mut source = match File::open(from) {
        Ok(source) => source,
        // It went meanwhile, which the second look finds.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return remove(to),
        Err(error) => return Err(Error::io("read", from, error)),
    };
    let copied = File::create(to).and_then(|mut to| io::copy(&mut source, &mut to));
    copied.map(drop).map_err(|error| Error::io("copy", from, error))
}

fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove the copy", path, error)),
        _ => Ok(()),
    }
}
