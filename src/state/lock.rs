//! The daemon's lock: one process writes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::error::{Error, Result};

/// Holds the lock until it is dropped, or its process ends in any way.
#[derive(Debug)]
pub(super) struct WriterLock {
    file: File,
}

impl Drop for WriterLock {
    /// Closing the file is not enough: a child that another thread is just starting has the file too, until it becomes
    /// its program, and would hold the lock that long.
    fn drop(&mut self) {
        // Should it not go, it goes with the file.
        flock(&self.file, FlockOperation::Unlock).ok();
    }
}

/// Takes the lock of a data directory, or says who holds it.
pub(super) fn take(data: &Path) -> Result<WriterLock> {
    let path = data.join("hearth.lock");
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
    note(&mut file).map_err(Error::io(path))?;
    Ok(WriterLock { file })
}

/// Notes who holds the lock. A full disk must not keep the daemon from starting: it would never make room.
fn note(file: &mut File) -> std::io::Result<()> {
    let noted = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
    match noted {
        Err(e) if super::error::out_of_space(&e) => Ok(()),
        noted => noted,
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    match (read, text.trim()) {
        (Ok(_), pid) if !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
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
}
