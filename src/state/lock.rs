//! The daemon's lock: one process writes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::error::{Error, Result};
use crate::crash;

/// Holds the lock until it is dropped, or its process ends in any way.
#[derive(Debug)]
pub(super) struct WriterLock {
    _file: File,
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
    Ok(WriterLock { _file: file })
}

/// Notes who holds the lock. A full disk must not keep the daemon from starting: it would never make room.
fn note(file: &mut File) -> std::io::Result<()> {
    let noted = file
        .set_len(0)
        .inspect(|()| crash::point("lock-note"))
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
