//! Backups of the store, made while the daemon writes it. A backup is verified before it gets its name, and a restore
//! is atomic.
//!
//! A backup is a directory with a copy of the store's file and a manifest. It is made under a hidden name in its target
//! directory, synced, opened and checked, and gets its final name last. So everything with the name of a backup is
//! complete. LMDB makes the copy through an open environment: no file that LMDB has open is opened a second time.
//!
//! A restored or compacted store is built beside the current one and swapped with it in one atomic step of the file
//! system.

use std::path::{Path, PathBuf};

use super::error as state;
use super::meta::Meta;
use super::reader::Reader;
use super::schema::Tables;
use super::{Read, check, migrate};
use crate::crash;
use crate::model::Timestamp;

pub mod error;
mod files;
pub mod manifest;
mod place;
pub mod switch;
pub mod whole;

pub use super::progress::{Progress, Step, Unwatched};
pub use error::{Error, Result};
pub use manifest::Manifest;
pub use place::newest_in;
pub use switch::{Compacted, Restore, Restored, compact, restore};
pub use whole::{Unfinished, begin};

pub(crate) use files::{Part, hex, move_file};
pub(crate) use switch::{LockedStore, move_aside, next, put_in_place, remove_unfinished};

use manifest::MANIFEST;
use place::Form;

/// Checks that a copy must pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It is consistent.
    Sound,
    /// Its tables can be walked. Used for stores of an older format, to which the current checks do not apply, and for
    /// copies of a damaged store.
    Readable,
}

/// Where a backup goes.
#[derive(Debug, Clone)]
pub enum BackupPath {
    /// Into this directory, under a name with the time.
    In(PathBuf),
    /// Here.
    At(PathBuf),
}

/// Parameters of a backup.
#[derive(Debug, Clone)]
pub struct Request {
    /// The data directory.
    pub data: PathBuf,
    /// Where it goes.
    pub place: BackupPath,
    /// Time of the backup.
    pub now: Timestamp,
    /// Number of backups of this installation to keep in the directory, including this one.
    pub keep: Option<usize>,
    /// Checks that it must pass.
    pub proof: Proof,
}

/// A finished backup.
#[derive(Debug)]
pub struct FinishedBackup {
    /// Where it is.
    pub path: PathBuf,
    /// The manifest of the backup.
    pub manifest: Manifest,
    /// Older ones that were removed.
    pub removed: Vec<PathBuf>,
}

/// Name of the directory of backups in a data directory.
#[must_use]
pub fn default_dir(data: &Path) -> PathBuf {
    data.join("backups")
}

/// Makes a backup of an open store, which may be written meanwhile.
///
/// # Errors
/// [`Error`]; nothing is left of the backup then. If only the removal of older ones fails, the backup is there, and the
/// error says so.
pub fn backup(reader: &Reader, request: &Request, progress: &dyn Progress) -> Result<FinishedBackup> {
    place::refuse_within(&request.place, &request.data)?;
    let (dir, path) = place::decide(&request.place, &request.data, request.now, Form::Store)?;
    let turn = place::turn(&dir)?;
    place::remove_leftovers(&dir, turn.as_ref())?;
    if files::exists(&path) {
        return Err(Error::Exists { path });
    }
    let part = Part::create(place::hidden(&path))?;
    let manifest = fill(reader, request, &part, progress)?;
    part.finish(&path)?;
    let removed = match request.keep {
        Some(keep) => place::thin_out(&dir, &path, &manifest.install, keep)
            .map_err(|source| Error::NotThinned { path: path.clone(), source: Box::new(source) })?,
        None => Vec::new(),
    };
    Ok(FinishedBackup { path, manifest, removed })
}

fn fill(reader: &Reader, request: &Request, part: &Part, progress: &dyn Progress) -> Result<Manifest> {
    let (bytes, sha256) = copy(reader, part, progress)?;
    progress.begin(Step::Checking, None);
    let copied = Reader::open_copy(part.path())?;
    let (meta, rows) = prove(&copied, request.proof, part.path())?;
    drop(copied);
    let manifest = Manifest::new(&meta, &request.data, request.now, (rows, bytes, sha256));
    files::write(&part.path().join(MANIFEST), manifest.to_text()?.as_bytes())?;
    Ok(manifest)
}

/// Copies a store into a directory; synced when this returns. Returns size and digest.
fn copy(reader: &Reader, part: &Part, progress: &dyn Progress) -> Result<(u64, String)> {
    progress.begin(Step::Copying, None);
    let path = files::store_file(part.path());
    let mut file = files::create(&path)?;
    crash::point("copy-fill");
    reader.copy_into(&mut file).map_err(|e| Error::of_store(e, &path))?;
    crash::point("copy-sync");
    file.sync_all().map_err(Error::io(&path))?;
    files::digest(&mut file, &path, progress)
}

/// A private copy of the store, for slow readers: reading it blocks no writer. It disappears when it is closed, however
/// this process ends.
///
/// # Errors
/// [`Error`], when there is no room for it.
pub fn frozen(reader: &Reader, data: &Path, now: Timestamp, progress: &dyn Progress) -> Result<Reader> {
    let (dir, path) = place::decide(&BackupPath::In(default_dir(data)), data, now, Form::Store)?;
    let turn = place::turn(&dir)?;
    place::remove_leftovers(&dir, turn.as_ref())?;
    let part = Part::create(place::hidden(&path))?;
    copy(reader, &part, progress)?;
    Ok(Reader::open_copy(part.path())?) // the map keeps the file open after its name is removed
}

/// Makes a backup before the store is migrated. It is kept until a person removes it.
pub(super) fn before_migration(reader: &Reader, data: &Path, to: u32, now: Option<Timestamp>) -> Result<PathBuf> {
    let stamp = now.map(|now| place::stamp(now) + "-").unwrap_or_default();
    let path = default_dir(data).join(format!("{stamp}before-format-{to}.hearth"));
    let now = now.unwrap_or(Timestamp::from_millis(0));
    let request =
        Request { data: data.to_owned(), place: BackupPath::At(path), now, keep: None, proof: Proof::Readable };
    match backup(reader, &request, &Unwatched) {
        Err(Error::Exists { path }) => Ok(path), // an earlier, interrupted migration made it
        made => made.map(|made| made.path),
    }
}

/// Verifies a copy. Returns its identity and its number of rows.
pub(super) fn prove(reader: &Reader, proof: Proof, path: &Path) -> Result<(Meta, u64)> {
    let (meta, rows) = reader.read(|db, txn| Ok::<_, Error>((db.meta.require(txn, &())?, count(db, txn)?)))?;
    if proof == Proof::Sound && meta.format == migrate::FORMAT {
        let found = check::check_in_parts(reader)?;
        if let Some(first) = found.first() {
            let (count, first) = (found.len(), first.to_string());
            return Err(Error::Unsound { path: path.to_owned(), count, first });
        }
    }
    Ok((meta, rows))
}

/// Rows of all tables.
pub(super) fn count(db: &Tables, txn: &Read<'_>) -> state::Result<u64> {
    db.all().try_fold(0_u64, |count, (_, rows)| Ok(count.saturating_add(rows.bytes().len(txn)?)))
}
