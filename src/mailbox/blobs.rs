//! The store of files: files of messages, under the SHA-256 of their bytes, `<first two digits>/<all digits>`.
//!
//! The index `blobs` of the store knows which messages need a file; this directory does not. A file is stored before
//! the message that names it is imported, and is removed some time after the last such message. Before a removal the
//! host asks the index, and it spares files that were put recently, because their message may be about to be imported.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hearth_wire::limits::FILE_BYTES;
use sha2::{Digest as _, Sha256};

use crate::model::content::BlobId;
use crate::model::time::{Millis, Timestamp};

use super::dir::{Dir, DirEntry, Removal, fresh};
use super::error::Error;
use super::root::Root;

/// Mode of directories: private to the host.
const PRIVATE: u32 = 0o700;
/// Mode of files. They are written once and never opened for writing again.
const FILE_MODE: u32 = 0o600;
/// Time for which a file stays although no message needs it. Far longer than the time between putting a file and
/// importing its message.
const GRACE: Millis = Millis::minutes(60);
/// Number of directories; each has the digests that begin with the same two digits.
pub const SHARDS: u16 = 256;
/// Maximum number of files listed in one directory.
const LISTED_MAX: usize = 1_000_000;

/// The store of files of an install.
#[derive(Debug)]
pub struct Blobs {
    root: Root,
    /// Held while a file is looked up or removed, so that a file that was just found is not removed.
    changing: Mutex<Pending>,
}

/// For each file, how many messages it was put for that are not imported or refused yet.
type Pending = HashMap<BlobId, u32>;

impl Blobs {
    /// Opens the directory of the store of files, and creates it if it is missing.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be made or opened.
    pub fn open(files: &Path) -> Result<Self, Error> {
        Ok(Self { root: Root::open(files)?, changing: Mutex::default() })
    }

    /// Stores bytes durably. Storing the same bytes again changes nothing.
    ///
    /// # Errors
    /// [`Error::FileTooLarge`], and errors of the system: see [`Error::is_full`]. No partial file stays.
    pub fn put(&self, bytes: &[u8]) -> Result<BlobId, Error> {
        let size = bytes.len() as u64;
        if size > FILE_BYTES {
            return Err(Error::FileTooLarge { bytes: size });
        }
        let blob = BlobId::of_digest(&Sha256::digest(bytes).into());
        self.store(&blob, size, |file| file.write_all(bytes))?;
        Ok(blob)
    }

    /// Stores a copy of a file that no longer changes.
    pub(super) fn put_file(&self, mut from: File, path: &Path) -> Result<(BlobId, u64), Error> {
        let fault = |e| Error::io("read", path, e);
        let mut digest = Sha256::new();
        let mut part = vec![0; 1 << 16];
        let mut size = 0_u64;
        loop {
            let read = from.read(&mut part).map_err(fault)?;
            if read == 0 {
                break;
            }
            size += read as u64;
            digest.update(part.get(..read).unwrap_or_default());
        }
        if size > FILE_BYTES {
            return Err(Error::FileTooLarge { bytes: size });
        }
        let blob = BlobId::of_digest(&digest.finalize().into());
        from.rewind().map_err(fault)?;
        self.store(&blob, size, |file| super::dir::copy(&from, file).map(drop))?;
        Ok((blob, size))
    }

    /// Opens a file and returns its size; `None` if it no longer exists.
    ///
    /// # Errors
    /// [`Error::Unusable`] for entries that the host did not create, and errors of the system.
    pub fn read(&self, blob: &BlobId) -> Result<Option<(File, u64)>, Error> {
        let (shard, name) = place(blob);
        let DirEntry::Found(dir) = self.root.dir()?.dir(shard)? else { return Ok(None) };
        match dir.file(OsStr::new(name), FILE_BYTES)? {
            DirEntry::Found(found) => Ok(Some(found)),
            DirEntry::Absent => Ok(None),
            DirEntry::Refused(reason) => Err(Error::Unusable { path: dir.path().join(name), reason }),
        }
    }

