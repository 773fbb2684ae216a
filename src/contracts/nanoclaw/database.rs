//! Reads SQLite files of a program that may still be running. The database and its journal are copied, and the copy is
//! read. Nothing is opened, locked, created or written beside the original.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSql, ValueRef};
use rusqlite::{Connection, OpenFlags};

use super::error::Error;
use crate::config::temp_dir::{Purpose, TempDir};
use crate::contracts::dir::{Content, Dir, Stamp};

/// How often copying is retried if the file changes.
const TRIES: usize = 5;

/// Size limits in bytes of a copied file, and of the rows read from one table.
const FILE_MAX: u64 = 1 << 30;
const TABLE_MAX: usize = 512 << 20;

/// Last bytes of a journal that names a super-journal. SQLite would open that file, wherever it is, and delete it.
const NAMES_ANOTHER: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Suffixes of SQLite's files beside a database: committed changes that are not in it yet, or changes to undo.
const BESIDE: [&str; 2] = ["-wal", "-journal"];

/// The open copy of a database. Dropping this deletes the copy.
pub(super) struct Database {
    connection: Connection,
    /// Path of the original.
    path: PathBuf,
    tables: BTreeSet<String>,
    _copy: TempDir,
}

/// One row: values by column name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Row(BTreeMap<String, Value>);

/// A SQLite value of a supported type.
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
    /// [`Error`] if it changes constantly, is damaged, or is not a database or a regular file.
    pub(super) fn open(dir: &Dir, name: &str) -> Result<Self, Error> {
        let path = dir.path().join(name);
        let copy = TempDir::create(Purpose::Import);
        let copy = copy.map_err(|error| Error::io("make a directory for a copy of", &path, error))?;
        let place = copy.path().join("copy.db");
        copy_still(dir, name, &place)?;
        refuse_names(&path, &with_end(&place, "-journal"))?;
        let damaged = |error: rusqlite::Error| Error::Damaged { path: path.clone(), what: words(&error) };
        let connection = connect(&place).map_err(damaged)?;
        let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(damaged)?;
        if sound != "ok" {
            return Err(Error::Damaged { path, what: sound });
        }
        let tables = tables(&connection).map_err(damaged)?;
        Ok(Self { connection, path, tables, _copy: copy })
    }

    /// Whether a table exists.
    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.contains(table)
    }

    /// Checks that required tables and columns exist.
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

    /// All rows of a table in insertion order; empty if the table does not exist.
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

    /// The rows of a query. `table` is for messages.
    pub(super) fn query(&self, table: &str, sql: &str, values: &[&dyn ToSql]) -> Result<Vec<Row>, Error> {
        let fault = |error: rusqlite::Error| self.table_error(table, &error);
        let mut query = self.connection.prepare(sql).map_err(fault)?;
        let names: Vec<String> = query.column_names().map(str::to_owned).collect();
        let mut found = query.query(values).map_err(fault)?;
        let mut rows = Vec::new();
        let mut bytes = 0_usize;
        while let Some(row) = found.next().map_err(fault)? {
            let mut values = BTreeMap::new();
            for (at, name) in names.iter().enumerate() {
                if let Some(value) = value(row.get_ref(at).map_err(fault)?) {
                    bytes = bytes.saturating_add(name.len()).saturating_add(value.bytes());
                    values.insert(name.clone(), value);
                }
            }
            if bytes > TABLE_MAX {
                let what = format!("it has more than {TABLE_MAX} bytes");
                return Err(Error::Table { path: self.path.clone(), table: table.to_owned(), what });
            }
            rows.push(Row(values));
        }
        Ok(rows)
    }

    fn table_error(&self, table: &str, error: &rusqlite::Error) -> Error {
        Error::Table { path: self.path.clone(), table: table.to_owned(), what: words(error) }
    }
}

/// Opens a copy without trusting its schema: no triggers, views, or functions with side effects.
fn connect(place: &Path) -> rusqlite::Result<Connection> {
    // The journal is applied to the copy, which therefore has to be writable.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(place, flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    for off in [
        DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA,
        DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
    ] {
        connection.set_db_config(off, false)?;
    }
    Ok(connection)
}

