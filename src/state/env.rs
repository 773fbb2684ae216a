//! Opens LMDB. This is the project's only code that the compiler does not check.

use std::fs::File;
use std::io::Seek as _;
use std::path::Path;

use heed::{CommitOrAbort, DatabaseOpener, EnvFlags, EnvOpenOptions, WithoutTls};

use rustix::process::{Resource, getrlimit};

use super::bytes::ByteTable;
use super::envelope::{self, Record, Unreadable};
use super::error::{Error, Result, out_of_space};
use super::key::KeyPart;
use super::meta::Meta;
use super::migrate;
use super::pages::{MAP_BYTES, Proved};
use super::schema::Tables;
use super::{Env, Read};

/// Minimum size of the map.
const MAP_BYTES_MIN: usize = 1 << 26;

/// Maximum number of concurrent readers (processes and threads). A slot costs 64 bytes.
const MAX_READERS: u32 = 512;

/// Access mode of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    ReadOnly,
    /// A finished copy that no process writes. It is read without LMDB's locks, so that no lock file is created beside
    /// it.
    Copy,
}

/// Opens the environment in a directory with the largest map that the system grants: 1 TiB, halved until it does. The
/// map is never resized while it is open.
pub(super) fn open(place: &Proved<'_>, access: Access, map_bytes: Option<usize>) -> Result<Env> {
    let dir = place.dir();
    let mut size = map_bytes.unwrap_or_else(|| granted(getrlimit(Resource::As).current));
    loop {
        match open_once(dir, access, size) {
            Err(heed::Error::Io(e)) if e.kind() == std::io::ErrorKind::OutOfMemory && size > MAP_BYTES_MIN => {
                size /= 2;
            }
            Err(heed::Error::Io(source)) if !out_of_space(&source) => {
                return Err(Error::Unopened { path: dir.to_owned(), source });
            }
            opened => return opened.map_err(Error::lmdb("being opened")),
        }
    }
}

/// The size of the map to request. If the address space is limited, it is a quarter of the limit, to leave space for
/// the rest of the process.
fn granted(limit: Option<u64>) -> usize {
    let wanted = limit.map_or(MAP_BYTES, |limit| (limit / 4).min(MAP_BYTES));
    // A whole number of pages of any size.
    let power = wanted.checked_ilog2().unwrap_or_default();
    usize::try_from(1_u64 << power).unwrap_or(1 << 30).max(MAP_BYTES_MIN)
}

fn open_once(dir: &Path, access: Access, map_bytes: usize) -> heed::Result<Env> {
    let flags = match access {
        Access::Write => EnvFlags::empty(),
        Access::ReadOnly => EnvFlags::READ_ONLY,
        Access::Copy => EnvFlags::READ_ONLY | EnvFlags::NO_LOCK,
    };
    let max_dbs = u32::try_from(Tables::ABOUT.len()).unwrap_or(u32::MAX);
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(map_bytes).max_readers(MAX_READERS).max_dbs(max_dbs);
    #[expect(
        unsafe_code,
        reason = "LMDB maps the file. Sound because the daemon's lock admits one writing process, nobody else in the \
                  process opens the store's files, their pages were proved, and no flag weakens LMDB's syncs, nor its locks but for copies that \
                  nobody writes"
    )]
    unsafe {
        options.flags(flags).open(dir)
    }
}

/// Begins a transaction that reads.
#[expect(clippy::disallowed_methods, reason = "the one place where transactions that read begin")]
pub(super) fn begin_read(env: &Env) -> Result<heed::RoTxn<'_, heed::WithoutTls>> {
    env.read_txn().map_err(Error::lmdb("beginning to read"))
}

/// Begins a transaction that writes.
#[expect(clippy::disallowed_methods, reason = "the one place where transactions that write begin")]
pub(super) fn begin_write(env: &Env) -> Result<heed::RwTxn<'_>> {
    env.write_txn().map_err(Error::lmdb("beginning to write"))
}

