//! The host's side of what a container sees: made, looked at, and given to the agent's user.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::body::{AGENT, Bind, places};
use crate::model::entity::{Access, Trust};
use crate::model::mount::{APP_SKILLS, GLOBAL, Mount, PROJECT, TRUSTED};
use crate::runtime::{Error, Spec, directory};

/// Deeper directories of an agent stay as they are.
const DEPTH: u32 = 64;
/// Entries that are looked at again in a directory that was given before: what the host has put there since is few.
const LOOKED_AT_AGAIN: u32 = 50_000;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Makes what is missing and gives what the container is to see, links resolved.
pub(super) fn prepare(spec: &Spec, give_away: bool) -> Result<Vec<Bind>, Error> {
    directory::make(&spec.group_dir)?;
    directory::make(&spec.home_dir.join(".claude"))?;
    let writes_group = !matches!(spec.settings.trust, Trust::Untrusted);
    let host = settle(&spec.session_dir.join("host"))?;
    let mut binds = Vec::new();
    for (source, target, access) in places(spec, writes_group) {
        let source = settle(&source)?;
        if give_away && !source.starts_with(&host) {
            give(&source).map_err(|error| Error::Directory { path: source.clone(), source: error })?;
        } else if give_away {
            show(&source).map_err(|error| Error::Directory { path: source.clone(), source: error })?;
        }
        binds.push(Bind { source, target: target.to_owned(), access });
    }
    for mount in &spec.mounts {
        let failed = |error| Error::Directory { path: mount.source.clone(), source: error };
        let source = if is_shared(mount) { share(mount, give_away).map_err(failed)? } else { mount.source.clone() };
        binds.push(Bind { source, target: mount.target.clone(), access: mount.access });
    }
    check(&binds)?;
    Ok(binds)
}

/// Whether everything is still where it was when it was looked at: Podman follows links, and agents can make some.
pub(super) fn check(binds: &[Bind]) -> Result<(), Error> {
    for bind in binds {
        let found = bind.source.canonicalize();
        let found = found.map_err(|source| Error::Directory { path: bind.source.clone(), source })?;
        if found != bind.source {
            return Err(Error::Moved { path: bind.source.clone(), found });
        }
        if bind.source.to_str().is_none() || bind.target.to_str().is_none() {
            return Err(Error::Path { path: bind.source.clone() });
        }
    }
    Ok(())
}

/// The path of one of our own directories. What leads to it is the operator's, the directory itself must be one.
fn settle(path: &Path) -> Result<PathBuf, Error> {
    let failed = |source| Error::Directory { path: path.to_owned(), source };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(io::ErrorKind::NotFound.into()));
    };
    let settled = parent.canonicalize().map_err(failed)?.join(name);
    if settled.symlink_metadata().map_err(failed)?.is_dir() {
        Ok(settled)
    } else {
        Err(failed(io::ErrorKind::NotADirectory.into()))
    }
}

/// Whether a mount is one of those that agents share, which lie in the data directory. Others are the operator's, and stay
/// as they are.
fn is_shared(mount: &Mount) -> bool {
    [GLOBAL, TRUSTED, PROJECT, APP_SKILLS].iter().any(|place| mount.target == Path::new(place))
}

/// The path of what agents share. Root gives it to them if they may change it, else it lets them read it: what root made
/// may be closed to everybody else.
fn share(mount: &Mount, give_away: bool) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (mount.source.parent(), mount.source.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let source = parent.canonicalize()?.join(name);
    match mount.access {
        Access::ReadWrite if give_away => give(&source)?,
        Access::ReadOnly if give_away => {
            let mut left = LOOKED_AT_AGAIN;
            reveal(rustix::fs::CWD, source.as_os_str(), (DEPTH, &mut left))?;
        }
        Access::ReadWrite | Access::ReadOnly => {}
    }
    Ok(source)
}

/// Lets everybody who gets here read what root has put here. Above it, the data directory is closed to them.
fn reveal(at: BorrowedFd<'_>, name: &std::ffi::OsStr, (depth, left): (u32, &mut u32)) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(at, name, flags, Mode::empty()) {
        Ok(opened) => opened,
        // A link, a socket, or gone meanwhile.
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
            reveal(opened.as_fd(), std::ffi::OsStr::from_bytes(name), (depth - 1, left))?;
        }
    }
    Ok(())
}

/// Lets the agent's user see the directory that only the host writes: what is above it is closed to everybody else.
fn show(path: &Path) -> io::Result<()> {
    let directory = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
    let mode = rustix::fs::fstat(&directory)?.st_mode & 0o7777;
    if mode & 0o055 != 0o055 {
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode | 0o055))?;
    }
    Ok(())
}

/// Gives what root has made in a directory to the agent's user. What belongs to anybody else stays so; links are not
/// followed, and a file with several names may be one of somebody else's.
fn give(path: &Path) -> io::Result<()> {
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
        match give_entry(directory, std::ffi::OsStr::from_bytes(name.to_bytes()), (depth, left)) {
            // It was removed or exchanged meanwhile.
            Ok(()) | Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn give_entry(directory: &OwnedFd, name: &std::ffi::OsStr, (depth, left): (u32, &mut u32)) -> Result<(), Errno> {
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
