//! Imports JSON lines into a new store.

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{Error, First, Last, Result, Row, VERSION, from_hex, unseal};
use crate::backup::{self, LockedStore, Progress, Step, put_in_place};
use crate::references::{Agree, Incoming, Reference};
use crate::store::Draft;
use crate::untyped::{Foreign, NotTaken, Untyped};
use crate::{Error as StateError, Write, check, migrate};

/// Rows and bytes of one transaction.
const BATCH_ROWS: usize = 1_000;
const BATCH_BYTES: usize = 8 << 20;

/// Upper bound of a line: the largest record, with every byte escaped.
const LINE_MAX: u64 = 256 << 20;

/// Parameters of an import.
#[derive(Debug, Clone, Copy)]
pub struct Import<'a> {
    /// The data directory. It exists and has no store.
    pub data: &'a Path,
    /// Id of a new installation; none if the imported store keeps its own.
    pub install: Option<u64>,
    /// Entropy for the epoch of outgoing ids that begins.
    pub epoch: u64,
}

/// Result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Rows of all tables.
    pub rows: u64,
    /// Id of the installation.
    pub install: u64,
    /// Files it reads and commands it runs.
    pub references: Vec<Reference>,
}

/// Creates a store from an export. `agree` is asked after verification, before anything is changed.
///
/// # Errors
/// [`Error`]; there is no store then.
pub fn import(
    request: Import<'_>,
    input: &mut dyn BufRead,
    agree: Agree<'_>,
    progress: &dyn Progress,
) -> Result<Imported> {
    let target = LockedStore::take(request.data)?;
    if target.is_taken()? || target.has_mailboxes()? {
        return Err(backup::Error::NotNew { path: request.data.to_owned() }.into());
    }
    let part = target.next()?;
    let full = |error: Error| match error {
        Error::State(e) => Error::Copy(backup::Error::of_store(e, part.path())),
        error => error,
    };
    let draft = Draft::make(part.path(), None).map_err(|e| full(e.into()))?;
    progress.begin(Step::Rows, None);
    let mut lines = Lines { input, line: 0, hasher: Sha256::new() };
    let rows = take_in(&draft, &mut lines, progress).map_err(full)?;
    progress.begin(Step::Checking, None);
    let found = check::check_in_parts(draft.reader())?;
    if let Some(first) = found.first() {
        return Err(Error::Unsound { count: found.len(), first: first.to_string() });
    }
    let incoming = Incoming::of(draft.reader())?;
    agree(&incoming).map_err(|why| backup::Error::NotAgreed { why })?;
    let install = draft.begin_epoch(request.epoch, request.install).map_err(|e| full(e.into()))?.install;
    drop(draft); // closed before its directory is moved
    put_in_place(&target, part, None)?;
    Ok(Imported { rows, install, references: incoming.references })
}

struct Lines<'a> {
    input: &'a mut dyn BufRead,
    line: u64,
    hasher: Sha256,
}

impl Lines<'_> {
    /// The next line without its checksum, and its length.
    fn next(&mut self) -> Result<Option<(String, usize)>> {
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(LINE_MAX).read_until(b'\n', &mut bytes).map_err(Error::Read)?;
        if read == 0 {
            return Ok(None);
        }
        if bytes.last() != Some(&b'\n') {
            return Err(Error::CutOff { lines: self.line });
        }
        self.line = self.line.saturating_add(1);
        let object = std::str::from_utf8(&bytes).ok().and_then(|text| unseal(text.trim_end_matches('\n')));
        let object = object.ok_or_else(|| self.bad("its checksum is wrong or missing: it was changed or damaged"))?;
        Ok(Some((object, read)).inspect(|(object, _)| {
            if !is_last(object) {
                self.hasher.update(&bytes);
            }
        }))
    }

    fn bad(&self, reason: impl Into<String>) -> Error {
        Error::Line { line: self.line, reason: reason.into() }
    }
}

/// Only lines of rows begin with a table.
fn is_last(object: &str) -> bool {
    object.starts_with("{\"end\":")
}

