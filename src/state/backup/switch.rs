//! A store takes the place of another, or of none: in one step, so that a crash leaves the one or the other.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{Error, Manifest, Part, Progress, Proof, Result, Step, copy, files, place, prove};
use crate::crash;
use crate::model::Timestamp;
use crate::state::lock::{self, WriterLock};
use crate::state::store::{Draft, Reader};
use crate::state::{error as state, filesystem};

/// What is asked of a restore.
#[derive(Debug, Clone)]
pub struct Restore {
    /// The backup.
    pub backup: PathBuf,
    /// The data directory it goes to; it is there.
    pub data: PathBuf,
    /// Move a store that is there aside.
    pub replace: bool,
    /// The restored store is the same installation, wherever it lies.
    pub keep_id: bool,
    /// Name of a new installation, if it becomes one.
    pub install: u64,
    /// When this happens.
    pub now: Timestamp,
    /// What the backup has to prove.
    pub proof: Proof,
}

/// A store that was restored.
#[derive(Debug)]
pub struct Restored {
    /// What its backup said.
    pub manifest: Manifest,
    /// Name of the installation it is now.
    pub install: u64,
    /// Where the store is that was there before.
    pub aside: Option<PathBuf>,
    /// Where its mailboxes are.
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

/// The store's directory of a data directory, held for this process.
pub(in crate::state) struct Target {
    data: PathBuf,
    _lock: WriterLock,
}

impl Target {
    /// Takes the daemon's lock.
    pub(in crate::state) fn take(data: &Path) -> Result<Self> {
        filesystem::check(data)?;
        Ok(Self { data: data.to_owned(), _lock: lock::take(data)? })
    }

    pub(in crate::state) fn store(&self) -> PathBuf {
        self.data.join("store")
    }

    /// Whether there is anything where the store lies.
    pub(in crate::state) fn is_taken(&self) -> Result<bool> {
        is_filled(&self.store())
    }

    fn mailboxes(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// Whether there are mailboxes, which belong to some store.
    pub(in crate::state) fn has_mailboxes(&self) -> Result<bool> {
        is_filled(&self.mailboxes())
    }

    /// What agents and the daemon exchanged belongs to the store that goes: the next one may have other incarnations of the
    /// same numbers, and would believe their files. So mailboxes go first, and what is due is made again from the tables:
    /// a crash in between leaves the old store without mailboxes, and never a store with mailboxes of another one.
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

    /// Where the next store is made.
    pub(in crate::state) fn next(&self) -> Result<Part> {
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

/// Name of a store that is being made. Nothing under this name is ever the only copy of anything.
const NEXT: &str = "store.next";

/// Where the next store of a data directory is made.
pub(in crate::state) fn next(data: &Path) -> PathBuf {
    data.join(NEXT)
}

/// Removes what a restore, an import, compacting or making a store left when it was interrupted. The caller holds the
/// daemon's lock.
pub(in crate::state) fn remove_unfinished(data: &Path) {
    // What cannot be removed takes up space and does no harm.
    drop(files::leave_room(&next(data)));
}

/// Restores a backup; no daemon runs.
///
/// # Errors
/// [`Error`]; the data directory has the store then that it had before.
pub fn restore(request: &Restore, progress: &dyn Progress) -> Result<Restored> {
    let manifest = Manifest::read(&request.backup)?;
    let target = Target::take(&request.data)?;
    let taken = target.is_taken()?;
    if taken && !request.replace {
        return Err(Error::StoreExists { path: request.data.clone() });
    }
    let part = target.next()?;
    let damaged = |reason: String| Error::Damaged { path: request.backup.clone(), reason };
    let copied = files::copy(&files::store_file(&request.backup), &files::store_file(part.path()), progress)?;
    if copied != (manifest.bytes, manifest.sha256.clone()) {
        let (bytes, expected) = (copied.0, manifest.bytes);
        return Err(damaged(if bytes == expected {
            "its checksum is wrong".to_owned()
        } else {
            format!("its file has {bytes} bytes instead of {expected}")
        }));
    }
    progress.begin(Step::Checking, None);
    let draft = Draft::open(part.path()).map_err(|e| Error::of_store(e, part.path()))?;
    let (meta, rows) = prove(draft.reader(), request.proof, &request.backup)?;
    if rows != manifest.rows {
        return Err(damaged(format!("it has {rows} rows instead of {}", manifest.rows)));
    }
    let same = request.keep_id || Path::new(&manifest.data) == request.data;
    let install = if same { meta.install } else { request.install };
    if !same {
        draft.rename_install(install).map_err(|e| Error::of_store(e, part.path()))?;
    }
    drop(draft); // closed before its directory is moved
    let mailboxes_aside = target.move_mailboxes(request.now)?;
    let placed = put_in_place(&target, part, taken.then_some(request.now));
    if let (Err(_), Some(aside)) = (&placed, &mailboxes_aside) {
        // They belong to the store that stays. Where that fails they are made again from it.
        drop(std::fs::rename(aside, target.mailboxes()));
    }
    Ok(Restored { manifest, install, aside: placed?, mailboxes_aside })
}

/// Compacts the store of a data directory; no daemon runs.
///
/// # Errors
/// [`Error`]; the store is as it was then.
pub fn compact(data: &Path, progress: &dyn Progress) -> Result<Compacted> {
    let target = Target::take(data)?;
    let reader = Reader::open(data)?;
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
    drop(part); // under this name lies the old store now
    Ok(Compacted { before, after, rows })
}

/// Puts a finished store in place; with a time, the one that is there is moved aside under a name made of it.
pub(in crate::state) fn put_in_place(
    target: &Target,
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
    // Under its final name before the exchange: a crash after it must not leave the old store where leftovers are removed.
    part.rename(aside)?;
    exchange(&store, part.path())?;
    let aside = part.release();
    files::sync_dir(&target.data)?;
    Ok(Some(aside))
}

/// Two directories change places in one step.
fn exchange(store: &Path, other: &Path) -> Result<()> {
    crash::point("store-exchange");
    renameat_with(CWD, store, CWD, other, RenameFlags::EXCHANGE).map_err(|errno| match errno {
        rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP => {
            Error::NoExchange { path: store.to_owned() }
        }
        errno => state::Error::io(store)(errno.into()).into(),
    })
}
