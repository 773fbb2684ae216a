//! Access to directories by descriptor, for directories that agents can change at any time.
//!
//! Every access starts at an open directory and resolves one name at a time, never through a link. Files are checked by
//! their open descriptor and read up to a limit.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, RawMode, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use super::error::Error;
use crate::crash;
use crate::model::time::Timestamp;

/// Prefix of temporary names: it is followed by the process id, a number, and the final name.
const TEMPORARY: &str = ".tmp-";
/// Maximum number of names searched for leftover temporary files.
const NAMES_MAX: usize = 10_000;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// `NONBLOCK`: opening a FIFO returns at once.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// `NONBLOCK`: a FIFO under the name of a lock does not block.
const LOCK: OFlags =
    OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const PRIVATE_DIRECTORY: RawMode = 0o700;
const PRIVATE_FILE: RawMode = 0o600;

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Nothing,
    File,
    Directory,
    Link,
    /// A FIFO, a socket, a device.
    Other,
}

/// Result of reading a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// All of it.
    Whole(Vec<u8>),
    /// There is no such file.
    Absent,
    /// Not a regular file, or too large; the reason is for people.
    Refused(String),
}

/// Metadata that identifies a version of a file: it differs for a replaced or modified file.
#[derive(Debug, Clone)]
pub struct Stamp(Stat);

impl Stamp {
    /// The permission bits.
    pub(super) fn permissions(&self) -> Mode {
        Mode::from_raw_mode(self.0.st_mode & 0o777)
    }

    fn parts(&self) -> (u64, i64, i64, i64, i64, i64) {
        let stat = &self.0;
        #[expect(clippy::useless_conversion, reason = "types differ by machine")]
        let times =
            (i64::from(stat.st_mtime), stat.st_mtime_nsec as i64, i64::from(stat.st_ctime), stat.st_ctime_nsec as i64);
        (stat.st_ino, stat.st_size, times.0, times.1, times.2, times.3)
    }
}

impl PartialEq for Stamp {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Stamp {}

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir {
    fd: OwnedFd,
    /// For messages only.
    path: PathBuf,
}

impl Dir {
    /// Opens a directory whose path no agent controls.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| Error::io("open", path, e))?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Like [`Self::open`], but `None` if the directory does not exist.
    pub(super) fn find(path: &Path) -> Result<Option<Self>, Error> {
        match Self::open(path) {
            Ok(dir) => Ok(Some(dir)),
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same directory, opened once more, so that it is listed from its beginning.
    pub(super) fn reopened(&self) -> Result<Self, Error> {
        let fd = rustix::fs::openat(&self.fd, ".", DIRECTORY, Mode::empty());
        Ok(Self { fd: fd.map_err(|e| Error::io("open", &self.path, e))?, path: self.path.clone() })
    }

    /// Metadata of the directory itself.
    pub(super) fn own_stat(&self) -> Result<Stat, Error> {
        rustix::fs::fstat(&self.fd).map_err(|e| Error::io("look at", &self.path, e))
    }

    /// Where it is, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a subdirectory. `None` if it does not exist, is a link, or cannot be opened.
    pub(super) fn dir(&self, name: &OsStr) -> Result<Option<Self>, Error> {
        let path = self.path.join(name);
        match rustix::fs::openat(&self.fd, component(name)?, DIRECTORY, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { fd, path })),
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::ACCESS | Errno::NAMETOOLONG) => Ok(None),
            Err(errno) => Err(Error::io("open", &path, errno)),
        }
    }