    /// Releases files after their message was imported or refused for good.
    pub fn settle<'b>(&self, blobs: impl IntoIterator<Item = &'b BlobId>) {
        let mut pending = self.lock();
        for blob in blobs {
            match pending.get_mut(blob) {
                Some(times) if *times > 1 => *times -= 1,
                _ => drop(pending.remove(blob)),
            }
        }
    }

    /// Removes a file of a refused message, unless it was put for another message as well.
    ///
    /// # Errors
    /// As for [`Self::remove`].
    pub fn take_back<E>(
        &self,
        blob: &BlobId,
        needed: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Result<bool, E>, Error> {
        let pending = self.lock();
        if pending.contains_key(blob) {
            return Ok(Ok(false));
        }
        match needed() {
            Ok(false) => {}
            Ok(true) => return Ok(Ok(false)),
            Err(error) => return Ok(Err(error)),
        }
        let (shard, name) = place(blob);
        let DirEntry::Found(dir) = self.root.dir()?.dir(shard)? else { return Ok(Ok(true)) };
        Ok(Ok(dir.remove(OsStr::new(name))? == Removal::Gone))
    }

    /// Removes a file if no message needs it and it was not put recently. Returns whether it is gone. No file can be
    /// put while `needed` runs.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn remove<E>(
        &self,
        blob: &BlobId,
        now: Timestamp,
        needed: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Result<bool, E>, Error> {
        let (shard, name) = place(blob);
        let mut pending = self.lock();
        let DirEntry::Found(dir) = self.root.dir()?.dir(shard)? else { return Ok(Ok(true)) };
        match dir.modified(OsStr::new(name))? {
            None => return Ok(Ok(true)),
            Some(put) if put.plus(GRACE) > now => return Ok(Ok(false)),
            Some(_) => {}
        }
        match needed() {
            Ok(false) => {}
            Ok(true) => return Ok(Ok(false)),
            Err(error) => return Ok(Err(error)),
        }
        pending.remove(blob);
        Ok(Ok(dir.remove(OsStr::new(name))? == Removal::Gone))
    }

    /// Lists the files of one of [`SHARDS`] directories. Also removes partial files that a crash left there.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn shard(&self, number: u16, now: Timestamp) -> Result<Vec<BlobId>, Error> {
        let DirEntry::Found(dir) = self.root.dir()?.dir(format!("{number:02x}"))? else { return Ok(Vec::new()) };
        let mut blobs = Vec::new();
        for name in dir.list(LISTED_MAX)?.names {
            let Some(text) = name.to_str() else { continue };
            match BlobId::parse(text) {
                Some(blob) => blobs.push(blob),
                None if hearth_wire::is_temporary(text)
                    && dir.modified(&name)?.is_some_and(|written| written.plus(GRACE) <= now) =>
                {
                    dir.remove(&name)?;
                }
                None => {}
            }
        }
        Ok(blobs)
    }

    fn store(&self, blob: &BlobId, size: u64, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
        *self.lock().entry(blob.clone()).or_default() += 1;
        let stored = self.store_pending(blob, size, write);
        if stored.is_err() {
            self.settle([blob]);
        }
        stored
    }

    fn store_pending(
        &self,
        blob: &BlobId,
        size: u64,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), Error> {
        let (shard, name) = place(blob);
        let root = self.root.dir()?;
        let dir = root.ensure_dir(shard, PRIVATE)?;
        if !self.renewed(&dir, name, size)? {
            self.write(&dir, name, write)?;
        }
        // Also for an existing file: the process that put it may not have synced it yet.
        dir.sync()?;
        root.sync()
    }

    fn write(&self, dir: &Dir, name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
        let temporary = hearth_wire::temporary_name(name, fresh());
        let temporary = OsStr::new(&temporary);
        let fault = |e| Error::io("write", &dir.path().join(temporary), e);
        let mut file = dir.create(temporary, FILE_MODE)?;
        crate::crash::point("blob-write");
        let written = write(&mut file).and_then(|()| file.sync_all()).map_err(fault);
        let done = written.and_then(|()| {
            let _changing = self.lock();
            // Any other entry with this name is removed: only the host puts entries here.
            dir.rename(temporary, dir, OsStr::new(name))
        });
        if done.is_err() {
            // The first error is the one to report; what stays is removed later.
            dir.remove(temporary).ok();
        }
        done
    }

    /// Whether a file of this size already exists. If so, it counts as put now.
    fn renewed(&self, dir: &Dir, name: &str, size: u64) -> Result<bool, Error> {
        let _changing = self.lock();
        match dir.file(OsStr::new(name), FILE_BYTES)? {
            DirEntry::Found((file, there)) if there == size => {
                dir.touch(&file, OsStr::new(name))?;
                Ok(true)
            }
            DirEntry::Found(_) | DirEntry::Absent | DirEntry::Refused(_) => Ok(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Directory and name of a file.
fn place(blob: &BlobId) -> (&str, &str) {
    let name = blob.as_str();
    (name.get(..2).unwrap_or_default(), name)
}
