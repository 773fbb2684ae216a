//! Directories by descriptor: the only way in which this folder touches the file system.
//!
//! An agent owns its half of the mailbox and may put anything there while the host looks. Every access therefore starts
//! at an open directory, never follows a link, takes only regular files with one name and a bounded size, and judges the
//! open file, not the name. What an agent can cause is a [`Look`]; only the machine's own trouble is an [`Error`].

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
/// Reading, writing and searching by the owner: what the host needs of a directory.
const OWNER_ALL: RawMode = 0o700;

/// How paths of more than one component are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolver {
    /// The kernel does it and promises to stay beneath the directory (`openat2`).
    Kernel,
    /// One component at a time, none of which may be a link.
    Stepwise,
}

/// What was found under a name that an agent controls.
#[derive(Debug)]
pub(super) enum Look<T> {
    /// It, as it should be.
    Found(T),
    /// Nothing.
    Absent,
    /// Something else, and what is wrong with it.
    Refused(String),
}

/// What became of a name that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// There is nothing under the name now.
    Gone,
    /// It is a directory with something in it.
    NotEmpty,
}

/// Names in a directory, sorted.
#[derive(Debug)]
pub(super) struct Listing {
    /// At most as many as asked for.
    pub(super) names: Vec<OsString>,
    /// Whether there are more.
    pub(super) cut: bool,
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    /// For messages only; nothing is ever opened by it.
    path: PathBuf,
    resolver: Resolver,
}

/// A number that no other temporary name of this process has.
pub(super) fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    (u64::from(std::process::id()) << 32) | (NEXT.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff)
}

impl Dir {
    /// Opens a directory that no agent controls by its path, and finds out what the kernel can do.
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

    /// Where it is, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A path by which the kernel finds exactly this directory, whatever has its name by now.
    pub(super) fn watch_path(&self) -> PathBuf {
        if cfg!(target_os = "linux") {
            PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
        } else {
            self.path.clone()
        }
    }

    /// Lets go of the directory but keeps the number of its descriptor in use, so that no other directory gets the same
    /// [`Self::watch_path`]. A descriptor that stayed open would hide the directory's deletion from a watch.
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

    /// Opens a directory beneath this one. An agent that took the host's rights away from a directory is put right, so
    /// that it cannot keep its own session from ending.
    pub(super) fn dir(&self, relative: impl AsRef<OsStr>) -> Result<Look<Self>, Error> {
        let relative = relative.as_ref();
        if !parts(relative).all(is_component) {
            return Ok(Look::Refused("it is not a plain path".to_owned()));
        }
        let opened = match self.open(relative, DIRECTORY) {
            Err(Errno::ACCESS) => self.take_back(relative),
            other => other,
        };
        let path = self.path.join(relative);
        match opened {
            Ok(fd) => Ok(Look::Found(Self { fd, path, resolver: self.resolver })),
            Err(errno) => self.judge(relative, errno),
        }
    }

    /// Opens a regular file with one name and at most `max` bytes; also says how many it has.
    pub(super) fn file(&self, name: &OsStr, max: u64) -> Result<Look<(File, u64)>, Error> {
        if !is_component(name) {
            return Ok(Look::Refused("it is not a plain name".to_owned()));
        }
        let fd = match self.open(name, FILE) {
            Ok(fd) => fd,
            Err(errno) => return self.judge(name, errno),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|e| Error::io("look at", &self.path.join(name), e))?;
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if let Some(reason) = not_a_file(&stat) {
            return Ok(Look::Refused(reason.to_owned()));
        }
        match stat.st_nlink {
            0 => Ok(Look::Absent),
            1 if size > max => Ok(Look::Refused(format!("it has {size} bytes, at most {max} are read"))),
            1 => Ok(Look::Found((File::from(fd), size))),
            names => Ok(Look::Refused(format!("it has {names} names (hard links)"))),
        }
    }

    /// Reads a file of at most `max` bytes, also when it grows meanwhile.
    pub(super) fn read(&self, name: &OsStr, max: u64) -> Result<Look<Vec<u8>>, Error> {
        let (file, size) = match self.file(name, max)? {
            Look::Found(found) => found,
            Look::Absent => return Ok(Look::Absent),
            Look::Refused(reason) => return Ok(Look::Refused(reason)),
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

    /// Whether there is anything under a name, whatever it is.
    pub(super) fn has(&self, name: &OsStr) -> Result<bool, Error> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(Error::io("look at", &self.path.join(name), errno)),
        }
    }

