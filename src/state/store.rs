//! The store: opening it, and every transaction that is ever begun.

use std::fs::{DirBuilder, File};
use std::io::Seek as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::env::{self, Access, Env};
use super::error::{Error, Result};
use super::lock::{self, WriterLock};
use super::meta::Meta;
use super::migrate::Step;
use super::room::{self, Admission, Bounds, Usage};
use super::schema::Tables;
use super::{Read, Write, backup, filesystem, migrate, pages};
use crate::crash;
use crate::model::Timestamp;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Random name for the installation, used when there is no store yet.
    pub install: u64,
    /// Bytes the store may use unless its settings say otherwise.
    pub max_bytes: u64,
    /// Bytes that must stay free on its disk, beside the reserve.
    pub margin_bytes: u64,
    /// Size of the reserve.
    pub reserve_bytes: u64,
    /// Address space for the map; none for as much as the system grants, up to 1 TiB.
    pub map_bytes: Option<usize>,
    /// When it is opened: part of the name of the backup that is made before a migration.
    pub now: Option<Timestamp>,
}

impl Options {
    /// What the daemon uses.
    #[must_use]
    pub const fn new(install: u64) -> Self {
        Self {
            install,
            max_bytes: 64 << 30,
            margin_bytes: 64 << 20,
            reserve_bytes: 16 << 20,
            map_bytes: None,
            now: None,
        }
    }
}

/// An open environment: reads.
#[derive(Debug, Clone)]
pub struct Reader {
    env: Env,
    tables: Tables,
}

/// A store that this process, and no other, may write.
#[derive(Debug)]
pub struct Store {
    reader: Reader,
    dir: PathBuf,
    options: Options,
    install: u64,
    warnings: Vec<String>,
    lock: WriterLock, // last: it is released when the environment is closed
}

impl Reader {
    /// Opens a store beside the daemon that writes it. Nothing is made, and the daemon's lock is not needed.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is none, [`Error::NewerFormat`] if it is too new to be understood.
    pub fn open(data: &Path) -> Result<Self> {
        let dir = data.join("store");
        if !backup::is_openable(&dir)? {
            return Err(Error::NoStore { path: data.to_owned() });
        }
        pages::trust(&dir, lock::last_writer(data))?;
        let env = env::open(&dir, Access::ReadOnly, None)?;
        let tables = env::open_tables(&env, begin_read(&env)?)?;
        Ok(Self { env, tables })
    }

    /// The same after a look at all pages of the store's file.
    ///
    /// # Errors
    /// As for [`Self::open`], and [`Error::Broken`].
    pub fn open_proved(data: &Path) -> Result<Self> {
        let dir = data.join("store");
        if backup::is_there(&dir) {
            pages::look(&dir, usize::MAX)?;
        }
        Self::open(data)
    }

    /// Opens a finished copy of a store that nobody writes.
    pub(super) fn open_copy(dir: &Path) -> Result<Self> {
        let env = env::open(dir, Access::Copy, None)?;
        let tables = env::open_tables(&env, begin_read(&env)?)?;
        Ok(Self { env, tables })
    }

    /// Copies the store as it is now into a new file, without the pages that are not used. LMDB refuses that where it
    /// has lost count of its pages; the copy has all pages then.
    pub(super) fn copy_into(&self, file: &mut File) -> Result<()> {
        let copied = match self.env.copy_to_file(file, heed::CompactionOption::Enabled) {
            Err(heed::Error::Mdb(heed::MdbError::Incompatible)) => file
                .set_len(0)
                .and_then(|()| file.rewind())
                .map_err(heed::Error::Io)
                .and_then(|()| self.env.copy_to_file(file, heed::CompactionOption::Disabled)),
            copied => copied,
        };
        copied.map_err(Error::lmdb("being copied"))
    }

    /// Number of the last transaction that was committed.
    #[must_use]
    pub fn last_change(&self) -> usize {
        self.env.info().last_txn_id
    }

