//! Restores the host's access to directories from which an agent removed the owner's permissions. The owner is the
//! host.

use std::ffi::OsStr;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::Mode;
#[cfg(target_os = "linux")]
use rustix::fs::OFlags;
#[cfg(not(target_os = "linux"))]
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::OWNER_ALL;

/// Opens a directory in another one after restoring the owner's permissions.
#[cfg(target_os = "linux")]
pub(super) fn taken_back(base: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(base, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&dir)?;
    if stat.st_mode & OWNER_ALL != OWNER_ALL {
        // The descriptor's own entry cannot be swapped for something else, unlike the directory's name.
        let itself = format!("/proc/self/fd/{}", dir.as_raw_fd());
        rustix::fs::chmod(itself, Mode::from_raw_mode(stat.st_mode & 0o7777 | OWNER_ALL))?;
    }
    Ok(dir)
}

/// Opens by name, since a directory without permissions cannot be opened there. A link in its place is not followed.
#[cfg(not(target_os = "linux"))]
pub(super) fn taken_back(base: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let stat = rustix::fs::statat(base, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Errno::NOTDIR);
    }
    if stat.st_mode & OWNER_ALL != OWNER_ALL {
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | OWNER_ALL);
        rustix::fs::chmodat(base, name, mode, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    rustix::fs::openat(base, name, super::DIRECTORY, Mode::empty())
}
