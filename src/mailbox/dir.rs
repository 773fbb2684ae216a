//! Directories by descriptor: all file access of this module goes through them.
//!
//! An agent owns its half of the mailbox and may change anything there while the host reads it. So every access starts
//! at an open directory, never follows a link, accepts only regular files with one name and a bounded size, and checks
//! the open file, not the name. Conditions that an agent can cause are a [`DirEntry`]; only faults of the system are an
//! [`Error`].

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

use crate::model::time::Timestamp;

use super::error::Error;
use crate::crash;

mod owner;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// `NONBLOCK`: opening a FIFO returns at once; it has no effect on regular files.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Read, write and search permission for the owner: the host needs them on directories.
const OWNER_ALL: RawMode = 0o700;

/// How paths of more than one component are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolver {
    /// The kernel resolves the path and guarantees to stay beneath the directory (`openat2`).
    Kernel,
    /// One component at a time, none of which may be a link.
    Stepwise,
}

/// Result of a lookup of a name that an agent controls.
#[derive(Debug)]
pub(super) enum DirEntry<T> {
    /// A valid entry.
    Found(T),
    Absent,
    /// An invalid entry, and what is wrong with it.
    Refused(String),
}

/// Result of removing a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// The name is free now.
    Gone,
    /// The name is a directory that is not empty.
    NotEmpty,
}

/// Names in a directory, sorted.
#[derive(Debug)]
pub(super) struct Listing {
    /// The names, up to the requested limit.
    pub(super) names: Vec<OsString>,
    /// Whether there are more.
    pub(super) cut: bool,
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    /// For messages only; never used to open anything.
    path: PathBuf,
    resolver: Resolver,
}

/// A number that is unique among this process's temporary names.
pub(super) fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    (u64::from(std::process::id()) << 32) | (NEXT.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff)
}