    /// Runs a transaction that reads. Keep it short: as long as it lives, no page that was freed meanwhile is used again.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn read<T, E: From<Error>>(&self, work: impl FnOnce(&Tables, &Read<'_>) -> Result<T, E>) -> Result<T, E> {
        let txn = begin_read(&self.env)?;
        work(&self.tables, &txn)
    }

    /// What is used and what is left in the store of a data directory, beside the daemon that writes it.
    ///
    /// # Errors
    /// Those of looking.
    pub fn usage(&self, data: &Path) -> Result<Usage> {
        let options = Options::new(0);
        let dir = data.join("store");
        let reserved = room::reserved(&dir.join(RESERVE), options.reserve_bytes);
        self.usage_of(&dir, &options, reserved)
    }

    /// Slots that readers have used at once, and how many there are.
    #[must_use]
    pub fn readers(&self) -> (u32, u32) {
        let info = self.env.info();
        (info.number_of_readers, info.maximum_number_of_readers)
    }

    fn usage_of(&self, dir: &Path, options: &Options, reserved: bool) -> Result<Usage> {
        let bounds = self.bounds(dir, options, reserved)?;
        Ok(bounds.with_used(self.read(room::used_bytes)?))
    }

    fn bounds(&self, dir: &Path, options: &Options, reserved: bool) -> Result<Bounds> {
        let (info, stat) = (self.env.info(), self.env.unnamed_database_stat());
        let settings = self.read(|db, txn| db.settings.get(txn, &()))?;
        let map = u64::try_from(info.map_size).unwrap_or(u64::MAX);
        let missing = if reserved { 0 } else { options.reserve_bytes };
        Ok(Bounds {
            file: room::page_bytes(info.last_page_number, stat.page_size),
            limit: settings.and_then(|s| s.store_max_bytes).unwrap_or(options.max_bytes).min(map - map / 5),
            free: room::free_bytes(dir)?,
            needed: options.margin_bytes.saturating_add(missing),
        })
    }
}

/// The file that keeps room on the disk.
const RESERVE: &str = "reserve";

/// What people should know of where the store of a data directory lies.
///
/// # Errors
/// [`Error::FileSystem`] where it cannot live.
pub fn look_at_place(data: &Path) -> Result<Vec<String>> {
    filesystem::check(&data.join("store"))
}

/// A store that is being made, in a directory that nobody else knows.
#[derive(Debug)]
pub(super) struct Draft {
    reader: Reader,
}

impl Draft {
    /// Opens a copy, or makes a store without any rows.
    pub(super) fn open(dir: &Path) -> Result<Self> {
        Self::open_sized(dir, None)
    }

    fn open_sized(dir: &Path, map_bytes: Option<usize>) -> Result<Self> {
        let env = env::open(dir, Access::Write, map_bytes)?;
        let tables = env::create_tables(&env, begin_write(&env)?)?;
        Ok(Self { reader: Reader { env, tables } })
    }

    pub(super) const fn reader(&self) -> &Reader {
        &self.reader
    }

    /// As [`Store::write`].
    pub(super) fn write<T, E: From<Error>>(
        &self,
        work: impl FnOnce(&Tables, &mut Write<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut txn = Write::new(begin_write(&self.reader.env)?);
        let done = work(&self.reader.tables, &mut txn)?;
        crash::point("draft-commit");
        txn.commit(&self.reader.tables)?;
        Ok(done)
    }

    /// Makes it a store of another installation.
    pub(super) fn rename_install(&self, install: u64) -> Result<()> {
        self.write(|db, txn| {
            let mut meta = db.meta.require(txn, &())?;
            meta.install = install;
            db.meta.put(txn, &(), &meta)
        })
    }
}

/// Makes the first store: beside its place, so that it is complete or not there however the process ends. The caller holds
/// the daemon's lock.
fn make(data: &Path, dir: &Path, options: &Options) -> Result<()> {
    let next = backup::next(data);
    crash::point("store-make");
    DirBuilder::new().mode(0o700).create(&next).map_err(Error::io(&next))?;
    let draft = Draft::open_sized(&next, options.map_bytes)?;
    draft.write(|db, txn| migrate::migrate(db, txn, options.install, migrate::STEPS, migrate::FORMAT))?;
    drop(draft); // closed before its file is moved
    backup::move_file(&next, dir)?;
    backup::remove_unfinished(data);
    Ok(())
}

impl Store {
    /// Opens the store of a data directory, making both if necessary.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process writes it, [`Error::FileSystem`] where it cannot live,
    /// [`Error::NewerFormat`] if a newer Hearth wrote it.
    pub fn open(data: &Path, options: Options) -> Result<Self> {
        let dir = data.join("store");
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(Error::io(&dir))?;
        let warnings = filesystem::check(&dir)?;
        let mut lock = lock::take(data)?;
        backup::remove_unfinished(data);
        if !backup::is_there(&dir) {
            make(data, &dir, &options)?;
        } else {
            pages::trust(&dir, lock.before())?;
        }
        lock.settle();
        let env = env::open(&dir, Access::Write, options.map_bytes)?;
        env.clear_stale_readers().map_err(Error::lmdb("clearing stale readers"))?;
        let tables = env::create_tables(&env, begin_write(&env)?)?;
        let reader = Reader { env, tables };
        let mut store = Self { reader, dir, options, install: 0, warnings, lock };
        store.install = store.migrate(data, migrate::STEPS, migrate::FORMAT)?.install;
        store.restore_reserve()?;
        Ok(store)
    }

