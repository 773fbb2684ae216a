//! The host's side of what a container sees: made, looked at, and given to the agent's user.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::body::{AGENT, Bind, places};
use crate::model::entity::{Access, Trust};
use crate::runtime::process::{instruct, make_directory};
use crate::runtime::{Error, Spec};

/// Deeper directories of an agent stay as they are.
const DEPTH: u32 = 64;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Makes what is missing and gives what the container is to see, links resolved.
pub(super) fn prepare(spec: &Spec, give_away: bool) -> Result<Vec<Bind>, Error> {
    make_directory(&spec.group_dir)?;
    make_directory(&spec.home_dir.join(".claude"))?;
    instruct(spec)?;
    let writes_group = !matches!(spec.settings.trust, Trust::Untrusted);
    let mut binds = Vec::new();
    for (source, target, access) in places(spec, writes_group) {
        let source = settle(&source)?;
        if give_away && access == Access::ReadWrite {
            give(&source).map_err(|error| Error::Directory { path: source.clone(), source: error })?;
        } else if give_away {
            show(&source).map_err(|error| Error::Directory { path: source.clone(), source: error })?;
        }
        binds.push(Bind { source, target: target.to_owned(), access });
    }
    for mount in &spec.mounts {
        binds.push(Bind { source: mount.source.clone(), target: mount.target.clone(), access: mount.access });
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

/// Lets the agent's user see a directory that root keeps: what is above it is closed to everybody else.
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
    // One that was given before holds nothing of root's but what was put there since, at its top.
    descend(&directory, if was == AGENT { 1 } else { DEPTH })?;
    if was == 0 {
        Ok(rustix::fs::fchown(&directory, Some(Uid::from_raw(AGENT)), Some(Gid::from_raw(AGENT)))?)
    } else {
        Ok(())
    }
}

fn descend(directory: &OwnedFd, depth: u32) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match give_entry(directory, std::ffi::OsStr::from_bytes(name.to_bytes()), depth) {
            // It was removed or exchanged meanwhile.
            Ok(()) | Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn give_entry(directory: &OwnedFd, name: &std::ffi::OsStr, depth: u32) -> Result<(), Errno> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if stat.st_uid != 0 || (kind != FileType::Directory && stat.st_nlink > 1) {
        return Ok(());
    }
    let owner = (Some(Uid::from_raw(AGENT)), Some(Gid::from_raw(AGENT)));
    if kind != FileType::Directory {
        return rustix::fs::chownat(directory.as_fd(), name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW);
    }
    let inner = rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())?;
    if depth > 0 && descend(&inner, depth - 1).is_err() {
        return Err(Errno::IO);
    }
    rustix::fs::fchown(&inner, owner.0, owner.1)
}