    /// Opens a subdirectory and creates it if needed. A link under its name is removed.
    pub(super) fn ensure_dir(&self, name: &str) -> Result<Self, Error> {
        let path = self.path.join(name);
        if self.kind(name.as_ref())? == Kind::Link {
            self.remove(name.as_ref())?;
        }
        crash::point("group-dir");
        match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(PRIVATE_DIRECTORY)) {
            Ok(()) => {
                let made = self.dir(name.as_ref())?;
                made.iter().try_for_each(|made| self.give(&made.fd, &path))?;
            }
            Err(Errno::EXIST) => {}
            // A read-only file system reports this even if the name exists.
            Err(Errno::ROFS) if self.kind(name.as_ref())? == Kind::Directory => {}
            Err(errno) => return Err(Error::io("make the directory", &path, errno)),
        }
        let fd = rustix::fs::openat(&self.fd, name, DIRECTORY, Mode::empty()).map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => {
                Error::Unusable { path: path.clone(), reason: "it must be a directory but is not".to_owned() }
            }
            errno => Error::io("open", &path, errno),
        })?;
        Ok(Self { fd, path })
    }

    /// The kind of an entry.
    pub(super) fn kind(&self, name: &OsStr) -> Result<Kind, Error> {
        self.stat(name).map(|stat| stat.map_or(Kind::Nothing, |stat| kind(&stat)))
    }

    /// Size of a regular file in bytes; `None` for anything else.
    pub(super) fn size(&self, name: &OsStr) -> Result<Option<u64>, Error> {
        let file = self.stat(name)?.filter(|stat| kind(stat) == Kind::File);
        Ok(file.map(|stat| u64::try_from(stat.st_size).unwrap_or(0)))
    }

    /// Modification time of an entry.
    pub(super) fn modified(&self, name: &OsStr) -> Result<Option<Timestamp>, Error> {
        let time = |stat: Stat| {
            let millis = i64::try_from(stat.st_mtime_nsec).unwrap_or(0) / 1_000_000;
            Timestamp::from_millis(stat.st_mtime.saturating_mul(1_000).saturating_add(millis))
        };
        Ok(self.stat(name)?.map(time))
    }

    /// Metadata of an entry; `None` if it cannot be examined.
    pub(super) fn stat(&self, name: &OsStr) -> Result<Option<Stat>, Error> {
        match rustix::fs::statat(&self.fd, component(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            // An agent may remove all permissions from its own directories.
            Err(Errno::NOENT | Errno::NAMETOOLONG | Errno::ACCESS) => Ok(None),
            Err(errno) => Err(Error::io("look at", &self.path.join(name), errno)),
        }
    }

    /// Opens a regular file of at most `max` bytes that has no second hard link.
    pub(super) fn file(&self, name: &OsStr, max: u64) -> Result<Result<File, Content>, Error> {
        let (file, stat) = match self.any_file(name)? {
            Ok(found) => found,
            Err(content) => return Ok(Err(content)),
        };
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        Ok(match stat.st_nlink {
            1 if size > max => Err(Content::Refused(format!("it has {size} bytes, at most {max} are read"))),
            1 => Ok(file),
            names => Err(Content::Refused(format!("it has {names} names (hard links)"))),
        })
    }

    /// Opens a regular file of any size, however many hard links it has.
    pub(super) fn any_file(&self, name: &OsStr) -> Result<Result<(File, Stat), Content>, Error> {
        let refused = |reason: String| Ok(Err(Content::Refused(reason)));
        let fd = match rustix::fs::openat(&self.fd, component(name)?, FILE, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NAMETOOLONG) => return Ok(Err(Content::Absent)),
            Err(Errno::LOOP) => return refused("it is a link, and links are not followed there".to_owned()),
            Err(Errno::ACCESS | Errno::PERM) => return refused("it may not be read".to_owned()),
            Err(Errno::NXIO | Errno::NODEV) => return refused("it is not a regular file".to_owned()),
            Err(errno) => return Err(Error::io("open", &self.path.join(name), errno)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|e| Error::io("look at", &self.path.join(name), e))?;
        match (kind(&stat), stat.st_nlink) {
            (Kind::File, 0) => Ok(Err(Content::Absent)),
            (Kind::File, _) => Ok(Ok((File::from(fd), stat))),
            _ => refused("it is not a regular file".to_owned()),
        }
    }

    /// Reads a regular file of at most `max` bytes, even if it grows meanwhile.
    pub(super) fn read(&self, name: &OsStr, max: u64) -> Result<Content, Error> {
        let file = match self.file(name, max)? {
            Ok(file) => file,
            Err(content) => return Ok(content),
        };
        let mut bytes = Vec::new();
        let read = file.take(max.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|e| Error::io("read", &self.path.join(name), e))?;
        if bytes.len() as u64 > max {
            return Ok(Content::Refused(format!("it grew over {max} bytes while it was read")));
        }
        Ok(Content::Whole(bytes))
    }

    /// Names in the directory, sorted, at most `max` of them.
    pub(super) fn list(&self, max: usize) -> Result<Vec<OsString>, Error> {
        let fault = |e: Errno| Error::io("list", &self.path, e);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(fault)? {
            if names.len() >= max {
                break;
            }
            let name = OsStr::from_bytes(entry.map_err(fault)?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Removes temporary files for these names that an earlier process left when it died.
    pub(super) fn tidy(&self, written: &[&str]) -> Result<(), Error> {
        let own = format!("{TEMPORARY}{}-", std::process::id());
        for name in self.list(NAMES_MAX)? {
            let text = name.to_string_lossy();
            let left = text.starts_with(TEMPORARY) && !text.starts_with(&own);
            if left && written.iter().any(|written| text.ends_with(&format!("-{written}"))) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// The target of a link, without following it.
    pub(super) fn link(&self, name: &OsStr) -> Result<Option<PathBuf>, Error> {
        match rustix::fs::readlinkat(&self.fd, component(name)?, Vec::new()) {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(errno) => Err(Error::io("read the link", &self.path.join(name), errno)),
        }
    }

    /// Creates a link if the name is free.
    pub(super) fn make_link(&self, name: &OsStr, target: &Path) -> Result<(), Error> {
        crash::point("group-link");
        match rustix::fs::symlinkat(target, &self.fd, component(name)?) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(Error::io("make the link", &self.path.join(name), errno)),
        }
    }

    /// Removes a file or a link if it exists.
    pub(super) fn remove(&self, name: &OsStr) -> Result<(), Error> {
        crash::point("group-remove");
        match rustix::fs::unlinkat(&self.fd, component(name)?, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io("remove", &self.path.join(name), errno)),
        }
    }

    /// Renames within the directory if the new name is free. Returns whether it was.
    pub(super) fn rename_to_free(&self, name: &str, new: &str) -> Result<bool, Error> {
        crash::point("group-rename");
        match rustix::fs::renameat_with(&self.fd, name, &self.fd, new, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(Error::io("rename", &self.path.join(name), errno)),
        }
    }

    /// The stamp of a file; `None` if it does not exist.
    pub(super) fn stamp(&self, name: &OsStr) -> Result<Option<Stamp>, Error> {
        Ok(self.stat(name)?.map(Stamp))
    }

    /// Opens a lock file, creating it if needed, and takes the lock unless it is held.
    pub(super) fn try_lock(&self, name: &str) -> Result<Option<File>, Error> {
        let path = self.path.join(name);
        let fault = |e: Errno| Error::io("open the lock", &path, e);
        crash::point("group-lock");
        let new = rustix::fs::openat(&self.fd, name, LOCK | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o666));
        let fd = match new {
            Ok(fd) => {
                self.give(&fd, &path)?;
                fd
            }
            Err(Errno::EXIST) => rustix::fs::openat(&self.fd, name, LOCK, Mode::empty()).map_err(fault)?,
            Err(errno) => return Err(fault(errno)),
        };
        if kind(&rustix::fs::fstat(&fd).map_err(fault)?) != Kind::File {
            return Err(Error::Unusable { path, reason: "the lock must be a file but is not".to_owned() });
        }
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(File::from(fd))),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(errno) => Err(Error::io("lock", &path, errno)),
        }
    }

    /// Like [`Self::write`], with these permissions.
    pub(super) fn write_with_mode(&self, name: &str, bytes: &[u8], mode: Mode) -> Result<(), Error> {
        self.put(name, bytes, true, Some(mode)).map(drop)
    }

    /// Writes a file atomically: readers see the old or the new content. An existing entry is replaced, never written
    /// through.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.put(name, bytes, true, None).map(drop)
    }

    /// Like [`Self::write`], unless the name exists. Returns whether the file was written.
    pub(super) fn write_new(&self, name: &str, bytes: &[u8]) -> Result<bool, Error> {
        if self.kind(name.as_ref())? != Kind::Nothing {
            return Ok(false);
        }
        self.put(name, bytes, false, None)
    }

    fn put(&self, name: &str, bytes: &[u8], replace: bool, mode: Option<Mode>) -> Result<bool, Error> {
        crash::point("group-make");
        let (temporary, mut file) = self.temporary(name)?;
        crash::point("group-write");
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let written = written.and_then(|()| mode.map_or(Ok(()), |mode| Ok(rustix::fs::fchmod(&file, mode)?)));
        let done = written.map_err(|e| Error::io("write", &self.path.join(name), e)).and_then(|()| {
            let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
            crash::point("group-put");
            match rustix::fs::renameat_with(&self.fd, &temporary, &self.fd, name, flags) {
                Ok(()) => rustix::fs::fsync(&self.fd).map(|()| true).map_err(|e| Error::io("sync", &self.path, e)),
                // Another session of the same agent was faster.
                Err(Errno::EXIST) if !replace => Ok(false),
                Err(errno) => Err(Error::io("rename", &self.path.join(name), errno)),
            }
        });
        if !matches!(done, Ok(true)) {
            // The first error is the one to report.
            self.remove(temporary.as_ref()).ok();
        }
        done
    }

    fn temporary(&self, name: &str) -> Result<(String, File), Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary = format!("{TEMPORARY}{}-{number}-{name}", std::process::id());
            match rustix::fs::openat(&self.fd, &temporary, NEW, Mode::from_raw_mode(PRIVATE_FILE)) {
                Ok(fd) => {
                    self.give(&fd, &self.path.join(name))?;
                    return Ok((temporary, File::from(fd)));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(Error::io("write", &self.path.join(name), errno)),
            }
        }
    }

    /// Gives a new file to the owner of the directory: as root, the host writes for agents of another user.
    fn give(&self, made: &OwnedFd, path: &Path) -> Result<(), Error> {
        let fault = |e: Errno| Error::io("give away", path, e);
        let (mine, theirs) = (rustix::fs::fstat(made).map_err(fault)?, rustix::fs::fstat(&self.fd).map_err(fault)?);
        if (mine.st_uid, mine.st_gid) == (theirs.st_uid, theirs.st_gid) || !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let owner = (Uid::from_raw(theirs.st_uid), Gid::from_raw(theirs.st_gid));
        rustix::fs::fchown(made, Some(owner.0), Some(owner.1)).map_err(fault)
    }
}

