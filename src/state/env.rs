//! Opening LMDB: the one place of the project that is not checked by the compiler.

use std::path::Path;

use heed::{CommitOrAbort, DatabaseOpener, EnvFlags, EnvOpenOptions, WithoutTls};

use super::Read;
use super::bytes::ByteTable;
use super::envelope::{self, Record, Unreadable};
use super::error::{Error, Result, out_of_space};
use super::key::KeyPart;
use super::meta::Meta;
use super::migrate;
use super::schema::Tables;

/// An open environment. Read transactions are not bound to threads, so that pools of threads can read.
pub(super) type Env = heed::Env<WithoutTls>;

/// Address space to ask for; the file stays as small as what it holds.
const MAP_BYTES: u64 = 1 << 40;

/// Below this there is no point in running.
const MAP_BYTES_MIN: usize = 1 << 26;

/// Processes and threads that may read at once. A slot costs 64 bytes.
const MAX_READERS: u32 = 512;

/// How an environment is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    ReadOnly,
    /// A finished copy that nobody writes: read without LMDB's locks, so that nothing is made beside it.
    Copy,
}

/// Opens the environment in `dir` with the largest map that the system grants: 1 TiB, halved until it does. The map is
/// never resized while it is open.
pub(super) fn open(dir: &Path, access: Access, map_bytes: Option<usize>) -> Result<Env> {
    let mut size = map_bytes.unwrap_or_else(|| usize::try_from(MAP_BYTES).unwrap_or(1 << 30));
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
                  process opens the store's files, and no flag weakens LMDB's syncs, nor its locks but for copies that \
                  nobody writes"
    )]
    unsafe {
        options.flags(flags).open(dir)
    }
}

/// Handles on all tables; makes those that are missing. A store of a newer format is left as it is.
pub(super) fn create_tables(env: &Env, txn: heed::RwTxn<'_>) -> Result<Tables> {
    let made = env.create_databases_and_commit(txn, |opener, txn| {
        let tables = check_format(env, opener, txn)
            .and_then(|()| for_every_name(|name| opener.create_database(txn, Some(name)).map(Some)));
        Ok(CommitOrAbort::from(tables))
    });
    handles(made)
}

/// Handles on all tables of a store that is only read.
pub(super) fn open_tables(env: &Env, txn: heed::RoTxn<'_, WithoutTls>) -> Result<Tables> {
    let opened = env.open_databases_and_commit(txn, |opener, txn| {
        let tables =
            check_format(env, opener, txn).and_then(|()| for_every_name(|name| opener.open_database(txn, Some(name))));
        Ok(CommitOrAbort::from(tables))
    });
    handles(opened)
}

/// The table that is looked at before it is known whether the list fits the store.
const META: &str = "meta";

fn check_format<'e>(env: &Env, opener: &DatabaseOpener<'e, WithoutTls>, txn: &Read<'e>) -> Result<()> {
    let meta: Option<ByteTable<'e>> =
        opener.open_database(txn, Some(META)).map_err(Error::lmdb("reading its format"))?;
    let Some(meta) = meta else { return Ok(()) };
    let bytes = meta.get(txn, &().to_bytes()).map_err(Error::lmdb("reading its format"))?;
    let Some(bytes) = bytes else { return Ok(()) };
    let key = || "()".to_owned();
    match envelope::open::<Meta>(bytes) {
        Ok(meta) if meta.format > migrate::FORMAT => {
            Err(Error::NewerFormat { path: env.path().to_owned(), found: meta.format, known: migrate::FORMAT })
        }
        Ok(_) => Ok(()),
        Err(Unreadable::TooNew { found }) => {
            Err(Error::TooNew { table: META, key: key(), found, known: Meta::VERSION })
        }
        Err(Unreadable::Damaged(reason)) => Err(Error::Damaged { table: META, key: key(), reason }),
    }
}

type ByteTables<'e> = [ByteTable<'e>; Tables::COUNT];

fn for_every_name<'e>(
    mut open: impl FnMut(&'static str) -> heed::Result<Option<ByteTable<'e>>>,
) -> Result<ByteTables<'e>> {
    let mut tables = Vec::with_capacity(Tables::COUNT);
    for about in Tables::ABOUT {
        let table = open(about.name).map_err(Error::lmdb("opening a table"))?;
        tables.push(table.ok_or(Error::NoTable { table: about.name })?);
    }
    tables.try_into().map_err(|_| Error::NoTable { table: META })
}

fn handles(tables: heed::Result<CommitOrAbort<ByteTables<'static>, Error>>) -> Result<Tables> {
    match tables.map_err(Error::lmdb("opening its tables"))? {
        CommitOrAbort::Commit(tables) => Ok(Tables::from_bytes(tables)),
        CommitOrAbort::Abort(error) => Err(error),
    }
}
