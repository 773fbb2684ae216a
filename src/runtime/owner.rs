//! File ownership when the daemon runs as root: agents run as another user, in containers as well as in processes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::model::entity::Access;
use crate::model::mount::{APP_SKILLS, GLOBAL, Mount, PROJECT, TRUSTED};

/// User and group of agents when the daemon is root, and of every agent inside its container.
pub(in crate::runtime) const AGENT: u32 = 1000;
/// Directories deeper than this keep their owner.
const DEPTH: u32 = 64;
/// Entries checked again in a directory that was handed over before: the host has added few since.
const LOOKED_AT_AGAIN: u32 = 50_000;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Whether a mount is one of the shared ones in the data directory. Other mounts belong to the operator and stay as
/// they are.
pub(in crate::runtime) fn is_shared(mount: &Mount) -> bool {
    [GLOBAL, TRUSTED, PROJECT, APP_SKILLS].iter().any(|place| mount.target == Path::new(place))
}

/// The path of a shared mount. Root hands it to the agents if they may change it, and otherwise makes it readable:
/// files that root created may be closed to other users.
pub(in crate::runtime) fn share(mount: &Mount, give_away: bool) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (mount.source.parent(), mount.source.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let source = parent.canonicalize()?.join(name);
    match mount.access {
        Access::ReadWrite if give_away => give(&source)?,
        Access::ReadOnly if give_away => {
            let mut left = LOOKED_AT_AGAIN;
            reveal(rustix::fs::CWD, source.as_os_str(), DEPTH, &mut left)?;
        }
        Access::ReadWrite | Access::ReadOnly => {}
    }
    Ok(source)
}

/// Makes readable what root has put here. The data directory above it stays closed to other users.
fn reveal(at: BorrowedFd<'_>, name: &std::ffi::OsStr, depth: u32, left: &mut u32) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Ok(opened) => opened,
        // A link or a socket, or it was removed meanwhile.
        Err(Errno::LOOP | Errno::NXIO | Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    let stat = rustix::fs::fstat(&opened)?;
    let mode = stat.st_mode & 0o7777;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let wanted = match kind {
        FileType::Directory => 0o055,
        FileType::RegularFile if stat.st_nlink == 1 => 0o044 | ((mode & 0o100) >> 3) | ((mode & 0o100) >> 6),
        _ => return Ok(()),
    };
    if stat.st_uid == 0 && mode & wanted != wanted {
        rustix::fs::fchmod(&opened, Mode::from_raw_mode(mode | wanted))?;
    }
    if kind != FileType::Directory || depth == 0 {
        return Ok(());
    }
    for entry in rustix::fs::Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if *left == 0 {
            return Ok(());
        }
        if !matches!(name, b"." | b"..") {
            *left -= 1;
            reveal(opened.as_fd(), std::ffi::OsStr::from_bytes(name), depth - 1, left)?;
        }
    }
    Ok(())
}

/// Makes the directory that only the host writes readable for the agent's user. The directories above it are closed to
/// other users.
pub(in crate::runtime) fn show(path: &Path) -> io::Result<()> {
    let directory = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
    let mode = rustix::fs::fstat(&directory)?.st_mode & 0o7777;
    if mode & 0o055 != 0o055 {
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode | 0o055))?;
    }
    Ok(())
}

/// Gives files that root created in a directory to the agent's user. Files of other users keep their owner. Links are
/// not followed, and files with several hard links are skipped because one of the names may belong to another user.
pub(in crate::runtime) fn give(path: &Path) -> io::Result<()> {
    let directory = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
    let was = rustix::fs::fstat(&directory)?.st_uid;
    if was != 0 && was != AGENT {
        return Ok(());
    }
    let mut left = if was == AGENT { LOOKED_AT_AGAIN } else { u32::MAX };
    descend(&directory, DEPTH, &mut left)?;
    if was == 0 {
        Ok(rustix::fs::fchown(&directory, Some(Uid::from_raw(AGENT)), Some(Gid::from_raw(AGENT)))?)
    } else {
        Ok(())
    }
}

fn descend(directory: &OwnedFd, depth: u32, left: &mut u32) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        *left = left.saturating_sub(1);
        if *left == 0 {
            return Ok(());
        }
        match give_entry(directory, std::ffi::OsStr::from_bytes(name.to_bytes()), depth, left) {
            // It was removed or replaced meanwhile.
            Ok(()) | Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn give_entry(directory: &OwnedFd, name: &std::ffi::OsStr, depth: u32, left: &mut u32) -> Result<(), Errno> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let owner = (Some(Uid::from_raw(AGENT)), Some(Gid::from_raw(AGENT)));
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        if stat.st_uid != 0 || stat.st_nlink > 1 {
            return Ok(());
        }
        return rustix::fs::chownat(directory.as_fd(), name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW);
    }
    if (stat.st_uid != 0 && stat.st_uid != AGENT) || depth == 0 {
        return Ok(());
    }
    let inner = rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())?;
    let was = rustix::fs::fstat(&inner)?.st_uid;
    descend(&inner, depth - 1, left).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if was == 0 { rustix::fs::fchown(&inner, owner.0, owner.1) } else { Ok(()) }
}