/// Copies a snapshot into a new file, without unused pages. LMDB refuses to leave those out if it has lost count of its
/// pages; then the copy includes them.
pub(super) fn copy_into(env: &Env, file: &mut File) -> Result<()> {
    let copied = match env.copy_to_file(file, heed::CompactionOption::Enabled) {
        Err(heed::Error::Mdb(heed::MdbError::Incompatible)) => file
            .set_len(0)
            .and_then(|()| file.rewind())
            .map_err(heed::Error::Io)
            .and_then(|()| env.copy_to_file(file, heed::CompactionOption::Disabled)),
        copied => copied,
    };
    copied.map_err(Error::lmdb("being copied"))
}

/// Whether a store must already exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// There is a store: if its identity row is missing, it is damaged.
    Store,
    /// There may be one, or a new one is being created.
    Anything,
}

/// Opens all tables of a store for writing. Creates missing tables in a new store, and in one of an older format. A
/// store of a newer format is left unchanged.
pub(super) fn create_tables(env: &Env, txn: heed::RwTxn<'_>, expected: Expected) -> Result<Tables> {
    let no_table = |table| Error::NoTable { table };
    let made = env.create_databases_and_commit(txn, |opener, txn| {
        let tables = check_format(env, opener, txn).and_then(|format| match format {
            None if expected == Expected::Store => Err(no_table(META)),
            Some(migrate::FORMAT) => for_every_name(|name| opener.open_database(txn, Some(name)), no_table),
            _ => for_every_name(|name| opener.create_database(txn, Some(name)).map(Some), no_table),
        });
        Ok(CommitOrAbort::from(tables))
    });
    handles(made)
}

/// Opens all tables of a store for reading.
pub(super) fn open_tables(env: &Env, txn: heed::RoTxn<'_, WithoutTls>) -> Result<Tables> {
    let opened = env.open_databases_and_commit(txn, |opener, txn| {
        let tables = check_format(env, opener, txn).and_then(|format| {
            let missing = |table| match format {
                Some(found) if found < migrate::FORMAT => {
                    Error::OlderFormat { path: env.path().to_owned(), found, known: migrate::FORMAT }
                }
                _ => Error::NoTable { table },
            };
            for_every_name(|name| opener.open_database(txn, Some(name)), missing)
        });
        Ok(CommitOrAbort::from(tables))
    });
    handles(opened)
}

/// The table that is read first, to learn whether the table list fits the store.
const META: &str = "meta";

/// The identity of a store of this or an older format.
pub(super) fn identity(env: &Env, txn: heed::RoTxn<'_, WithoutTls>) -> Result<Meta> {
    let mut found = None;
    let read: heed::Result<CommitOrAbort<(), Error>> = env.open_databases_and_commit(txn, |opener, txn| {
        let read = read_meta(env, opener, txn).map(|meta| found = meta);
        Ok(CommitOrAbort::from(read))
    });
    match read.map_err(Error::lmdb("reading its identity"))? {
        CommitOrAbort::Commit(()) => found.ok_or(Error::NoTable { table: META }),
        CommitOrAbort::Abort(error) => Err(error),
    }
}

/// The format of a store, refused if it is too new; none if the store is being created.
fn check_format<'e>(env: &Env, opener: &DatabaseOpener<'e, WithoutTls>, txn: &Read<'e>) -> Result<Option<u32>> {
    Ok(read_meta(env, opener, txn)?.map(|meta| meta.format))
}

fn read_meta<'e>(env: &Env, opener: &DatabaseOpener<'e, WithoutTls>, txn: &Read<'e>) -> Result<Option<Meta>> {
    let meta: Option<ByteTable<'e>> =
        opener.open_database(txn, Some(META)).map_err(Error::lmdb("reading its format"))?;
    let Some(meta) = meta else { return Ok(None) };
    let bytes = meta.get(txn, &().to_bytes()).map_err(Error::lmdb("reading its format"))?;
    let Some(bytes) = bytes else { return Ok(None) };
    let key = || "()".to_owned();
    match envelope::open::<Meta>(bytes) {
        Ok(meta) if meta.format > migrate::FORMAT => {
            Err(Error::NewerFormat { path: env.path().to_owned(), found: meta.format, known: migrate::FORMAT })
        }
        Ok(meta) => Ok(Some(meta)),
        Err(Unreadable::TooNew { found }) => {
            Err(Error::TooNew { table: META, key: key(), found, known: Meta::VERSION })
        }
        Err(Unreadable::Damaged(reason)) => Err(Error::Damaged { table: META, key: key(), reason }),
    }
}

