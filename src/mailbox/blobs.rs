//! The store of files: what came with messages, under the SHA-256 of its bytes, `<first two digits>/<all digits>`.
//!
//! It says nothing about who needs a file; that is in the index `blobs` of the store. A file is there before the
//! message that names it is taken in, and goes some time after the last such message went: whoever removes one asks
//! the index, and leaves alone what was put a short while ago, because its message may be about to be taken in.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hearth_wire::limits::FILE_BYTES;
use sha2::{Digest as _, Sha256};

use crate::model::content::BlobId;
use crate::model::time::{Millis, Timestamp};

use super::dir::{Dir, Look, Removal, fresh};
use super::error::Error;

/// Mode of directories: nobody but the host looks into them.
const PRIVATE: u32 = 0o700;
/// Mode of files. They are written once and never opened for writing again.
const FILE_MODE: u32 = 0o600;
/// Time for which a file stays without anybody who needs it: far longer than from putting it to taking in its message.
const GRACE: Millis = Millis::minutes(60);
/// Directories of the store, each for the digests that begin with the same two digits.
pub const SHARDS: u16 = 256;
/// Files of one directory that are looked at.
const LISTED_MAX: usize = 1_000_000;

/// The store of files of an install.
#[derive(Debug)]
pub struct Blobs {
    root: Dir,
    /// Held while a file is found to be there or is removed, so that none is removed that was just found.
    changing: Mutex<Pending>,
}

/// How often a file was put for a message of which nobody knows yet what became of it.
type Pending = HashMap<BlobId, u32>;

impl Blobs {
    /// Opens the directory of the store of files, and makes it if it is not there.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be made or opened.
    pub fn open(files: &Path) -> Result<Self, Error> {
        let made = DirBuilder::new().recursive(true).mode(PRIVATE).create(files);
        made.map_err(|e| Error::io("create", files, e))?;
        Ok(Self { root: Dir::open_trusted(files)?, changing: Mutex::default() })
    }

    /// Puts bytes in, durably; the same bytes again change nothing.
    ///
    /// # Errors
    /// [`Error::FileTooLarge`], and what the machine says: see [`Error::is_full`]. Nothing is left half stored.
    pub fn put(&self, bytes: &[u8]) -> Result<BlobId, Error> {
        let size = bytes.len() as u64;
        if size > FILE_BYTES {
            return Err(Error::FileTooLarge { bytes: size });
        }
        let blob = BlobId::of_digest(&Sha256::digest(bytes).into());
        self.store(&blob, size, |file| file.write_all(bytes))?;
        Ok(blob)
    }

    /// Puts a copy of a file in that nobody changes any more.
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

    /// Opens a file and says how many bytes it has; `None` if it is not there any more.
    ///
    /// # Errors
    /// [`Error::Unusable`] for something that the host did not put there, and what the machine says.
    pub fn read(&self, blob: &BlobId) -> Result<Option<(File, u64)>, Error> {
        let (shard, name) = place(blob);
        let Look::Found(dir) = self.root.dir(shard)? else { return Ok(None) };
        match dir.file(OsStr::new(name), FILE_BYTES)? {
            Look::Found(found) => Ok(Some(found)),
            Look::Absent => Ok(None),
            Look::Refused(reason) => Err(Error::Unusable { path: dir.path().join(name), reason }),
        }
    }

    /// A message for which files were put was taken in, or refused for good: it does not hold them any more.
    pub fn settle<'b>(&self, blobs: impl IntoIterator<Item = &'b BlobId>) {
        let mut pending = self.lock();
        for blob in blobs {
            match pending.get_mut(blob) {
                Some(times) if *times > 1 => *times -= 1,
                _ => drop(pending.remove(blob)),
            }
        }
    }

    /// Removes a file of a message that was refused, unless it was put for another message as well.
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
        let Look::Found(dir) = self.root.dir(shard)? else { return Ok(Ok(true)) };
        Ok(Ok(dir.remove(OsStr::new(name))? == Removal::Gone))
    }

    /// Removes a file if nobody needs it and it was not put a short while ago; says whether it is gone. `needed` is asked
    /// while nothing can be put.
    ///
    /// # Errors
    /// What the machine says.
    pub fn remove<E>(
        &self,
        blob: &BlobId,
        now: Timestamp,
        needed: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Result<bool, E>, Error> {
        let (shard, name) = place(blob);
        let mut pending = self.lock();
        let Look::Found(dir) = self.root.dir(shard)? else { return Ok(Ok(true)) };
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

    /// The files of one of [`SHARDS`] directories; also removes what a crash left half written there.
    ///
    /// # Errors
    /// What the machine says.
    pub fn shard(&self, number: u16, now: Timestamp) -> Result<Vec<BlobId>, Error> {
        let Look::Found(dir) = self.root.dir(format!("{number:02x}"))? else { return Ok(Vec::new()) };
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
        let dir = self.root.ensure_dir(shard, PRIVATE)?;
        if !self.renewed(&dir, name, size)? {
            self.write(&dir, name, write)?;
        }
        // Also for a file that is there already: whoever put it may not have come to this yet.
        dir.sync()?;
        self.root.sync()
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
            // Whatever else has the name goes: nothing but the host puts anything here.
            dir.rename(temporary, dir, OsStr::new(name))
        });
        if done.is_err() {
            // The first error is the one to report; what stays is removed later.
            dir.remove(temporary).ok();
        }
        done
    }

    /// Whether a file of this size is there already; then it is as if it had been put now.
    fn renewed(&self, dir: &Dir, name: &str, size: u64) -> Result<bool, Error> {
        let _changing = self.lock();
        match dir.file(OsStr::new(name), FILE_BYTES)? {
            Look::Found((file, there)) if there == size => {
                dir.touch(&file, OsStr::new(name))?;
                Ok(true)
            }
            Look::Found(_) | Look::Absent | Look::Refused(_) => Ok(false),
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
