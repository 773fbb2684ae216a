//! Replaces a store, or adds the first one, in one atomic step: after a crash there is either the old store or the new
//! one.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{Error, Manifest, Part, Progress, Proof, Result, Step, copy, files, place, prove};
use crate::crash;
use crate::location::is_there;
use crate::lock::{self, WriterLock};
use crate::model::Timestamp;
use crate::reader::Reader;
use crate::references::{Agree, Incoming, Reference};
use crate::store::Draft;
use crate::{error as state, filesystem};

/// Parameters of a restore.
#[derive(Debug, Clone)]
pub struct Restore {
    /// The backup.
    pub backup: PathBuf,
    /// The target data directory, which must exist.
    pub data: PathBuf,
    /// Whether to move an existing store aside.
    pub replace: bool,
    /// Whether the restored store keeps its installation id, even elsewhere.
    pub keep_id: bool,
    /// Id of the new installation, if it becomes one.
    pub install: u64,
    /// Entropy for the epoch of outgoing ids that begins.
    pub epoch: u64,
    /// When this happens.
    pub now: Timestamp,
    /// Checks that the backup must pass.
    pub proof: Proof,
}

/// A store that was restored.
#[derive(Debug)]
pub struct Restored {
    /// The backup's manifest.
    pub manifest: Manifest,
    /// Id of its installation.
    pub install: u64,
    /// Files that it reads and commands that it runs.
    pub references: Vec<Reference>,
    /// Where the previous store was moved.
    pub aside: Option<PathBuf>,
    /// Where the mailboxes of the previous store were moved.
    pub mailboxes_aside: Option<PathBuf>,
}

/// A store that was compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Size of its file before.
    pub before: u64,
    /// Size of its file now.
    pub after: u64,
    /// Rows of all tables.
    pub rows: u64,
}

/// The store directory of a data directory, locked by this process.
pub(crate) struct LockedStore {
    data: PathBuf,
    _lock: WriterLock,
}

impl LockedStore {
    /// Takes the daemon's lock.
    pub(crate) fn take(data: &Path) -> Result<Self> {
        filesystem::check(data)?;
        Ok(Self { data: data.to_owned(), _lock: lock::take(data)? })
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.data.join("store")
    }

    /// Whether there is anything at the store's path.
    pub(crate) fn is_taken(&self) -> Result<bool> {
        is_filled(&self.store())
    }

    fn mailboxes(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// Whether there are mailboxes, which belong to a store.
    pub(crate) fn has_mailboxes(&self) -> Result<bool> {
        is_filled(&self.mailboxes())
    }

    /// The mailboxes belong to the old store: the new one may have other incarnations with the same numbers, and would
    /// trust their files. So the mailboxes are moved first, and pending work is exported again from the tables. A crash
    /// in between leaves the old store without mailboxes, never a store with mailboxes of another one.
    fn move_mailboxes(&self, now: Timestamp) -> Result<Option<PathBuf>> {
        if !self.has_mailboxes()? {
            return Ok(None);
        }
        let aside = self.data.join(format!("sessions.old-{}", place::stamp(now)));
        if files::exists(&aside) {
            return Err(Error::Exists { path: aside });
        }
        crash::point("mailboxes-aside");
        std::fs::rename(self.mailboxes(), &aside).map_err(Error::io(&aside))?;
        files::sync_dir(&self.data)?;
        Ok(Some(aside))
    }

    /// The directory in which the next store is built.
    pub(crate) fn next(&self) -> Result<Part> {
        Part::create(next(&self.data))
    }
}

fn is_filled(dir: &Path) -> Result<bool> {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io(dir)(e)),
    }
}

/// Name of a store under construction. Nothing under this name is ever the only copy of anything.
const NEXT: &str = "store.next";

/// The directory in which a data directory's next store is built.
pub(crate) fn next(data: &Path) -> PathBuf {
    data.join(NEXT)
}

/// Removes what an interrupted restore, import, compaction or creation of a store left. The caller holds the daemon's
/// lock.
pub(crate) fn remove_unfinished(data: &Path) {
    // Anything that cannot be removed takes up space but does no harm.
    drop(files::leave_room(&next(data)));
    if is_there(&data.join("store")).unwrap_or(false) {
        // The store is put in place last, so the restore of everything was complete.
        drop(files::leave_room(&data.join("restore.part")));
    }
}

/// Moves the mailboxes and files of a missing store aside, under names with the time. The caller holds the daemon's
/// lock.
pub(crate) fn move_aside(data: &Path, now: Option<Timestamp>) -> state::Result<()> {
    let stamp = now.map_or_else(|| "unknown".to_owned(), place::stamp);
    for name in ["sessions", "files"] {
        let (from, to) = (data.join(name), data.join(format!("{name}.old-{stamp}")));
        // Nothing is replaced: renaming to a directory that is not empty fails.
        if std::fs::read_dir(&from).is_ok_and(|mut entries| entries.next().is_some()) {
            crash::point("remains-aside");
            std::fs::rename(&from, &to).map_err(state::Error::io(&to))?;
        }
    }
    files::sync_names(data)
}