type ByteTables<'e> = [ByteTable<'e>; Tables::COUNT];

fn for_every_name<'e>(
    mut open: impl FnMut(&'static str) -> heed::Result<Option<ByteTable<'e>>>,
    missing: impl Fn(&'static str) -> Error,
) -> Result<ByteTables<'e>> {
    let mut tables = Vec::with_capacity(Tables::COUNT);
    for about in Tables::ABOUT {
        let table = open(about.name).map_err(Error::lmdb("opening a table"))?;
        tables.push(table.ok_or_else(|| missing(about.name))?);
    }
    tables.try_into().map_err(|_| Error::NoTable { table: META })
}

fn handles(tables: heed::Result<CommitOrAbort<ByteTables<'static>, Error>>) -> Result<Tables> {
    match tables.map_err(Error::lmdb("opening its tables"))? {
        CommitOrAbort::Commit(tables) => Ok(Tables::from_bytes(tables)),
        CommitOrAbort::Abort(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::small;
    use crate::{Reader, Store};

    /// A data directory whose store has only the table with this identity, if one is given.
    #[expect(clippy::disallowed_methods, reason = "no store that Hearth makes is like this")]
    fn stump(format: Option<u32>) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("store")).unwrap();
        let place = dir.path().join("store");
        let env = open(&Proved::vacant(&place).unwrap(), Access::Write, small().map_bytes).unwrap();
        let made: heed::Result<CommitOrAbort<ByteTable<'static>, Error>> =
            env.create_databases_and_commit(env.write_txn().unwrap(), |opener, txn| {
                let table = opener.create_database(txn, Some(META)).map_err(Error::lmdb("making one"));
                Ok(CommitOrAbort::from(table))
            });
        let Ok(CommitOrAbort::Commit(table)) = made else { panic!("the table was not made") };
        if let Some(format) = format {
            let mut txn = env.write_txn().unwrap();
            let meta = Meta { format, install: 7, runs: 1, epochs: Vec::new() };
            table.put(&mut txn, &().to_bytes(), &envelope::seal(&meta).unwrap()).unwrap();
            txn.commit().unwrap();
        }
        dir
    }

    #[test]
    fn a_limited_address_space_is_shared_with_the_map() {
        assert_eq!(granted(None), 1 << 40);
        assert_eq!(granted(Some(1 << 50)), 1 << 40);
        assert_eq!(granted(Some(3 << 30)), 1 << 29);
        assert_eq!(granted(Some(1 << 20)), MAP_BYTES_MIN);
    }

    /// A damaged store is not silently recreated, and the error does not suggest creating a new one.
    #[test]
    fn a_table_that_is_missing_is_damage_unless_the_store_is_of_an_older_format() {
        for format in [Some(migrate::FORMAT), None] {
            let dir = stump(format);
            let errors = [Reader::open(dir.path()).unwrap_err(), Store::open(dir.path(), small()).unwrap_err()];
            for error in errors {
                assert!(matches!(error, Error::NoTable { .. }) && error.kind() == "store_damaged", "{error}");
                assert!(error.to_string().contains("hearth restore"), "{error}");
            }
        }
        let older = stump(Some(migrate::FORMAT - 1));
        let error = Reader::open(older.path()).unwrap_err();
        assert!(matches!(error, Error::OlderFormat { found, .. } if found == migrate::FORMAT - 1), "{error}");
        assert!(error.to_string().contains("which upgrades the store"), "{error}");
        assert_eq!(Store::open(older.path(), small()).unwrap().install(), 7);
        assert!(Reader::open(older.path()).is_ok());
    }
}
