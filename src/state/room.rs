//! Room for new work: what the store uses, what the disk has left, and a reserve for when there is none.
//!
//! Removing a row needs pages too. So new work is refused while acknowledgements and removals still find room, and a
//! file that only takes up space is given back to the disk when it runs full.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

use super::Read;
use super::error::{Error, Result, out_of_space};
use super::schema::Tables;
use crate::crash;

/// Whether new work is taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is.
    Open,
    /// Only what makes room.
    Refuse(NoRoom),
}

/// Why new work is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The store holds as much as it may.
    #[error("the store uses {used} of {limit} bytes: raise store_max_bytes or shorten [retention]")]
    Store {
        /// Bytes in use.
        used: u64,
        /// Bytes it may use.
        limit: u64,
    },
    /// The disk is nearly full.
    #[error("the store and its disk have {free} bytes left, {needed} are needed: make room on the disk")]
    Disk {
        /// Bytes left, on the disk and unused in the store's file.
        free: u64,
        /// Bytes that must be left.
        needed: u64,
    },
}

/// What is known of the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of the store in use; less than its file has, which never shrinks.
    pub used: u64,
    /// Bytes it may use.
    pub limit: u64,
    /// Bytes left on its disk.
    pub free: u64,
    /// Bytes that its file has and does not use: removals leave them to what comes next.
    pub unused: u64,
    /// Bytes that must be left, free or unused.
    pub needed: u64,
}

/// What is known of the room without a look at the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of the store's file: never less than what is used.
    pub(super) file: u64,
    /// As [`Usage::limit`].
    pub(super) limit: u64,
    /// As [`Usage::free`].
    pub(super) free: u64,
    /// As [`Usage::needed`].
    pub(super) needed: u64,
}

impl Bounds {
    /// Whether there is room for new work however little of the file is in use, or however much.
    pub(super) const fn surely_open(&self) -> bool {
        self.file < self.limit && self.free >= self.needed
    }

    /// All that is known, once it is known what is used.
    pub(super) const fn with_used(self, used: u64) -> Usage {
        let Self { file, limit, free, needed } = self;
        Usage { used, limit, free, unused: file.saturating_sub(used), needed }
    }
}

impl Usage {
    /// Whether there is room for new work.
    #[must_use]
    pub const fn admission(&self) -> Admission {
        let Self { used, limit, free, unused, needed } = *self;
        let free = free.saturating_add(unused);
        if used >= limit {
            Admission::Refuse(NoRoom::Store { used, limit })
        } else if free < needed {
            Admission::Refuse(NoRoom::Disk { free, needed })
        } else {
            Admission::Open
        }
    }
}

/// Below this a disk may have taken a write only in part.
pub(super) const NEARLY_FULL: u64 = 1 << 20;

/// Whether an error can be a write of which the disk took only a part.
pub(super) fn cut_short(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Bytes of a number of pages.
pub(super) fn page_bytes(pages: usize, page_size: u32) -> u64 {
    u64::try_from(pages).unwrap_or(u64::MAX).saturating_mul(u64::from(page_size))
}

/// Bytes in the pages that hold the tables' rows.
pub(super) fn used_bytes(db: &Tables, txn: &Read<'_>) -> Result<u64> {
    db.all().try_fold(0_u64, |bytes, (_, rows)| {
        let stat = rows.bytes().table().stat(txn).map_err(Error::lmdb("counting pages"))?;
        let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
        Ok(bytes.saturating_add(page_bytes(pages, stat.page_size)))
    })
}

/// Bytes that the disk of a directory has left for us.
pub(super) fn free_bytes(dir: &Path) -> Result<u64> {
    let disk = rustix::fs::statvfs(dir).map_err(|errno| Error::io(dir)(errno.into()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Whether the reserve is there.
pub(super) fn reserved(path: &Path, bytes: u64) -> bool {
    bytes == 0
        || std::fs::metadata(path).is_ok_and(|file| file.len() >= bytes && file.blocks().saturating_mul(512) >= bytes)
}

/// Allocates the reserve; tells whether it is there now. A full disk is no error: there is none until there is room, or
/// what is left of it.
pub(super) fn reserve(dir: &Path, path: &Path, bytes: u64) -> Result<bool> {
    if reserved(path, bytes) {
        return Ok(true);
    }
    if std::fs::metadata(path).is_ok_and(|file| file.len() > 0) && free_bytes(dir)? < bytes {
        return Ok(false);
    }
    crash::point("reserve-make");
    let allocated =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).and_then(|file| {
            crash::point("reserve-allocate");
            allocate(&file, bytes).and_then(|()| file.sync_all())
        });
    match allocated {
        Ok(()) => Ok(true),
        Err(e) if out_of_space(&e) => release(path).map(|_| false),
        Err(e) => Err(Error::io(path)(e)),
    }
}

/// Gives half of the reserve to the disk if that is full; tells whether it did. The other half stays for commits.
pub(super) fn share(dir: &Path, path: &Path, bytes: u64) -> Result<bool> {
    if bytes == 0 || free_bytes(dir)? >= NEARLY_FULL || !reserved(path, bytes) {
        return Ok(false);
    }
    crash::point("reserve-share");
    let half = OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(bytes / 2));
    half.map(|()| true).map_err(Error::io(path))
}

/// Gives the reserve back to the disk; tells whether there was one.
pub(super) fn release(path: &Path) -> Result<bool> {
    crash::point("reserve-release");
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io(path)(e)),
    }
}

fn allocate(mut file: &File, bytes: u64) -> std::io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
        done => return Ok(done?),
    }
    let zeros = vec![0; 1 << 16];
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    while left > 0 {
        let part = zeros.get(..left.min(zeros.len())).unwrap_or_default();
        file.write_all(part)?;
        left = left.saturating_sub(part.len());
    }
    Ok(())
}
