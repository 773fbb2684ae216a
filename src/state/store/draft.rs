//! Stores that are not in their final place yet: copies, and new ones.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::backup;
use crate::crash;
use crate::env::{self, Access, Expected, begin_write};
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::options::{Missing, Options};
use crate::pages::{self, Proved};
use crate::progress::Progress;
use crate::reader::Reader;
use crate::schema::Tables;
use crate::write::Lasting;
use crate::{Write, migrate};

/// A new store under construction, in a private directory.
#[derive(Debug)]
pub(crate) struct Draft {
    reader: Reader,
}

impl Draft {
    /// Makes a store without any rows in a directory that has none.
    pub(crate) fn make(dir: &Path, map_bytes: Option<usize>) -> Result<Self> {
        Self::open_sized(&Proved::vacant(dir)?, map_bytes)
    }

    /// Opens a copy, after checking all of its pages.
    pub(crate) fn open(dir: &Path, progress: &dyn Progress) -> Result<Self> {
        Self::open_sized(&pages::whole(dir, progress)?, None)
    }

    fn open_sized(place: &Proved<'_>, map_bytes: Option<usize>) -> Result<Self> {
        let env = env::open(place, Access::Write, map_bytes)?;
        let tables = env::create_tables(&env, begin_write(&env)?, Expected::Anything)?;
        Ok(Self { reader: Reader { env, tables } })
    }

    pub(crate) const fn reader(&self) -> &Reader {
        &self.reader
    }

    /// As `Store::write`.
    pub(crate) fn write<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&Tables, &mut Write<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let lasting = Lasting::default();
        let mut txn = Write::new(begin_write(&self.reader.env)?, &lasting);
        let done = work(&self.reader.tables, &mut txn)?;
        crash::point("draft-commit");
        self.reader.tables.commit(txn)?;
        Ok(done)
    }

    /// Begins an epoch of outgoing ids, and assigns a new identity to the store if one is given. Returns its identity
    /// row.
    pub(crate) fn begin_epoch(&self, entropy: u64, install: Option<u64>) -> Result<Meta> {
        self.write(|db, txn| db.begin_epoch(txn, entropy, install))
    }
}

/// Creates the first store under a temporary name, so that it is complete or missing however the process ends. The
/// caller holds the daemon's lock.
pub(super) fn create(data: &Path, dir: &Path, options: &Options) -> Result<()> {
    match options.missing {
        Missing::Create => {}
        Missing::CreateBeside => backup::move_aside(data, options.now)?,
        Missing::Refuse => return Err(Error::NoStore { path: data.to_owned() }),
    }
    let next = backup::next(data);
    crash::point("store-make");
    DirBuilder::new().mode(0o700).create(&next).map_err(Error::io(&next))?;
    let draft = Draft::make(&next, options.map_bytes)?;
    draft.write(|db, txn| migrate::migrate(db, txn, options.install, migrate::STEPS, migrate::FORMAT))?;
    drop(draft); // closed before its file is moved
    backup::move_file(&next, dir)?;
    backup::remove_unfinished(data);
    Ok(())
}