/// Restores a backup while no daemon runs. `agree` is asked after the backup is verified, before anything is changed.
///
/// # Errors
/// [`Error`]; the data directory keeps its previous store.
pub fn restore(request: &Restore, agree: Agree<'_>, progress: &dyn Progress) -> Result<Restored> {
    let manifest = Manifest::read(&request.backup)?;
    let target = LockedStore::take(&request.data)?;
    let taken = target.is_taken()?;
    if taken && !request.replace {
        return Err(Error::StoreExists { path: request.data.clone() });
    }
    let part = target.next()?;
    let damaged = |reason: String| Error::Damaged { path: request.backup.clone(), reason };
    let source = files::store_file(&request.backup);
    let copied = files::copy(&source, manifest.bytes, &files::store_file(part.path()), progress)?;
    if copied != (manifest.bytes, manifest.sha256.clone()) {
        let (bytes, expected) = (copied.0, manifest.bytes);
        return Err(damaged(if bytes == expected {
            "its checksum is wrong".to_owned()
        } else {
            format!("its file has {bytes} bytes instead of {expected}")
        }));
    }
    let draft = Draft::open(part.path(), progress).map_err(|error| match error {
        // The backup is damaged: its copy is removed.
        state::Error::Broken { reason, .. } => damaged(reason),
        error => Error::of_store(error, part.path()),
    })?;
    let (_, rows) = prove(draft.reader(), request.proof, &request.backup)?;
    if rows != manifest.rows {
        return Err(damaged(format!("it has {rows} rows instead of {}", manifest.rows)));
    }
    let incoming = Incoming::of(draft.reader())?;
    agree(&incoming).map_err(|why| Error::NotAgreed { why })?;
    let same = request.keep_id || Path::new(&manifest.data) == request.data;
    let install = (!same).then_some(request.install);
    // Before the store is in place, because this skips numbers that the original used after the backup.
    let meta = draft.begin_epoch(request.epoch, install).map_err(|e| Error::of_store(e, part.path()))?;
    drop(draft); // closed before its directory is moved
    let mailboxes_aside = target.move_mailboxes(request.now)?;
    let placed = put_in_place(&target, part, taken.then_some(request.now));
    if let (Err(_), Some(aside)) = (&placed, &mailboxes_aside) {
        // The mailboxes belong to the store that stays. If this fails, they are created again from it.
        drop(std::fs::rename(aside, target.mailboxes()));
    }
    Ok(Restored { manifest, install: meta.install, references: incoming.references, aside: placed?, mailboxes_aside })
}

/// Compacts the store of a data directory while no daemon runs.
///
/// # Errors
/// [`Error`]; the store is unchanged.
pub fn compact(data: &Path, progress: &dyn Progress) -> Result<Compacted> {
    let target = LockedStore::take(data)?;
    let reader = Reader::open_proved(data, progress)?;
    let before = files::store_bytes(&target.store())?;
    let part = target.next()?;
    let expected = reader.read(super::count)?;
    copy(&reader, &part, progress)?;
    drop(reader);
    progress.begin(Step::Checking, None);
    let copied = Reader::open_copy(part.path())?;
    let (_, rows) = prove(&copied, Proof::Sound, part.path())?;
    drop(copied);
    if rows != expected {
        let reason = format!("it has {rows} rows instead of {expected}");
        return Err(Error::Damaged { path: part.path().to_owned(), reason });
    }
    let after = files::store_bytes(part.path())?;
    files::sync_dir(part.path())?;
    exchange(&target.store(), part.path())?;
    files::sync_dir(data)?;
    drop(part); // the old store has this name now
    Ok(Compacted { before, after, rows })
}

/// Puts a finished store in place. If a time is given, the current store is moved aside under a name with that time.
pub(crate) fn put_in_place(
    target: &LockedStore,
    mut part: Part,
    replaced: Option<Timestamp>,
) -> Result<Option<PathBuf>> {
    let store = target.store();
    let Some(now) = replaced else {
        part.finish(&store)?;
        return Ok(None);
    };
    let aside = target.data.join(format!("store.old-{}", place::stamp(now)));
    if files::exists(&aside) {
        return Err(Error::Exists { path: aside });
    }
    files::sync_dir(part.path())?;
    // The old store gets its final name before the exchange: after a crash it must not have a name under which
    // leftovers are removed.
    part.rename(aside)?;
    exchange(&store, part.path())?;
    let aside = part.release();
    files::sync_dir(&target.data)?;
    Ok(Some(aside))
}

/// Exchanges two directories in one atomic step.
fn exchange(store: &Path, other: &Path) -> Result<()> {
    crash::point("store-exchange");
    renameat_with(CWD, store, CWD, other, RenameFlags::EXCHANGE).map_err(|errno| match errno {
        rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP => {
            Error::NoExchange { path: store.to_owned() }
        }
        errno => state::Error::io(store)(errno.into()).into(),
    })
}
