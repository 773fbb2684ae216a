//! Files of store copies. Only this file opens files named like the store's. LMDB has none of them open in this
//! process: they are unfinished copies, or are part of a backup.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::{Error, Progress, Result, Step};
use crate::crash;
use crate::error as state;
use crate::files::open;
pub(super) use crate::files::store_file;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

/// Moves the file of a complete and closed store into a directory that has none. The move is synced when this returns.
pub(crate) fn move_file(from: &Path, to: &Path) -> state::Result<()> {
    let place = store_file(to);
    crash::point("store-move");
    std::fs::rename(store_file(from), &place).map_err(state::Error::io(&place))?;
    crash::point("store-moved");
    sync_names(to)
}

/// Like [`sync_dir`], for directories that are not part of a backup.
pub(super) fn sync_names(dir: &Path) -> state::Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(state::Error::io(dir))
}

/// Size of a store's file. Does not open the file.
pub(super) fn store_bytes(dir: &Path) -> Result<u64> {
    let path = store_file(dir);
    Ok(std::fs::metadata(&path).map_err(Error::io(path))?.len())
}

/// Whether anything has this name, a link to nowhere included.
pub(super) fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// A new file that only its owner can read.
pub(super) fn create(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    crash::point("copy-make");
    options.read(true).write(true).create_new(true).mode(0o600).open(path).map_err(Error::io(path))
}

/// Writes a new file and syncs it.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = create(path)?;
    crash::point("copy-write");
    file.write_all(content).and_then(|()| file.sync_all()).map_err(Error::io(path))
}

/// The beginning of a file, up to a limit.
pub(super) fn read_short(path: &Path, max: u64) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?.take(max).read_to_end(&mut content)?;
    Ok(content)
}

/// Size and SHA-256 of a newly written file.
pub(super) fn digest(file: &mut File, path: &Path, progress: &dyn Progress) -> Result<(u64, String)> {
    file.rewind().map_err(Error::io(path))?;
    progress.begin(Step::Reading, file.metadata().ok().map(|file| file.len()));
    pass(file, path, progress, |_| Ok(()))
}

/// Copies the store's file of a backup, which has this many bytes, to a new file and syncs it. Returns size and
/// SHA-256.
pub(super) fn copy(from: &Path, bytes: u64, to: &Path, progress: &dyn Progress) -> Result<(u64, String)> {
    let mut source = open(from).map_err(Error::io(from))?;
    let found = source.metadata().map_err(Error::io(from))?.len();
    if found != bytes {
        return Ok((found, String::new()));
    }
    let mut target = create(to)?;
    progress.begin(Step::Reading, source.metadata().ok().map(|file| file.len()));
    let done = pass(&mut source, from, progress, |chunk| target.write_all(chunk).map_err(Error::io(to)))?;
    crash::point("copy-sync");
    target.sync_all().map_err(Error::io(to))?;
    Ok(done)
}

fn pass(
    file: &mut File,
    path: &Path,
    progress: &dyn Progress,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<(u64, String)> {
    let (mut hasher, mut bytes, mut buffer) = (Sha256::new(), 0_u64, vec![0; CHUNK]);
    loop {
        let read = file.read(&mut buffer).map_err(Error::io(path))?;
        let chunk = buffer.get(..read).unwrap_or_default();
        if chunk.is_empty() {
            return Ok((bytes, hex(hasher)));
        }
        each(chunk)?;
        hasher.update(chunk);
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        bytes = bytes.saturating_add(read);
        progress.advance(read);
    }
}

/// A digest as people compare it.
pub(crate) fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Makes a directory that only its owner can enter.
pub(super) fn make_dir(path: &Path) -> Result<()> {
    crash::point("copy-dir");
    DirBuilder::new().mode(0o700).create(path).map_err(Error::io(path))
}

/// Puts the names in a directory on disk.
pub(super) fn sync_dir(path: &Path) -> Result<()> {
    crash::point("copy-dir-sync");
    File::open(path).and_then(|dir| dir.sync_all()).map_err(Error::io(path))
}

/// Holds a directory for one process until it is dropped.
#[derive(Debug)]
pub(super) struct DirLock(File);

impl Drop for DirLock {
    /// Closing the file is not enough: a child process that another thread is just starting has it open until it calls
    /// `exec`.
    fn drop(&mut self) {
        // If unlocking fails, the lock ends with the file.
        flock(&self.0, FlockOperation::Unlock).ok();
    }
}

/// Locks a directory. None where directories cannot be locked.
pub(super) fn lock_dir(path: &Path) -> Result<Option<DirLock>> {
    let dir = File::open(path).map_err(Error::io(path))?;
    match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(DirLock(dir))),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Busy { path: path.to_owned() }),
        Err(_) => Ok(None),
    }
}

/// The directory that a path lies in.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// A directory on its way to its final name. Dropping this before removes the directory with its content.
#[derive(Debug)]
pub(crate) struct Part {
    path: PathBuf,
    finished: bool,
}

impl Part {
    /// Creates an empty directory. The leftovers of an interrupted try under its name are removed. The caller holds a
    /// lock that keeps other processes from using the name.
    pub(crate) fn create(path: PathBuf) -> Result<Self> {
        leave_room(&path)?;
        crash::point("part-make");
        DirBuilder::new().mode(0o700).create(&path).map_err(Error::io(&path))?;
        Ok(Self { path, finished: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its final name; synced when this returns. An existing file, or a directory that is not empty, stays.
    pub(super) fn finish(mut self, path: &Path) -> Result<()> {
        sync_dir(&self.path)?;
        crash::point("part-finish");
        std::fs::rename(&self.path, path).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists
            | std::io::ErrorKind::DirectoryNotEmpty
            | std::io::ErrorKind::NotADirectory => Error::Exists { path: path.to_owned() },
            _ => Error::io(path)(source),
        })?;
        self.finished = true;
        sync_dir(parent(path))
    }

    /// Moves it; it is still unfinished.
    pub(super) fn rename(&mut self, path: PathBuf) -> Result<()> {
        crash::point("part-rename");
        std::fs::rename(&self.path, &path).map_err(Error::io(&path))?;
        self.path = path;
        Ok(())
    }

    /// Disarms the cleanup: another owner is responsible for the path now.
    pub(super) fn release(mut self) -> PathBuf {
        self.finished = true;
        std::mem::take(&mut self.path)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.finished {
            // Leftovers that cannot be removed now are removed by the next user of the name.
            crash::point("part-remove");
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

/// Removes the leftovers of an interrupted try under one of Hearth's names.
pub(crate) fn leave_room(path: &Path) -> Result<()> {
    crash::point("leftovers-remove");
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path)(e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_lock_is_free_even_if_a_child_has_its_file_still() {
        let dir = tempfile::tempdir().unwrap();
        let lock = lock_dir(dir.path()).unwrap().unwrap();
        assert!(matches!(lock_dir(dir.path()), Err(Error::Busy { .. })));
        let inherited = lock.0.try_clone().unwrap();
        drop(lock);
        assert!(lock_dir(dir.path()).is_ok());
        drop(inherited);
    }
}