    /// Brings the store to the format `to`; before the first step runs, there is a backup.
    pub(super) fn migrate(&self, data: &Path, steps: &[Step], to: u32) -> Result<Meta> {
        let current = self.read(|db, txn| db.meta.get(txn, &()))?;
        match current {
            // Without a write transaction: a full disk is no reason not to start.
            Some(meta) if meta.format == to => return Ok(meta),
            Some(_) => {
                backup::before_migration(&self.reader, data, to, self.options.now)
                    .map_err(|source| Error::NoBackup { source: Box::new(source) })?;
            }
            None => {}
        }
        self.write(|db, txn| migrate::migrate(db, txn, self.options.install, steps, to))
    }

    /// The reading half, for whoever must not write.
    #[must_use]
    pub const fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Nothing will be written any more: the next start need not look at every page as after a sudden end. For a process
    /// that ends without dropping this.
    pub fn close(&self) {
        self.lock.give_up();
    }

    /// Name of this installation.
    #[must_use]
    pub const fn install(&self) -> u64 {
        self.install
    }

    /// What people should know of where the store lies.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Counts a start of the daemon and returns its number: the run of awake time. On a full disk it uses the reserve.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn begin_run(&self) -> Result<u64> {
        let count = || {
            self.write(|db, txn| {
                let mut meta = db.meta.require(txn, &())?;
                meta.runs = meta.runs.saturating_add(1);
                db.meta.put(txn, &(), &meta)?;
                Ok::<_, Error>(meta.runs)
            })
        };
        match count() {
            Err(e) if e.is_full() && self.release_reserve()? => count(),
            counted => counted,
        }
    }

