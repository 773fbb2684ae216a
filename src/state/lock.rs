//! The daemon's lock: one process writes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, test_kill_process};

use super::error::{Error, Result};
use crate::crash;

/// Holds the lock until it is dropped, or its process ends in any way.
#[derive(Debug)]
pub(super) struct WriterLock {
    file: File,
    before: Writer,
    settled: bool,
}

/// Who wrote the store of a data directory last, which is who had its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A process that has it still.
    Lives,
    /// One that gave it up, or nobody.
    GaveUp,
    /// One that ended with it: killed, or with its machine.
    Died,
}

impl WriterLock {
    /// Who had it before.
    pub(super) const fn before(&self) -> Writer {
        self.before
    }

    /// What an earlier holder may have left was looked at, and is as it should be.
    pub(super) const fn settle(&mut self) {
        self.settled = true;
    }

    /// Notes that nothing was left half done, unless nobody looked at what was. The lock itself stays.
    pub(super) fn give_up(&self) {
        if self.settled || self.before != Writer::Died {
            // Where that fails, the next holder looks at the store for nothing.
            drop(self.file.set_len(0));
        }
    }
}

impl Drop for WriterLock {
    /// Closing the file is not enough: a child that another thread is just starting has the file too, until it becomes
    /// its program, and would hold the lock that long.
    fn drop(&mut self) {
        self.give_up();
        // Should it not go, it goes with the file.
        flock(&self.file, FlockOperation::Unlock).ok();
    }
}

/// Who writes the store of a data directory, or wrote it last.
#[must_use]
pub fn last_writer(data: &Path) -> Writer {
    match File::open(path(data)).ok().and_then(|mut file| noted(&mut file)) {
        None => Writer::GaveUp,
        Some(pid) if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) => Writer::Died,
        Some(_) => Writer::Lives,
    }
}

fn path(data: &Path) -> PathBuf {
    data.join("hearth.lock")
}

/// Takes the lock of a data directory, or says who holds it.
pub(super) fn take(data: &Path) -> Result<WriterLock> {
    let path = path(data);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false) // the holder's number is still in it
        .mode(0o600)
        .open(&path)
        .map_err(Error::io(&path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(Error::Locked { path: data.to_owned(), holder: holder(&mut file) });
        }
        Err(errno) => return Err(Error::io(path)(errno.into())),
    }
    let before = if noted(&mut file).is_some() { Writer::Died } else { Writer::GaveUp };
    note(&mut file).map_err(Error::io(path))?;
    Ok(WriterLock { file, before, settled: false })
}

/// Notes who holds the lock. A full disk must not keep the daemon from starting: it would never make room.
///
/// The file is never empty meanwhile, and what is noted is on disk before anything else is written: whatever ends this
/// process or its machine, the next holder knows of it.
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

fn holder(file: &mut File) -> String {
    noted(file).map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// The process that noted itself.
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
        }
        let mut lock = take(data.path()).unwrap();
        lock.settle();
        drop(lock);
        assert_eq!(take(data.path()).unwrap().before(), Writer::GaveUp);
        assert_eq!(last_writer(data.path()), Writer::GaveUp);
    }
}
