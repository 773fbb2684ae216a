//! Backups of everything: a snapshot of the store, to which an archive of the files it refers to is added.
//!
//! The archive is made in a hidden directory of its target directory, beside the snapshot, and gets its final name
//! last.

use std::path::{Path, PathBuf};

use super::place::{self, Form};
use super::{Error, FinishedBackup, Manifest, Part, Progress, Request, Result, files, fill};
use crate::crash;
use crate::reader::Reader;

/// A backup of everything that has no archive yet. Dropped before [`Self::finish`], it disappears.
#[derive(Debug)]
pub struct Unfinished {
    part: Part,
    dir: PathBuf,
    path: PathBuf,
    keep: Option<usize>,
    manifest: Manifest,
    _turn: Option<files::DirLock>,
}

/// Takes and checks a snapshot of an open store, which may be written meanwhile.
///
/// # Errors
/// [`Error`]; nothing is left of the backup then.
pub fn begin(reader: &Reader, request: &Request, progress: &dyn Progress) -> Result<Unfinished> {
    place::refuse_within(&request.place, &request.data)?;
    let (dir, path) = place::decide(&request.place, &request.data, request.now, Form::Whole)?;
    let turn = place::turn(&dir)?;
    place::remove_leftovers(&dir, turn.as_ref())?;
    if files::exists(&path) {
        return Err(Error::Exists { path });
    }
    let part = Part::create(place::hidden(&path))?;
    let store = Part::create(part.path().join(place::STORE))?;
    let manifest = fill(reader, request, &store, progress)?;
    store.release();
    Ok(Unfinished { part, dir, path, keep: request.keep, manifest, _turn: turn })
}

impl Unfinished {
    /// Directory of the snapshot and its manifest.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.part.path().join(place::STORE)
    }

    /// The snapshot.
    ///
    /// # Errors
    /// [`Error`] if it cannot be opened.
    pub fn snapshot(&self) -> Result<Reader> {
        Ok(Reader::open_copy(&self.store())?)
    }

    /// Where the archive has to be written.
    #[must_use]
    pub fn archive(&self) -> PathBuf {
        self.part.path().join(place::ARCHIVE)
    }

    /// The manifest of the snapshot.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Gives the archive, which is complete, checked and on the disk, its final name. Then removes older ones; `same`
    /// says whether one is of this installation.
    ///
    /// # Errors
    /// [`Error`]. If only the removal of older ones fails, the backup is there, and the error says so.
    pub fn finish(self, same: &dyn Fn(&Path) -> bool) -> Result<FinishedBackup> {
        if files::exists(&self.path) {
            return Err(Error::Exists { path: self.path });
        }
        crash::point("archive-finish");
        std::fs::rename(self.archive(), &self.path).map_err(Error::io(&self.path))?;
        files::sync_dir(&self.dir)?;
        let Self { part, dir, path, keep, manifest, _turn } = self;
        drop(part);
        let removed = match keep {
            Some(keep) => place::thin_out_archives(&dir, &path, keep, same)
                .map_err(|source| Error::NotThinned { path: path.clone(), source: Box::new(source) })?,
            None => Vec::new(),
        };
        Ok(FinishedBackup { path, manifest, removed })
    }
}
