//! Deletes directory trees that an agent built, of any shape.
//!
//! A directory is deleted by renaming it into a private one and taking it apart there. The agent can no longer keep the
//! name in use. A tree of any depth or size is taken apart with two open descriptors and a bounded number of steps at a
//! time, because inner directories are moved up before they are emptied.

use std::ffi::{OsStr, OsString};

use rustix::io::Errno;

use super::dir::{Dir, DirEntry, Listing, Removal, fresh};
use super::error::Error;

/// Entries processed at once.
const SLICE: usize = 1_000;
/// Tries to find a free name in the trash; names are only ever taken by what an earlier process left.
const TRIES: usize = 1_000;

/// A private directory of things that are being deleted.
#[derive(Debug)]
pub(super) struct Trash {
    dir: Dir,
}

impl Trash {
    /// Trash in a directory on the same file system as what will be thrown away.
    pub(super) fn new(dir: Dir) -> Self {
        Self { dir }
    }

    /// Frees a name in a directory, whatever kind of entry has it. The time needed does not depend on the entry.
    pub(super) fn take(&self, from: &Dir, name: &OsStr) -> Result<(), Error> {
        match from.remove(name)? {
            Removal::Gone => Ok(()),
            Removal::NotEmpty => self.move_in(from, name),
        }
    }

    /// Deletes the content of the trash in at most `budget` steps. Returns whether it is empty now.
    pub(super) fn empty(&self, budget: usize) -> Result<bool, Error> {
        let mut left = budget;
        loop {
            let Listing { names, .. } = self.dir.list(SLICE)?;
            if names.is_empty() {
                return Ok(true);
            }
            for name in names {
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                if self.dir.remove(&name)? == Removal::NotEmpty {
                    left = self.lift(&name, left)?;
                }
            }
        }
    }

    /// Removes the files of a directory in the trash and moves its directories up; returns the steps that are left.
    fn lift(&self, name: &OsStr, mut left: usize) -> Result<usize, Error> {
        let DirEntry::Found(inner) = self.dir.dir(name)? else { return Ok(left) };
        for child in inner.list(left.min(SLICE))?.names {
            left = left.saturating_sub(1);
            self.take(&inner, &child)?;
        }
        Ok(left)
    }

    fn move_in(&self, from: &Dir, name: &OsStr) -> Result<(), Error> {
        let mut taken_back = false;
        for _ in 0..TRIES {
            let new = OsString::from(fresh().to_string());
            match from.try_rename(name, &self.dir, &new) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {}
                Err(Errno::ACCESS | Errno::PERM) if !taken_back => {
                    // Moving a directory changes its `..`, for which its owner needs the right to write.
                    taken_back = true;
                    if from.take_back(name).is_err() {
                        return set_aside(from, name);
                    }
                }
                Err(Errno::ACCESS | Errno::PERM) => return set_aside(from, name),
                Err(errno) => return Err(Error::io("move away", &from.path().join(name), errno)),
            }
        }
        Err(Error::io("move away", &from.path().join(name), Errno::EXIST))
    }
}

/// Last resort for a directory of another user: renames it to a name that every reader skips.
fn set_aside(from: &Dir, name: &OsStr) -> Result<(), Error> {
    let aside = hearth_wire::temporary_name("refused", fresh());
    from.rename(name, from, OsStr::new(&aside))
}