/// Ordinary tables. Virtual tables, which have no root page, are ignored.
fn tables(connection: &Connection) -> rusqlite::Result<BTreeSet<String>> {
    let mut query = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")?;
    query.query_map([], |row| row.get(0))?.collect()
}

/// Converts a value. Binary data counts as absent: NanoClaw stores none.
fn value(value: ValueRef<'_>) -> Option<Value> {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => None,
        ValueRef::Integer(number) => Some(Value::Integer(number)),
        ValueRef::Real(number) => Some(Value::Real(number)),
        ValueRef::Text(text) => Some(Value::Text(String::from_utf8_lossy(text).into_owned())),
    }
}

impl Value {
    const fn bytes(&self) -> usize {
        match self {
            Self::Integer(_) | Self::Real(_) => size_of::<Self>(),
            Self::Text(text) => size_of::<Self>().saturating_add(text.len()),
        }
    }
}

fn words(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(words)) => words.clone(),
        other => other.to_string(),
    }
}

impl Row {
    /// A column as text; `None` if it is null or missing.
    pub(super) fn text(&self, column: &str) -> Option<String> {
        self.0.get(column).map(|value| match value {
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Text(text) => text.clone(),
        })
    }

    /// The same, but empty text counts as missing.
    pub(super) fn filled(&self, column: &str) -> Option<String> {
        self.text(column).filter(|text| !text.trim().is_empty())
    }

    /// A name in a message; empty if it is missing.
    pub(super) fn name(&self, column: &str) -> String {
        self.text(column).unwrap_or_default()
    }

    /// A column as a number. SQLite columns can hold numbers as text.
    pub(super) fn number(&self, column: &str) -> Option<i64> {
        match self.0.get(column)? {
            Value::Integer(number) => Some(*number),
            Value::Real(_) => None,
            Value::Text(text) => text.trim().parse().ok(),
        }
    }

    /// Whether a column is true.
    pub(super) fn is_set(&self, column: &str) -> bool {
        self.number(column).is_some_and(|number| number != 0)
    }
}

/// Copies a database and its journal in a consistent state: none of the files may change meanwhile.
fn copy_still(dir: &Dir, name: &str, place: &Path) -> Result<(), Error> {
    for _ in 0..TRIES {
        let before = looks(dir, name)?;
        for (end, found) in &before {
            let to = with_end(place, end);
            match found {
                Some(_) => copy(dir, format!("{name}{end}").as_ref(), &to)?,
                None => remove(&to)?,
            }
        }
        if looks(dir, name)? == before {
            return Ok(());
        }
    }
    Err(Error::Busy { path: dir.path().join(name) })
}

fn looks(dir: &Dir, name: &str) -> Result<Vec<(&'static str, Option<Stamp>)>, Error> {
    let mut all = Vec::new();
    for end in std::iter::once("").chain(BESIDE) {
        all.push((end, dir.stamp(format!("{name}{end}").as_ref())?));
    }
    Ok(all)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn copy(dir: &Dir, name: &OsStr, to: &Path) -> Result<(), Error> {
    let path = dir.path().join(name);
    let source = match dir.file(name, FILE_MAX)? {
        Ok(source) => source,
        // It was removed meanwhile; the second check notices.
        Err(Content::Absent) => return remove(to),
        Err(Content::Refused(why)) => return Err(Error::Refused { path, why }),
        Err(Content::Whole(_)) => return Ok(()),
    };
    let copied = File::create(to).and_then(|mut to| io::copy(&mut source.take(FILE_MAX), &mut to));
    copied.map(drop).map_err(|error| Error::io("copy", &path, error))
}

/// Rejects a journal that names a super-journal.
fn refuse_names(path: &Path, journal: &Path) -> Result<(), Error> {
    let mut end = [0; NAMES_ANOTHER.len()];
    let read = match File::open(journal) {
        Ok(mut file) => file.seek(SeekFrom::End(-8)).and_then(|_| file.read_exact(&mut end)),
        Err(error) => Err(error),
    };
    // A shorter journal names none.
    if read.is_ok() && end == NAMES_ANOTHER {
        let why = "its journal refers to another file, which Hearth does not open".to_owned();
        return Err(Error::Refused { path: path.to_owned(), why });
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove the copy", path, error)),
        _ => Ok(()),
    }
}
