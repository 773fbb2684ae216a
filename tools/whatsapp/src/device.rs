//! The directory with the keys of the linked device.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The library's database.
const DATABASE: &str = "device.db";
/// Says that the device was unlinked, and why.
const UNLINKED: &str = "unlinked";
/// Held by the process that uses the device.
const LOCK: &str = "lock";

/// The directory. Its keys are used by one process at a time: two would use the same key of a chat twice.
#[derive(Debug, Clone)]
pub(crate) struct Directory(PathBuf);

/// Holds the lock.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Directory {
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        Ok(Self(std::path::absolute(path)?))
    }

    /// The path for people.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The user who runs Hearth. The directory itself is another user's where that is root; the one around it is not.
    pub(crate) fn owner(&self) -> io::Result<u32> {
        Ok(fs::metadata(self.0.join(".."))?.uid())
    }

    /// Locks it; none if another process has it.
    pub(crate) fn lock(&self) -> io::Result<Option<Lock>> {
        let file = File::options().create(true).truncate(false).write(true).open(self.0.join(LOCK))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join(DATABASE)
    }

    /// Whether there are keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.database().exists()
    }

    /// Why the device was unlinked, if it was.
    pub(crate) fn unlinked(&self) -> Option<String> {
        fs::read_to_string(self.0.join(UNLINKED)).ok()
    }

    /// Remembers that the device was unlinked. Its keys stay, so that the reason can be looked for.
    pub(crate) fn unlink(&self, why: &str) -> io::Result<()> {
        let new = self.0.join("unlinked.new");
        fs::write(&new, why)?;
        fs::rename(new, self.0.join(UNLINKED))
    }

    /// Removes the keys, for a new device.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for name in [DATABASE, "device.db-wal", "device.db-shm", UNLINKED] {
            match fs::remove_file(self.0.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_the_device() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::new(root.path()).unwrap();
        let lock = directory.lock().unwrap();
        assert!(lock.is_some() && directory.lock().unwrap().is_none());
        drop(lock);
        assert!(directory.lock().unwrap().is_some());
    }

    #[test]
    fn an_unlinked_device_is_one_until_it_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::new(root.path()).unwrap();
        fs::write(directory.database(), "keys").unwrap();
        directory.unlink("it was removed").unwrap();
        assert_eq!((directory.unlinked().as_deref(), directory.has_keys()), (Some("it was removed"), true));
        directory.clear().unwrap();
        assert_eq!((directory.unlinked(), directory.has_keys()), (None, false));
    }
}