    /// Runs a transaction that reads.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn read<T, E: From<Error>>(&self, work: impl FnOnce(&Tables, &Read<'_>) -> Result<T, E>) -> Result<T, E> {
        self.reader.read(work)
    }

    /// Runs a transaction that writes: everything it did is on disk when this returns `Ok`, nothing when it returns
    /// `Err`.
    ///
    /// # Errors
    /// Those of `work`, and of the commit.
    pub fn write<T, E: From<Error>>(&self, work: impl FnOnce(&Tables, &mut Write<'_>) -> Result<T, E>) -> Result<T, E> {
        let mut txn = Write::new(begin_write(&self.reader.env)?);
        let done = work(&self.reader.tables, &mut txn)?;
        self.commit(txn)?;
        Ok(done)
    }

    /// Runs a group of transactions that are committed together. One that fails is undone alone, unless `no_room` says that
    /// it failed for want of room: then its neighbours may have taken it, and the whole group is undone with
    /// [`Error::Full`]. When this returns `Ok`, those that succeeded are on disk.
    ///
    /// A transaction within a transaction costs more than what is written in it. So only those inputs have one of their own
    /// that may well be undone, as `undoable` says; when another one fails after all, the group is undone and carried out
    /// once more with a transaction for each.
    ///
    /// # Errors
    /// The failure of the group: nothing of it happened, the answers are gone. After [`Error::is_full`] they can be run
    /// again one by one; after any other the state of the store is unknown, and the process stops.
    pub fn write_batch<I, T, E>(
        &self,
        inputs: &[I],
        mut work: impl FnMut(&Tables, &mut Write<'_>, &I) -> Result<T, E>,
        undoable: impl Fn(&I) -> bool,
        no_room: impl Fn(&E) -> bool,
    ) -> Result<Vec<Result<T, E>>> {
        let (mut each, mut at) = (false, 0);
        let mut group = Write::new(begin_write(&self.reader.env)?);
        let mut answers = Vec::with_capacity(inputs.len());
        while let Some(input) = inputs.get(at) {
            let own = each || undoable(input);
            let answer = match own {
                true => group.within(&self.reader.env, |txn| work(&self.reader.tables, txn, input))?,
                false => work(&self.reader.tables, &mut group, input),
            };
            match &answer {
                Err(error) if no_room(error) => return Err(Error::Full { doing: "carrying out a group" }),
                Err(_) if !own => {
                    group.abort();
                    if inputs.len() == 1 {
                        return Ok(vec![answer]);
                    }
                    group = Write::new(begin_write(&self.reader.env)?);
                    answers.clear();
                    (each, at) = (true, 0);
                    continue;
                }
                _ => {}
            }
            answers.push(answer);
            at += 1;
        }
        self.commit(group)?;
        Ok(answers)
    }

    /// The disk may take only the first part of a write before it is full, which LMDB reports as an I/O error. Nothing is
    /// harmed then, the pages of the transaction are simply not used; and if it was an error of the disk after all, the
    /// next try, with the reserve given back, says so.
    fn commit(&self, txn: Write<'_>) -> Result<()> {
        crash::point("store-commit");
        let committed = txn.commit(&self.reader.tables);
        crash::point("store-committed");
        match committed {
            Err(Error::Lmdb { doing, source: heed::Error::Io(e) })
                if room::cut_short(&e) && room::free_bytes(&self.dir)? < room::NEARLY_FULL =>
            {
                Err(Error::Full { doing })
            }
            committed => committed,
        }
    }

    /// Runs a part of a transaction that can be undone by itself: when `work` fails, nothing of it happened.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn part<T, E: From<Error>>(
        &self,
        txn: &mut Write<'_>,
        work: impl FnOnce(&mut Write<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        txn.within(&self.reader.env, work)?
    }

    /// Frees the slots of readers whose processes died; returns how many. A dead reader keeps freed pages from being used
    /// again.
    ///
    /// # Errors
    /// [`Error::Lmdb`].
    pub fn clear_stale_readers(&self) -> Result<usize> {
        self.reader.env.clear_stale_readers().map_err(Error::lmdb("clearing stale readers"))
    }

    /// Whether there is room for new work.
    ///
    /// # Errors
    /// Those of looking.
    pub fn admission(&self) -> Result<Admission> {
        let bounds = self.reader.bounds(&self.dir, &self.options, self.has_reserve())?;
        // What is used is counted only where it decides: that takes a look at every table.
        if bounds.surely_open() {
            return Ok(Admission::Open);
        }
        Ok(bounds.with_used(self.read(room::used_bytes)?).admission())
    }

    /// What is used and what is left. The limit leaves a fifth of the map to removals.
    ///
    /// # Errors
    /// Those of looking.
    pub fn usage(&self) -> Result<Usage> {
        self.reader.usage_of(&self.dir, &self.options, self.has_reserve())
    }

    /// Whether the reserve is there.
    #[must_use]
    pub fn has_reserve(&self) -> bool {
        room::reserved(&self.reserve_path(), self.options.reserve_bytes)
    }

    /// Gives the reserve back to the disk, so that acknowledgements and removals find pages; tells whether there was one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn release_reserve(&self) -> Result<bool> {
        room::release(&self.reserve_path())
    }

    /// Gives half of the reserve to a full disk: agents write themselves that a turn has ended, and need room for that
    /// before there is anything to commit. Tells whether it did.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn share_reserve(&self) -> Result<bool> {
        room::share(&self.dir, &self.reserve_path(), self.options.reserve_bytes)
    }

    /// Allocates the reserve again; tells whether it is there now. What is left of it stays until there is room for all.
    ///
    /// # Errors
    /// [`Error::Io`], but not for a full disk.
    pub fn restore_reserve(&self) -> Result<bool> {
        room::reserve(&self.dir, &self.reserve_path(), self.options.reserve_bytes)
    }

    fn reserve_path(&self) -> PathBuf {
        self.dir.join(RESERVE)
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where transactions that read begin")]
fn begin_read(env: &Env) -> Result<heed::RoTxn<'_, heed::WithoutTls>> {
    env.read_txn().map_err(Error::lmdb("beginning to read"))
}

#[expect(clippy::disallowed_methods, reason = "the one place where transactions that write begin")]
fn begin_write(env: &Env) -> Result<heed::RwTxn<'_>> {
    env.write_txn().map_err(Error::lmdb("beginning to write"))
}
