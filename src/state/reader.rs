//! Read access to a store.

use std::fs::File;
use std::path::Path;

use super::bytes::{ByteRow, ByteRows};
use super::env::{self, Access, begin_read};
use super::error::{Error, Result};
use super::location::place;
use super::lock::{self, Writer};
use super::options::Options;
use super::pages::{self, Proved};
use super::progress::Progress;
use super::room::{self, Bounds, RESERVE, Usage};
use super::schema::Tables;
use super::{Env, Read};

/// Number of rows and bytes that one read transaction copies, in far less than a second.
const SLICE_ROWS: usize = 500;
const SLICE_BYTES: usize = 4 << 20;

/// Read access to a store.
#[derive(Debug, Clone)]
pub struct Reader {
    pub(super) env: Env,
    pub(super) tables: Tables,
}

impl Reader {
    /// Opens a store while a daemon may be writing it. Creates nothing and does not need the daemon's lock.
    ///
    /// # Errors
    ///
    /// [`Error::NoStore`] if there is none, [`Error::NewerFormat`] if it is too new to be understood, [`Error::Broken`]
    /// if LMDB must not read its file.
    pub fn open(data: &Path) -> Result<Self> {
        let dir = place(data)?;
        Self::of(&pages::trust(&dir, lock::last_writer(data))?)
    }

    /// Like [`Self::open`], for work on the whole store: checks all pages of its file first, unless a daemon has it
    /// open.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_unless_held(data: &Path, progress: &dyn Progress) -> Result<Self> {
        match lock::last_writer(data) {
            Writer::Lives => Self::open(data),
            Writer::GaveUp | Writer::Died => Self::open_proved(data, progress),
        }
    }

    /// Like [`Self::open`], but checks all pages of the store's file first, even if a daemon has it open.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_proved(data: &Path, progress: &dyn Progress) -> Result<Self> {
        let dir = place(data)?;
        Self::of(&pages::whole(&dir, progress)?)
    }

    fn of(place: &Proved<'_>) -> Result<Self> {
        Self::with(place, Access::ReadOnly)
    }

    fn with(place: &Proved<'_>, access: Access) -> Result<Self> {
        let env = env::open(place, access, None)?;
        let tables = env::open_tables(&env, begin_read(&env)?)?;
        Ok(Self { env, tables })
    }

    /// Opens a finished copy of a store that no process writes, after checking all of its pages.
    pub(super) fn open_copy(dir: &Path) -> Result<Self> {
        Self::with(&pages::look(dir, usize::MAX)?, Access::Copy)
    }

    /// Copies a snapshot of the store into a new file, without unused pages.
    pub(super) fn copy_into(&self, file: &mut File) -> Result<()> {
        env::copy_into(&self.env, file)
    }

    /// Number of the last committed transaction.
    #[must_use]
    pub fn last_change(&self) -> usize {
        self.env.info().last_txn_id
    }

    /// Runs a read transaction. Keep it short: while it is open, pages that were freed meanwhile cannot be reused.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn read<T, E: From<Error>>(&self, work: impl FnOnce(&Tables, &Read<'_>) -> Result<T, E>) -> Result<T, E> {
        let txn = begin_read(&self.env)?;
        work(&self.tables, &txn)
    }

    /// Visits all rows of a table, slice by slice. No transaction is open during the visits.
    pub(super) fn each_slice<E: From<Error>>(
        &self,
        rows: &ByteRows,
        work: &mut dyn FnMut(Vec<ByteRow>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last: Option<Vec<u8>> = None;
        loop {
            let slice = self.read(|_, txn| rows.slice(txn, last.as_deref(), SLICE_ROWS, SLICE_BYTES))?;
            let Some((key, _)) = slice.last() else { return Ok(()) };
            last = Some(key.clone());
            work(slice)?;
        }
    }

    /// Space used and space left in the store of a data directory, while a daemon may be writing it.
    ///
    /// # Errors
    ///
    /// Those of reading the store and the file system.
    pub fn usage(&self, data: &Path) -> Result<Usage> {
        let options = Options::new(0);
        let dir = data.join("store");
        let reserved = room::reserved(&dir.join(RESERVE), options.reserve_bytes);
        self.usage_of(&dir, &options, reserved)
    }

    /// Highest number of reader slots used at once, and the number of slots.
    #[must_use]
    pub fn readers(&self) -> (u32, u32) {
        let info = self.env.info();
        (info.number_of_readers, info.maximum_number_of_readers)
    }

    pub(super) fn usage_of(&self, dir: &Path, options: &Options, reserved: bool) -> Result<Usage> {
        let bounds = self.bounds(dir, options, reserved)?;
        Ok(bounds.with_used(self.read(room::used_bytes)?))
    }

    pub(super) fn bounds(&self, dir: &Path, options: &Options, reserved: bool) -> Result<Bounds> {
        let (info, stat) = (self.env.info(), self.env.unnamed_database_stat());
        let settings = self.read(|db, txn| db.settings.get(txn, &()))?;
        let map = u64::try_from(info.map_size).unwrap_or(u64::MAX);
        let missing = if reserved { 0 } else { options.reserve_bytes };
        Ok(Bounds {
            file: room::page_bytes(info.last_page_number, stat.page_size),
            limit: settings.and_then(|s| s.store_max_bytes).unwrap_or(options.max_bytes).min(map - map / 5),
            free: room::free(dir)?,
            needed: options.margin_bytes.saturating_add(missing),
        })
    }
}