fn component(name: &OsStr) -> Result<&OsStr, Error> {
    let bytes = name.as_bytes();
    let plain = !bytes.is_empty() && bytes != b"." && bytes != b".." && !bytes.iter().any(|b| matches!(b, b'/' | 0));
    if plain {
        Ok(name)
    } else {
        Err(Error::Unusable { path: name.into(), reason: "it is not a plain name".to_owned() })
    }
}

pub(super) fn kind(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults;

    #[test]
    fn no_more_names_are_listed_than_were_asked_for() {
        let place = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(place.path().join(name), "").unwrap();
        }
        let dir = Dir::open(place.path()).unwrap();
        for max in 0..5 {
            assert_eq!(dir.list(max).unwrap().len(), max.min(3));
        }
    }

    /// A function by name, with its result as text.
    #[cfg(target_os = "linux")]
    type Case = (&'static str, fn(&Dir, &Path) -> Result<String, Error>);

    #[cfg(target_os = "linux")]
    const CASES: [Case; 20] = [
        ("open", |_, path| Dir::open(path).map(|_| "found".to_owned())),
        ("find", |_, path| Dir::find(path).map(|found| format!("{:?}", found.map(|_| "found")))),
        ("dir", |dir, _| dir.dir("below".as_ref()).map(|found| format!("{:?}", found.map(|_| "found")))),
        ("ensure_dir", |dir, _| dir.ensure_dir("new").map(|_| "found".to_owned())),
        ("kind", |dir, _| dir.kind("file".as_ref()).map(|kind| format!("{kind:?}"))),
        ("size", |dir, _| dir.size("file".as_ref()).map(|size| format!("{size:?}"))),
        ("modified", |dir, _| dir.modified("file".as_ref()).map(|at| format!("{at:?}"))),
        ("stamp", |dir, _| dir.stamp("file".as_ref()).map(|stamp| format!("{:?}", stamp.map(|_| "found")))),
        ("file", |dir, _| dir.file("file".as_ref(), 9).map(|file| format!("{file:?}"))),
        ("read", |dir, _| dir.read("file".as_ref(), 9).map(|content| format!("{content:?}"))),
        ("list", |dir, _| dir.list(9).map(|_| "found".to_owned())),
        ("tidy", |dir, _| dir.tidy(&["file"]).map(|()| "found".to_owned())),
        ("link", |dir, _| dir.link("link".as_ref()).map(|to| format!("{to:?}"))),
        ("make_link", |dir, _| dir.make_link("new".as_ref(), Path::new("x")).map(|()| "found".to_owned())),
        ("remove", |dir, _| dir.remove("file".as_ref()).map(|()| "gone".to_owned())),
        ("rename_to_free", |dir, _| dir.rename_to_free("file", "new").map(|done| done.to_string())),
        ("try_lock", |dir, _| dir.try_lock("lock").map(|lock| format!("{lock:?}"))),
        ("write", |dir, _| dir.write("new", b"x").map(|()| "found".to_owned())),
        ("write_new", |dir, _| dir.write_new("new", b"x").map(|done| done.to_string())),
        ("write_with_mode", |dir, _| dir.write_with_mode("new", b"x", Mode::RUSR).map(|()| "found".to_owned())),
    ];

    /// A failure that an agent can cause, not a fault of the machine: the agent may remove a file, or its permissions.
    #[cfg(target_os = "linux")]
    fn is_a_value(function: &str, words: &str, value: &str) -> bool {
        let looks = ["dir", "kind", "size", "modified", "stamp", "file", "read"].contains(&function);
        match words {
            "No such file or directory" => {
                let absent = ["None", "Nothing", "Absent", "Err(Absent)"].contains(&value);
                (absent && (looks || ["find", "link"].contains(&function))) || (function, value) == ("remove", "gone")
            }
            "Permission denied" => {
                looks && (["None", "Nothing"].contains(&value) || value.contains("it may not be read"))
            }
            _ => false,
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn every_refusal_of_the_system_keeps_its_cause() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("below")).unwrap();
        std::fs::write(place.path().join("file"), "x").unwrap();
        let dir = Dir::open(place.path()).unwrap();
        for (errno, words) in faults::errors() {
            for (function, work) in CASES {
                match faults::refused(errno, || work(&dir, place.path())) {
                    Ok(value) => assert!(is_a_value(function, words, &value), "{function}, {words}: {value}"),
                    Err(error) => {
                        let text = error.to_string();
                        assert!(text.starts_with("cannot ") && text.contains(words), "{function}: {text}");
                        let named = text.contains(&place.path().display().to_string()) && !text.contains(TEMPORARY);
                        assert!(named, "{function}: {text}");
                    }
                }
            }
        }
    }
}
