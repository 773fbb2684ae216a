//! Opens the store and runs all its transactions.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::env::{self, Access, Expected, begin_write};
use super::error::{Error, Result};
use super::location::{is_there, place};
use super::lock::{self, WriterLock};
use super::meta::Meta;
use super::migrate::Step;
use super::options::{Missing, Options};
use super::reader::Reader;
use super::room::{self, Admission, RESERVE, Usage};
use super::schema::Tables;
use super::write::Lasting;
use super::{Read, Write, backup, filesystem, migrate, pages};
use crate::crash;
use crate::model::recall::RecallScope;

mod draft;

pub(super) use draft::Draft;
use draft::create;

/// Read and write access to a store. Only one process has it.
#[derive(Debug)]
pub struct Store {
    reader: Reader,
    dir: PathBuf,
    options: Options,
    install: u64,
    warnings: Vec<String>,
    lasting: Lasting,
    lock: WriterLock, // dropped last: it is released after the environment is closed
}

impl Store {
    /// Opens the store of a data directory. If there is none, `options.missing` decides.
    ///
    /// # Errors
    ///
    /// [`Error::NoStore`] if there is none and none may be created, [`Error::Locked`] if another process writes it,
    /// [`Error::FileSystem`] on a file system that cannot hold a store, [`Error::NewerFormat`] if a newer Hearth wrote
    /// it.
    pub fn open(data: &Path, options: Options) -> Result<Self> {
        let dir = data.join("store");
        if options.missing == Missing::Refuse {
            place(data)?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(Error::io(&dir))?;
        let warnings = filesystem::check(&dir)?;
        let mut lock = lock::take(data)?;
        backup::remove_unfinished(data);
        if !is_there(&dir)? {
            create(data, &dir, &options)?;
        }
        let place = pages::trust(&dir, lock.before())?;
        lock.settle();
        let env = env::open(&place, Access::Write, options.map_bytes)?;
        env.clear_stale_readers().map_err(Error::lmdb("clearing stale readers"))?;
        let tables = env::create_tables(&env, begin_write(&env)?, Expected::Store)?;
        let reader = Reader { env, tables };
        let mut store = Self { reader, dir, options, install: 0, warnings, lasting: Lasting::default(), lock };
        store.install = store.migrate(data, migrate::STEPS, migrate::FORMAT)?.install;
        store.restore_reserve()?;
        Ok(store)
    }

    /// Migrates the store to the format `to`. A backup is made before the first step.
    pub(super) fn migrate(&self, data: &Path, steps: &[Step], to: u32) -> Result<Meta> {
        let current = self.read(|db, txn| db.meta.get(txn, &()))?;
        match current {
            // No write transaction, because a full disk must not prevent the start.
            Some(meta) if meta.format == to => return Ok(meta),
            Some(_) => {
                backup::before_migration(&self.reader, data, to, self.options.now)
                    .map_err(|source| Error::NoBackup { source: Box::new(source) })?;
            }
            None => {}
        }
        self.write(|db, txn| migrate::migrate(db, txn, self.options.install, steps, to))
    }

    /// Read access, for callers that must not write.
    #[must_use]
    pub const fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Records a clean end, for a process that exits without dropping this. The next start then need not check every
    /// page as it does after a crash.
    pub fn close(&self) {
        self.lock.give_up();
    }

    /// Name of this installation.
    #[must_use]
    pub const fn install(&self) -> u64 {
        self.install
    }

    /// Warnings about the location of the store.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Counts a start of the daemon and returns its number: the run of awake time. If the disk is full, it uses the
    /// reserve.
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

    /// Runs a read transaction.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn read<T, E: From<Error>>(&self, work: impl FnOnce(&Tables, &Read<'_>) -> Result<T, E>) -> Result<T, E> {
        self.reader.read(work)
    }