impl Dir {
    /// Opens a directory that no agent controls, by its path, and detects the kernel's features.
    pub(super) fn open_trusted(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| Error::io("open", path, e))?;
        let resolver =
            if beneath(&fd, OsStr::new("."), DIRECTORY).is_ok() { Resolver::Kernel } else { Resolver::Stepwise };
        Ok(Self { fd, path: path.to_owned(), resolver })
    }

    /// The same directory with another way of resolving.
    #[cfg(test)]
    pub(super) fn resolving(mut self, resolver: Resolver) -> Self {
        self.resolver = resolver;
        self
    }

    /// How paths are opened.
    #[cfg(test)]
    pub(super) fn resolver(&self) -> Resolver {
        self.resolver
    }

    /// Whether this directory is still the one at the path.
    pub(super) fn is_at(&self, path: &Path) -> Result<bool, Error> {
        let here = rustix::fs::fstat(&self.fd).map_err(|e| Error::io("look at", &self.path, e))?;
        match rustix::fs::stat(path) {
            Ok(there) => Ok((here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(Error::io("look at", path, errno)),
        }
    }

    /// Its path, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A path that leads to exactly this directory, even if its name now belongs to another entry.
    pub(super) fn watch_path(&self) -> PathBuf {
        if cfg!(target_os = "linux") {
            PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
        } else {
            self.path.clone()
        }
    }

    /// Closes the directory but keeps its descriptor number in use, so that no other directory gets the same
    /// [`Self::watch_path`]. An open descriptor would hide the directory's deletion from a watch.
    #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "paths are watched there"))]
    pub(super) fn into_number(self, stand_in: &Self) -> Result<OwnedFd, Error> {
        #[cfg(target_os = "linux")]
        {
            let mut fd = self.fd;
            let kept = rustix::io::dup3(&stand_in.fd, &mut fd, rustix::io::DupFlags::CLOEXEC);
            kept.map(|()| fd).map_err(|e| Error::io("let go of", &self.path, e))
        }
        #[cfg(not(target_os = "linux"))]
        Ok(self.fd)
    }

    /// Opens a directory beneath this one. If an agent removed the host's permissions from a directory, they are
    /// restored, so that the agent cannot keep its own session from ending.
    pub(super) fn dir(&self, relative: impl AsRef<OsStr>) -> Result<DirEntry<Self>, Error> {
        let relative = relative.as_ref();
        if !parts(relative).all(is_component) {
            return Ok(DirEntry::Refused("it is not a plain path".to_owned()));
        }
        let opened = match self.open(relative, DIRECTORY) {
            Err(Errno::ACCESS) => self.take_back(relative),
            other => other,
        };
        let path = self.path.join(relative);
        match opened {
            Ok(fd) => Ok(DirEntry::Found(Self { fd, path, resolver: self.resolver })),
            Err(errno) => self.judge(relative, errno),
        }
    }

    /// Opens a regular file with one name and at most `max` bytes; also returns its size.
    pub(super) fn file(&self, name: &OsStr, max: u64) -> Result<DirEntry<(File, u64)>, Error> {
        if !is_component(name) {
            return Ok(DirEntry::Refused("it is not a plain name".to_owned()));
        }
        let fd = match self.open(name, FILE) {
            Ok(fd) => fd,
            Err(errno) => return self.judge(name, errno),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|e| Error::io("look at", &self.path.join(name), e))?;
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if let Some(reason) = not_a_file(&stat) {
            return Ok(DirEntry::Refused(reason.to_owned()));
        }
        match stat.st_nlink {
            0 => Ok(DirEntry::Absent),
            1 if size > max => Ok(DirEntry::Refused(format!("it has {size} bytes, at most {max} are read"))),
            1 => Ok(DirEntry::Found((File::from(fd), size))),
            names => Ok(DirEntry::Refused(format!("it has {names} names (hard links)"))),
        }
    }

    /// Reads a file of at most `max` bytes, even if it grows meanwhile.
    pub(super) fn read(&self, name: &OsStr, max: u64) -> Result<DirEntry<Vec<u8>>, Error> {
        let (file, size) = match self.file(name, max)? {
            DirEntry::Found(found) => found,
            DirEntry::Absent => return Ok(DirEntry::Absent),
            DirEntry::Refused(reason) => return Ok(DirEntry::Refused(reason)),
        };
        bounded(file, size, &self.path.join(name), max)
    }

    /// Names in the directory, at most `max` of them.
    pub(super) fn list(&self, max: usize) -> Result<Listing, Error> {
        let fault = |e: Errno| Error::io("list", &self.path, e);
        let mut names = Vec::new();
        let mut cut = false;
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if names.len() == max {
                cut = true;
                break;
            }
            names.push(name.to_owned());
        }
        names.sort_unstable();
        Ok(Listing { names, cut })
    }

    /// Whether an entry of any kind has this name.
    pub(super) fn has(&self, name: &OsStr) -> Result<bool, Error> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(Error::io("look at", &self.path.join(name), errno)),
        }
    }

    /// Modification time of an entry; `None` if there is none.
    pub(super) fn modified(&self, name: &OsStr) -> Result<Option<Timestamp>, Error> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Timestamp::from_millis(
                stat.st_mtime.saturating_mul(1_000).saturating_add(stat.st_mtime_nsec as i64 / 1_000_000),
            ))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::io("look at", &self.path.join(name), errno)),
        }
    }

    /// Sets the modification time of an open file to now.
    pub(super) fn touch(&self, file: &File, name: &OsStr) -> Result<(), Error> {
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
        rustix::fs::futimens(file, &times).map_err(|e| Error::io("touch", &self.path.join(name), e))
    }

    /// Creates a directory with exactly this mode if the name is free, and opens it.
    pub(super) fn ensure_dir(&self, name: &str, mode: RawMode) -> Result<Self, Error> {
        // It usually exists, and `mkdir` would wait for processes that change this directory.
        if let DirEntry::Found(dir) = self.dir(name)? {
            return Ok(dir);
        }
        let made = self.make_dir(name, mode)?;
        match self.dir(name)? {
            DirEntry::Found(dir) => {
                if made {
                    dir.set_mode(mode)?;
                }
                Ok(dir)
            }
            DirEntry::Absent => Err(Error::io("open", &self.path.join(name), Errno::NOENT)),
            DirEntry::Refused(reason) => Err(Error::Unusable { path: self.path.join(name), reason }),
        }
    }

    /// Creates a directory if the name is free, with the owner of this directory: as root, the host creates directories
    /// for agents that run as another user. An existing entry is left alone.
    pub(super) fn offer_dir(&self, name: &str, mode: RawMode) -> Result<(), Error> {
        if self.has(OsStr::new(name))? || !self.make_dir(name, mode)? {
            return Ok(());
        }
        let DirEntry::Found(made) = self.dir(name)? else { return Ok(()) };
        made.set_mode(mode)?;
        let fault = |e: Errno| Error::io("give away", &made.path, e);
        let (mine, theirs) = (rustix::fs::fstat(&made.fd).map_err(fault)?, rustix::fs::fstat(&self.fd).map_err(fault)?);
        if (mine.st_uid, mine.st_gid) == (theirs.st_uid, theirs.st_gid) {
            return Ok(());
        }
        let (user, group) = (rustix::fs::Uid::from_raw(theirs.st_uid), rustix::fs::Gid::from_raw(theirs.st_gid));
        rustix::fs::fchown(&made.fd, Some(user), Some(group)).map_err(fault)
    }

    /// Creates an empty file under a name that must be free.
    pub(super) fn create(&self, name: &OsStr, mode: RawMode) -> Result<File, Error> {
        self.try_create(name, mode).map_err(|e| Error::io("create", &self.path.join(name), e))
    }

    /// Writes a file atomically: readers never see a partial file. The rename is durable after [`Self::sync`].
    pub(super) fn write(&self, name: &str, bytes: &[u8], mode: RawMode) -> Result<(), Error> {
        let (temporary, mut file) = loop {
            let temporary = OsString::from(hearth_wire::temporary_name(name, fresh()));
            match self.try_create(&temporary, mode) {
                Ok(file) => break (temporary, file),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(Error::io("create", &self.path.join(name), errno)),
            }
        };
        crash::point("mail-write");
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let renamed = written
            .and_then(|()| Ok(self.try_rename(&temporary, self, OsStr::new(name))?))
            .map_err(|e| Error::io("write", &self.path.join(name), e));
        if renamed.is_err() {
            // The first error is the one to report; a temporary file that stays is skipped by every reader.
            self.remove(&temporary).ok();
        }
        renamed
    }

    /// Renames an entry of this directory into another one, replacing what a rename may replace.
    pub(super) fn rename(&self, name: &OsStr, to: &Self, new: &OsStr) -> Result<(), Error> {
        self.try_rename(name, to, new).map_err(|e| Error::io("rename", &self.path.join(name), e))
    }

    /// Like [`Self::rename`], for callers that handle the error themselves.
    pub(super) fn try_rename(&self, name: &OsStr, to: &Self, new: &OsStr) -> Result<(), Errno> {
        crash::point("mail-rename");
        rustix::fs::renameat(&self.fd, name, &to.fd, new)
    }

    /// Removes a file, a link, a FIFO … or an empty directory, without following links.
    pub(super) fn remove(&self, name: &OsStr) -> Result<Removal, Error> {
        if !is_component(name) {
            return Err(Error::BadName { name: name.to_string_lossy().into_owned() });
        }
        let removed = match self.try_remove(name) {
            Err(Errno::ACCESS | Errno::PERM) => {
                self.take_back_self().map_err(|e| Error::io("take back", &self.path, e))?;
                self.try_remove(name)
            }
            other => other,
        };
        removed.map_err(|e| Error::io("remove", &self.path.join(name), e))
    }

    /// Makes renames, creations and removals in this directory durable.
    pub(super) fn sync(&self) -> Result<(), Error> {
        crash::point("mail-sync");
        rustix::fs::fsync(&self.fd).map_err(|e| Error::io("sync", &self.path, e))
    }

    /// Restores the owner's permissions on a directory in this one. The owner is the host.
    pub(super) fn take_back(&self, relative: &OsStr) -> Result<OwnedFd, Errno> {
        let mut at: Option<OwnedFd> = None;
        for part in parts(relative) {
            let base = at.as_ref().map_or_else(|| self.fd.as_fd(), |fd| fd.as_fd());
            at = Some(owner::taken_back(base, part)?);
        }
        let at = at.ok_or(Errno::NOENT)?;
        rustix::fs::openat(&at, ".", DIRECTORY, Mode::empty())
    }

    fn take_back_self(&self) -> Result<(), Errno> {
        let mode = rustix::fs::fstat(&self.fd)?.st_mode & 0o7777;
        rustix::fs::fchmod(&self.fd, Mode::from_raw_mode(mode | OWNER_ALL))
    }

    fn try_create(&self, name: &OsStr, mode: RawMode) -> Result<File, Errno> {
        crash::point("mail-make");
        let fd = rustix::fs::openat(&self.fd, name, NEW_FILE, Mode::from_raw_mode(mode))?;
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))?;
        Ok(File::from(fd))
    }

    fn try_remove(&self, name: &OsStr) -> Result<Removal, Errno> {
        crash::point("mail-remove");
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(Removal::Gone),
            // Linux says ISDIR, POSIX says PERM.
            Err(Errno::ISDIR) => {}
            Err(Errno::PERM) if self.kind(name) == Some(FileType::Directory) => {}
            Err(errno) => return Err(errno),
        }
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(Removal::Gone),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(Removal::NotEmpty),
            Err(errno) => Err(errno),
        }
    }

    fn make_dir(&self, name: &str, mode: RawMode) -> Result<bool, Error> {
        crash::point("mail-dir");
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(mode)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(Error::io("create", &self.path.join(name), errno)),
        }
    }

    /// Sets the mode of a new directory, independent of the daemon's umask.
    fn set_mode(&self, mode: RawMode) -> Result<(), Error> {
        crash::point("mail-dir-mode");
        rustix::fs::fchmod(&self.fd, Mode::from_raw_mode(mode)).map_err(|e| Error::io("open up", &self.path, e))
    }

    fn open(&self, relative: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.resolver {
            Resolver::Kernel => beneath(&self.fd, relative, flags),
            Resolver::Stepwise => stepwise(&self.fd, relative, flags),
        }
    }

    /// Kind of an entry of this directory. Does not accept paths, as a link may lead out of them.
    fn kind(&self, name: &OsStr) -> Option<FileType> {
        if !is_component(name) {
            return None;
        }
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    }

    /// Decides whether an error is caused by the agent's entry or by the system.
    fn judge<T>(&self, name: &OsStr, errno: Errno) -> Result<DirEntry<T>, Error> {
        match errno {
            Errno::NOENT => Ok(DirEntry::Absent),
            Errno::ACCESS | Errno::PERM => Ok(DirEntry::Refused("it may not be opened".to_owned())),
            Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => Ok(DirEntry::Refused("its name is invalid".to_owned())),
            Errno::LOOP
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::XDEV
            | Errno::NXIO
            | Errno::NODEV
            | Errno::OPNOTSUPP => {
                let what = self.kind(name).map_or("it cannot be opened", kind_words);
                Ok(DirEntry::Refused(what.to_owned()))
            }
            errno => Err(Error::io("open", &self.path.join(name), errno)),
        }
    }
}