    /// When the content of what has a name last changed; `None` if nothing has it.
    pub(super) fn modified(&self, name: &OsStr) -> Result<Option<Timestamp>, Error> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Timestamp::from_millis(
                stat.st_mtime.saturating_mul(1_000).saturating_add(stat.st_mtime_nsec as i64 / 1_000_000),
            ))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::io("look at", &self.path.join(name), errno)),
        }
    }

    /// Makes an open file look as if it had been written now.
    pub(super) fn touch(&self, file: &File, name: &OsStr) -> Result<(), Error> {
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
        rustix::fs::futimens(file, &times).map_err(|e| Error::io("touch", &self.path.join(name), e))
    }

    /// Creates a directory with exactly this mode if the name is free, and opens it.
    pub(super) fn ensure_dir(&self, name: &str, mode: RawMode) -> Result<Self, Error> {
        // Mostly it is there, and asking to make it would wait for whoever changes this directory.
        if let Look::Found(dir) = self.dir(name)? {
            return Ok(dir);
        }
        let made = self.make_dir(name, mode)?;
        match self.dir(name)? {
            Look::Found(dir) => {
                if made {
                    dir.set_mode(mode)?;
                }
                Ok(dir)
            }
            Look::Absent => Err(Error::io("open", &self.path.join(name), Errno::NOENT)),
            Look::Refused(reason) => Err(Error::Unusable { path: self.path.join(name), reason }),
        }
    }

    /// Creates a directory if the name is free, with the owner of this one: as root, the host makes directories for
    /// agents that are somebody else. Whatever has the name already is left alone.
    pub(super) fn offer_dir(&self, name: &str, mode: RawMode) -> Result<(), Error> {
        if self.has(OsStr::new(name))? || !self.make_dir(name, mode)? {
            return Ok(());
        }
        let Look::Found(made) = self.dir(name)? else { return Ok(()) };
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

    /// Writes a file so that nobody ever sees half of it. The rename is durable after [`Self::sync`].
    pub(super) fn write(&self, name: &str, bytes: &[u8], mode: RawMode) -> Result<(), Error> {
        let (temporary, mut file) = loop {
            let temporary = OsString::from(hearth_wire::temporary_name(name, fresh()));
            match self.try_create(&temporary, mode) {
                Ok(file) => break (temporary, file),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(Error::io("create", &self.path.join(temporary), errno)),
            }
        };
        crash::point("mail-write");
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let renamed = written
            .map_err(|e| Error::io("write", &self.path.join(&temporary), e))
            .and_then(|()| self.rename(&temporary, self, OsStr::new(name)));
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

    /// As [`Self::rename`], for callers that know what to do about an error.
    pub(super) fn try_rename(&self, name: &OsStr, to: &Self, new: &OsStr) -> Result<(), Errno> {
        crash::point("mail-rename");
        rustix::fs::renameat(&self.fd, name, &to.fd, new)
    }

    /// Removes a file, a link, a FIFO … or an empty directory; nothing is followed.
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

    /// Makes sure that the owner, who is the host, may use a directory in this one.
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

    /// The mode of a new directory, whatever the daemon's umask is.
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

    /// What has a name in this directory; paths are not looked at, as a link may lead out of them.
    fn kind(&self, name: &OsStr) -> Option<FileType> {
        if !is_component(name) {
            return None;
        }
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    }

    /// Whether an error tells about what an agent put there, or about the machine.
    fn judge<T>(&self, name: &OsStr, errno: Errno) -> Result<Look<T>, Error> {
        match errno {
            Errno::NOENT => Ok(Look::Absent),
            Errno::ACCESS | Errno::PERM => Ok(Look::Refused("it may not be opened".to_owned())),
            Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => Ok(Look::Refused("its name is invalid".to_owned())),
            Errno::LOOP
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::XDEV
            | Errno::NXIO
            | Errno::NODEV
            | Errno::OPNOTSUPP => {
                let what = self.kind(name).map_or("it cannot be opened", kind_words);
                Ok(Look::Refused(what.to_owned()))
            }
            errno => Err(Error::io("open", &self.path.join(name), errno)),
        }
    }
}

/// Copies an open file from its beginning into an empty one; shares the blocks where the file system can.
pub(super) fn copy(from: &File, to: &mut File) -> std::io::Result<u64> {
    #[cfg(target_os = "linux")]
    if rustix::fs::ioctl_ficlone(&*to, from).is_ok() {
        return to.metadata().map(|copy| copy.len());
    }
    let mut from = from;
    std::io::copy(&mut from, to)
}

/// Reads an open file that had `size` bytes, and at most `max` whatever it has by now.
pub(super) fn bounded(file: File, size: u64, path: &Path, max: u64) -> Result<Look<Vec<u8>>, Error> {
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(max)).unwrap_or(0));
    let read = file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(|e| Error::io("read", path, e))?;
    if read as u64 > max {
        return Ok(Look::Refused(format!("it grew over {max} bytes while it was read")));
    }
    Ok(Look::Found(bytes))
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