fn take_in(draft: &Draft, lines: &mut Lines<'_>, progress: &dyn Progress) -> Result<u64> {
    let Some((first, _)) = lines.next()? else { return Err(Error::CutOff { lines: 0 }) };
    begin(lines, &first)?;
    let mut counts = BTreeMap::new();
    let (mut batch, mut bytes, mut rows) = (Vec::new(), 0, 0_u64);
    loop {
        let Some((object, size)) = lines.next()? else { return Err(Error::CutOff { lines: lines.line }) };
        let at_end = is_last(&object);
        if at_end || batch.len() >= BATCH_ROWS || bytes >= BATCH_BYTES {
            progress.advance(u64::try_from(batch.len()).unwrap_or(u64::MAX));
            put(draft, &std::mem::take(&mut batch))?;
            bytes = 0;
        }
        if at_end {
            end(lines, &object, rows, &counts)?;
            return Ok(rows);
        }
        let row: Row = serde_json::from_str(&object).map_err(|e| lines.bad(format!("it is not a row: {e}")))?;
        *counts.entry(row.table.clone()).or_insert(0_u64) += 1;
        batch.push((lines.line, row));
        rows = rows.saturating_add(1);
        bytes += size;
    }
}

fn begin(lines: &Lines<'_>, first: &str) -> Result<()> {
    let First { hearth_export, format, hearth } =
        serde_json::from_str(first).map_err(|e| lines.bad(format!("this is not an export of a store: {e}")))?;
    if hearth_export > VERSION || format > migrate::FORMAT {
        return Err(lines.bad(format!("the export was made by a newer Hearth ({hearth}): install that one")));
    }
    if format < migrate::FORMAT {
        let what =
            format!("the export has the older format {format}: import it with Hearth {hearth}, then start this one");
        return Err(lines.bad(what));
    }
    Ok(())
}

fn end(lines: &mut Lines<'_>, object: &str, rows: u64, counts: &BTreeMap<String, u64>) -> Result<()> {
    let last: Last = serde_json::from_str(object).map_err(|e| lines.bad(format!("it is not a last line: {e}")))?;
    let stated = last.tables.iter().filter(|(_, rows)| **rows > 0);
    if last.rows != rows || !stated.eq(counts.iter()) {
        return Err(
            lines.bad(format!("it states {} rows, there were {rows}: lines are missing or duplicated", last.rows))
        );
    }
    if last.sha256 != backup::hex(std::mem::take(&mut lines.hasher)) {
        return Err(lines.bad("the digest of all lines is wrong: lines were moved or swapped"));
    }
    let line = lines.line;
    match lines.next() {
        Ok(None) => Ok(()),
        _ => Err(Error::Line {
            line: line.saturating_add(1),
            reason: "there is more data after the last line".to_owned(),
        }),
    }
}

fn put(draft: &Draft, rows: &[(u64, Row)]) -> Result<()> {
    draft.write(|db, txn| {
        for (line, row) in rows {
            let Some((_, table)) = db.all().find(|(about, _)| about.name == row.table) else {
                let reason =
                    format!("unknown table `{}`: the export is from a newer Hearth, or was changed", row.table);
                return Err(Error::Line { line: *line, reason });
            };
            put_row(txn, table, row).map_err(|bad| bad.at(*line))?;
        }
        Ok(())
    })
}

fn put_row(txn: &mut Write<'_>, table: &dyn Untyped, row: &Row) -> Result<(), Bad> {
    if let Some((_, known)) = table.record() {
        takes(row.version, known)?;
    }
    let name = &row.table;
    let key = from_hex(&row.key_bytes).ok_or_else(|| Bad::Row("its key is not hex".to_owned()))?;
    let bytes = row.value_bytes.as_deref().and_then(from_hex);
    let value = Foreign { json: row.value.get(), bytes: bytes.as_deref() };
    table.take_in(txn, &key, value).map_err(|why| match why {
        NotTaken::Key(why) => Bad::Row(format!("its key is not one of {name}: {why}")),
        NotTaken::Value(Some(why)) => Bad::Row(format!("its value is not one of {name}: {why}")),
        NotTaken::Value(None) => Bad::Row(format!("its value is not one of {name}")),
        NotTaken::Store(error) => Bad::Store(error),
    })
}

/// Whether the version of a record is the one that this program writes.
fn takes(found: Option<u16>, known: u16) -> Result<(), Bad> {
    match found {
        Some(version) if version == known => Ok(()),
        Some(version) if version > known => Err(Bad::Row(format!(
            "its record has version {version}, this Hearth supports versions only up to {known}: install the newer Hearth"
        ))),
        version => {
            let version = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
            Err(Bad::Row(format!("its record has version {version}, an import takes {known}")))
        }
    }
}

enum Bad {
    Row(String),
    Store(StateError),
}

impl Bad {
    fn at(self, line: u64) -> Error {
        match self {
            Self::Row(reason) => Error::Line { line, reason },
            Self::Store(error @ (StateError::Full { .. } | StateError::Lmdb { .. })) => error.into(),
            Self::Store(error) => Error::Line { line, reason: error.to_string() },
        }
    }
}
