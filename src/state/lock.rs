//! The writer lock: only one process writes the store.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::error::{Error, Result};
use super::files::{self, EntryKind};
use crate::crash;

/// Number of attempts to take the lock, and the time between them. Processes that only query the holder have it for
/// less than that.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// Holds the lock until it is dropped or its process ends, for whatever reason.
#[derive(Debug)]
pub(super) struct WriterLock {
    file: File,
    before: Writer,
    settled: bool,
}

/// The last writer of a data directory's store: the last holder of its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A process that still holds it.
    Lives,
    /// A process that released it, or no process.
    GaveUp,
    /// A process that died while it held the lock: killed, or with its machine.
    Died,
}

impl WriterLock {
    /// The previous holder.
    pub(super) const fn before(&self) -> Writer {
        self.before
    }

    /// Records that the leftovers of an earlier holder were checked and are sound.
    pub(super) const fn settle(&mut self) {
        self.settled = true;
    }

    /// Records a clean end, unless the leftovers of a dead holder were not checked. Does not release the lock itself.
    pub(super) fn give_up(&self) {
        if self.settled || self.before != Writer::Died {
            // If this fails, the next holder only checks the store needlessly.
            drop(self.file.set_len(0));
        }
    }
}

impl Drop for WriterLock {
    /// Closing the file is not enough: a child process that another thread is just starting inherits the file until
    /// `exec`, and would hold the lock that long.
    fn drop(&mut self) {
        self.give_up();
        // If unlocking fails, the lock ends with the file.
        flock(&self.file, FlockOperation::Unlock).ok();
    }
}

/// The process that writes the store of a data directory, or wrote it last. The lock decides: the process id in its
/// file may belong to another process by now.
#[must_use]
pub fn last_writer(data: &Path) -> Writer {
    let Ok(mut file) = files::open(&path(data)) else { return Writer::GaveUp };
    match noted(&mut file) {
        None => Writer::GaveUp,
        // Meanwhile another process can take the lock.
        Some(pid) if test_kill_process(pid) == Err(Errno::SRCH) => Writer::Died,
        Some(_) => match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Writer::Lives,
            _ => Writer::Died,
        },
    }
}

/// The process that holds the lock of a data directory, if any.
#[must_use]
pub fn holder(data: &Path) -> Option<i32> {
    let pid = noted(&mut files::open(&path(data)).ok()?)?;
    (last_writer(data) == Writer::Lives).then(|| pid.as_raw_nonzero().get())
}

fn path(data: &Path) -> PathBuf {
    data.join("hearth.lock")
}

/// Takes the lock of a data directory. The error names the holder.
pub(super) fn take(data: &Path) -> Result<WriterLock> {
    let path = path(data);
    if let EntryKind::Other(what) = files::look(&path).map_err(Error::io(&path))? {
        let source = std::io::Error::other(format!("it is {what}, and has to be a regular file: move it away"));
        return Err(Error::Io { path, source });
    }
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false) // the previous holder's process id is still in it
        .mode(0o600)
        .open(&path)
        .map_err(Error::io(&path))?;
    match lock(&file) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(Error::Locked { path: data.to_owned(), holder: shown(&mut file) });
        }
        Err(errno) => return Err(Error::io(path)(errno.into())),
    }
    let before = if noted(&mut file).is_some() { Writer::Died } else { Writer::GaveUp };
    note(&mut file).map_err(Error::io(path))?;
    Ok(WriterLock { file, before, settled: false })
}

/// Writes the holder's process id into the lock's file. A full disk must not keep the daemon from starting, or it could
/// never make room.
///
/// The file is never empty meanwhile, and the id is on disk before anything else is written. However this process or
/// its machine ends, the next holder knows.
fn note(file: &mut File) -> std::io::Result<()> {
    let text = std::process::id().to_string();
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let noted = file
        .rewind()
        .and_then(|()| file.write_all(text.as_bytes()))
        .inspect(|()| crash::point("lock-note"))
        .and_then(|()| file.set_len(bytes))
        .and_then(|()| file.sync_all());
    match noted {
        Err(e) if super::error::out_of_space(&e) => Ok(()),
        noted => noted,
    }
}

fn lock(file: &File) -> rustix::io::Result<()> {
    for _ in 1..TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

fn shown(file: &mut File) -> String {
    noted(file).map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// The process id in the lock's file.
fn noted(file: &mut File) -> Option<Pid> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.take(32).read_to_string(&mut text)).ok()?;
    text.trim().parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_was_given_back_is_free_though_a_copy_of_its_file_is_open() {
        let data = tempfile::tempdir().unwrap();
        let lock = take(data.path()).unwrap();
        let child = lock.file.try_clone().unwrap();
        assert!(matches!(take(data.path()), Err(Error::Locked { .. })));
        drop(lock);
        take(data.path()).unwrap();
        drop(child);
    }

    #[test]
    fn a_death_is_remembered_until_somebody_looked() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(last_writer(data.path()), Writer::GaveUp);
        std::fs::write(path(data.path()), i32::MAX.to_string()).unwrap();
        assert_eq!(last_writer(data.path()), Writer::Died);
        for _ in 0..2 {
            let lock = take(data.path()).unwrap();
            assert_eq!((lock.before(), last_writer(data.path())), (Writer::Died, Writer::Lives));
            assert_eq!(holder(data.path()), i32::try_from(std::process::id()).ok());
        }
        let mut lock = take(data.path()).unwrap();
        lock.settle();
        drop(lock);
        assert_eq!(take(data.path()).unwrap().before(), Writer::GaveUp);
        assert_eq!(last_writer(data.path()), Writer::GaveUp);
        assert_eq!(holder(data.path()), None);
        // The id of a live process that does not hold the lock.
        std::fs::write(path(data.path()), "1").unwrap();
        assert_eq!((last_writer(data.path()), holder(data.path())), (Writer::Died, None));
        assert_eq!(take(data.path()).unwrap().before(), Writer::Died);
    }
}