/// Copies an open file from its beginning into an empty one. Shares the blocks if the file system can.
pub(super) fn copy(from: &File, to: &mut File) -> std::io::Result<u64> {
    #[cfg(target_os = "linux")]
    if rustix::fs::ioctl_ficlone(&*to, from).is_ok() {
        return to.metadata().map(|copy| copy.len());
    }
    let mut from = from;
    std::io::copy(&mut from, to)
}

/// Reads an open file that had `size` bytes, at most `max` bytes even if it has grown.
pub(super) fn bounded(file: File, size: u64, path: &Path, max: u64) -> Result<DirEntry<Vec<u8>>, Error> {
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(max)).unwrap_or(0));
    let read = file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(|e| Error::io("read", path, e))?;
    if read as u64 > max {
        return Ok(DirEntry::Refused(format!("it grew over {max} bytes while it was read")));
    }
    Ok(DirEntry::Found(bytes))
}

/// Whether a name is one component of a path. `..` and `/` never come from a listing, but also never get through here.
pub(super) fn is_component(name: &OsStr) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.as_bytes().iter().any(|b| matches!(b, b'/' | 0))
}

fn parts(relative: &OsStr) -> impl Iterator<Item = &OsStr> {
    relative.as_bytes().split(|b| *b == b'/').map(OsStr::from_bytes)
}

fn not_a_file(stat: &Stat) -> Option<&'static str> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    (kind != FileType::RegularFile).then(|| kind_words(kind))
}

fn kind_words(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "it is a file, not a directory",
        FileType::Directory => "it is a directory, not a file",
        FileType::Symlink => "it is a symbolic link",
        FileType::Fifo => "it is a FIFO",
        FileType::Socket => "it is a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "it is a device",
        FileType::Unknown => "it is not a regular file",
    }
}

#[cfg(target_os = "linux")]
fn beneath(fd: &OwnedFd, relative: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(fd, relative, flags, Mode::empty(), resolve)
}

#[cfg(not(target_os = "linux"))]
fn beneath(_: &OwnedFd, _: &OsStr, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

fn stepwise(fd: &OwnedFd, relative: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut parts = parts(relative).peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(part) = parts.next() {
        let base = at.as_ref().map_or_else(|| fd.as_fd(), |fd| fd.as_fd());
        let flags = if parts.peek().is_some() { DIRECTORY } else { flags };
        at = Some(rustix::fs::openat(base, part, flags, Mode::empty())?);
    }
    at.ok_or(Errno::NOENT)
}