    /// Runs a write transaction. When this returns `Ok`, all of its changes are on disk; after `Err`, none are.
    ///
    /// # Errors
    /// Those of `work`, and of the commit.
    pub fn write<T, E: From<Error>>(&self, work: impl FnOnce(&Tables, &mut Write<'_>) -> Result<T, E>) -> Result<T, E> {
        let mut txn = Write::new(begin_write(&self.reader.env)?, &self.lasting);
        let done = work(&self.reader.tables, &mut txn)?;
        self.commit(txn)?;
        Ok(done)
    }

    /// Runs a group of transactions that are committed together. One that fails is undone alone, unless `no_room` says
    /// that it failed for lack of space: the other ones may have used the space, so the whole group is undone with
    /// [`Error::Full`]. When this returns `Ok`, those that succeeded are on disk.
    ///
    /// A nested transaction costs more than the writes in it. So only inputs that are likely to be undone, according to
    /// `undoable`, get one. If another one fails after all, the group is undone and repeated with a nested transaction
    /// for each input.
    ///
    /// # Errors
    ///
    /// The failure of the group: none of it is stored, and the answers are lost. After [`Error::is_full`] the inputs
    /// can be retried one by one. After any other error the state of the store is unknown, and the process stops.
    pub fn write_batch<I, T, E>(
        &self,
        inputs: &[I],
        mut work: impl FnMut(&Tables, &mut Write<'_>, &I) -> Result<T, E>,
        undoable: impl Fn(&I) -> bool,
        no_room: impl Fn(&E) -> bool,
    ) -> Result<Vec<Result<T, E>>> {
        let (mut each, mut at) = (false, 0);
        let mut group = Write::new(begin_write(&self.reader.env)?, &self.lasting);
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
                    group = Write::new(begin_write(&self.reader.env)?, &self.lasting);
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

    /// Commits. A disk that becomes full during a write may take the first part of it, and LMDB then reports an I/O
    /// error. This does no harm: the pages of the transaction are not used. A real disk error appears again in the next
    /// try, which has the reserve.
    fn commit(&self, txn: Write<'_>) -> Result<()> {
        crash::point("store-commit");
        let committed = self.reader.tables.commit(txn);
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

    /// Takes the chats of which the last commit found that a segment of their new texts is due.
    #[must_use]
    pub fn take_crowded(&self) -> BTreeSet<RecallScope> {
        self.lasting.take_crowded()
    }

    /// Runs a nested transaction: if `work` fails, only its changes are rolled back.
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

    /// Frees the reader slots of dead processes, and returns their number. A dead reader keeps freed pages from being
    /// reused.
    ///
    /// # Errors
    ///
    /// [`Error::Lmdb`].
    pub fn clear_stale_readers(&self) -> Result<usize> {
        self.reader.env.clear_stale_readers().map_err(Error::lmdb("clearing stale readers"))
    }

    /// Whether there is space for new work.
    ///
    /// # Errors
    ///
    /// Those of reading the store and the file system.
    pub fn admission(&self) -> Result<Admission> {
        let bounds = self.reader.bounds(&self.dir, &self.options, self.has_reserve())?;
        // Used space is counted only if it matters, because that reads every table.
        if bounds.surely_open() {
            return Ok(Admission::Open);
        }
        Ok(bounds.with_used(self.read(room::used_bytes)?).admission())
    }

    /// Space used and space left. The limit leaves a fifth of the map to removals.
    ///
    /// # Errors
    /// Those of looking.
    pub fn usage(&self) -> Result<Usage> {
        self.reader.usage_of(&self.dir, &self.options, self.has_reserve())
    }

    /// Whether the reserve exists.
    #[must_use]
    pub fn has_reserve(&self) -> bool {
        room::reserved(&self.reserve_path(), self.options.reserve_bytes)
    }

    /// Releases the reserve, so that acknowledgements and removals find pages. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn release_reserve(&self) -> Result<bool> {
        room::release(&self.reserve_path())
    }

    /// Releases half of the reserve if the disk is full, and returns whether it did. Agents themselves write that a
    /// turn has ended, and need space for that before there is anything to commit.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn share_reserve(&self) -> Result<bool> {
        room::share(&self.dir, &self.reserve_path(), self.options.reserve_bytes)
    }

    /// Allocates the reserve again. Returns whether it exists now. A partial reserve stays until there is room for all
    /// of it.
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
