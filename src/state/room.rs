//! Space management: the store's usage, free space on the disk, and a reserve for full disks.
//!
//! Even removing a row needs pages. So new work is refused while acknowledgements and removals still find room. A
//! reserve file is released when the disk runs full.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

use super::Read;
use super::error::{Error, Result, out_of_space};
use super::schema::Tables;
use crate::crash;

/// The file that reserves space on the disk.
pub(super) const RESERVE: &str = "reserve";

/// Whether new work is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// New work is accepted.
    Open,
    /// Only work that frees space is accepted.
    Refuse(NoRoom),
}

/// Why new work is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// The store has reached its size limit.
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
    /// The disk is nearly out of inodes.
    #[error("the store's disk has {free} inodes left, {needed} are needed: remove files from it")]
    Inodes {
        /// Files that it can still hold.
        free: u64,
        /// Files that it must still be able to hold.
        needed: u64,
    },
}

/// Files that a disk must still be able to hold: a message to an agent is a handful of them.
pub const INODES_NEEDED: u64 = 1_000;

/// Free space of a disk for this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Free {
    /// Bytes.
    pub(super) bytes: u64,
    /// Files; none if the file system creates inodes on demand.
    pub(super) inodes: Option<u64>,
}

/// Space usage of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of the store in use. Less than the size of its file, which never shrinks.
    pub used: u64,
    /// Bytes it may use.
    pub limit: u64,
    /// Bytes left on its disk.
    pub free: u64,
    /// Files that its disk can still hold; none where only bytes count.
    pub inodes: Option<u64>,
    /// Unused bytes in its file, which new rows can reuse.
    pub unused: u64,
    /// Bytes that must be left, free or unused.
    pub needed: u64,
}

/// Bounds of the usage that are known without reading the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of the store's file: never less than what is used.
    pub(super) file: u64,
    /// As [`Usage::limit`].
    pub(super) limit: u64,
    /// Free space on the disk.
    pub(super) free: Free,
    /// As [`Usage::needed`].
    pub(super) needed: u64,
}

impl Bounds {
    /// Whether there certainly is space for new work, however much of the file is in use.
    pub(super) const fn surely_open(&self) -> bool {
        self.file < self.limit && self.free.bytes >= self.needed && enough(self.free.inodes)
    }

    /// The usage, completed with the number of used bytes.
    pub(super) const fn with_used(self, used: u64) -> Usage {
        let Self { file, limit, free, needed } = self;
        Usage { used, limit, free: free.bytes, inodes: free.inodes, unused: file.saturating_sub(used), needed }
    }
}

impl Usage {
    /// Whether there is room for new work.
    #[must_use]
    pub const fn admission(&self) -> Admission {
        let Self { used, limit, free, inodes, unused, needed } = *self;
        let free = free.saturating_add(unused);
        if used >= limit {
            Admission::Refuse(NoRoom::Store { used, limit })
        } else if free < needed {
            Admission::Refuse(NoRoom::Disk { free, needed })
        } else {
            match inodes {
                Some(free) if !enough(inodes) => Admission::Refuse(NoRoom::Inodes { free, needed: INODES_NEEDED }),
                _ => Admission::Open,
            }
        }
    }
}

/// Whether a disk can hold the required number of files.
const fn enough(inodes: Option<u64>) -> bool {
    match inodes {
        Some(left) => left >= INODES_NEEDED,
        None => true,
    }
}

/// Below this many free bytes, a disk may have accepted only a part of a write.
pub(super) const NEARLY_FULL: u64 = 1 << 20;

/// Whether an error may come from a partial write.
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
        let pages = stat.branch_pages.saturating_add(stat.leaf_pages).saturating_add(stat.overflow_pages);
        Ok(bytes.saturating_add(page_bytes(pages, stat.page_size)))
    })
}

/// Free space of a directory's disk that this process may use.
pub(super) fn free(dir: &Path) -> Result<Free> {
    let disk = rustix::fs::statvfs(dir).map_err(|errno| Error::io(dir)(errno.into()))?;
    // File systems without an inode table report zero inodes.
    let inodes = (disk.f_files > 0).then_some(disk.f_favail);
    Ok(Free { bytes: disk.f_bavail.saturating_mul(disk.f_frsize), inodes })
}

/// Free bytes of a directory's disk that this process may use.
pub(super) fn free_bytes(dir: &Path) -> Result<u64> {
    free(dir).map(|free| free.bytes)
}

/// Whether the reserve exists.
pub(super) fn reserved(path: &Path, bytes: u64) -> bool {
    bytes == 0
        || std::fs::metadata(path).is_ok_and(|file| file.len() >= bytes && file.blocks().saturating_mul(512) >= bytes)
}

/// Allocates the reserve and returns whether it exists now. On a full disk this is not an error: the reserve stays
/// missing or partial until there is space.
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

/// Releases half of the reserve if the disk is full; returns whether it did. The other half stays for commits.
pub(super) fn share(dir: &Path, path: &Path, bytes: u64) -> Result<bool> {
    if bytes == 0 || free_bytes(dir)? >= NEARLY_FULL || !reserved(path, bytes) {
        return Ok(false);
    }
    crash::point("reserve-share");
    let half = OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(bytes / 2));
    half.map(|()| true).map_err(Error::io(path))
}

/// Releases the reserve; returns whether there was one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_inodes_has_no_room_however_many_bytes_it_has() {
        for (inodes, open) in
            [(None, true), (Some(INODES_NEEDED), true), (Some(INODES_NEEDED - 1), false), (Some(0), false)]
        {
            let bounds = Bounds { file: 1, limit: 100, free: Free { bytes: 1 << 40, inodes }, needed: 10 };
            let admission = bounds.with_used(1).admission();
            assert_eq!((bounds.surely_open(), admission == Admission::Open), (open, open), "{inodes:?}");
            if let Admission::Refuse(why) = admission {
                assert!(why.to_string().contains("inodes left"), "{why}");
            }
        }
    }
}
