//! Unpacks an archive into a new data directory.
//!
//! Everything is created in `restore.part/` of the data directory, then renamed into place. The store comes last, so that
//! no program takes a half-restored directory for an installation. The next restore undoes an interrupted one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::error::Error;
use super::format::{Head, Kind, Reader, hex};
use super::names::components;
use super::read::Archive;
use crate::crash;

/// The directory that an archive is unpacked into.
const PART: &str = "restore.part";
/// A marker file in it: it exists while entries of [`PARTS`] are being renamed into place.
const PLACING: &str = "placing";
/// What is renamed into place, beside the store.
pub const PARTS: [&str; 9] =
    ["bridges", "files", "groups", "hearth.toml", "hearth.toml.old", "homes", "secrets", "skills", "trusted"];
/// Directories of a data directory that may exist if they are empty.
const EMPTY: [&str; 7] = ["store", "sessions", "files", "groups", "homes", "run", "trusted"];
/// Other entries that may exist.
const HARMLESS: [&str; 4] = ["lost+found", "hearth.lock", "store.next", PART];
/// Names in a message.
const NAMED_MAX: usize = 5;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What is unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Store,
    Rest,
}

/// A data directory that an archive is being restored into, locked.
#[derive(Debug)]
pub struct Unpacking {
    data: PathBuf,
    /// Locks the data directory.
    lock: File,
}

impl Unpacking {
    /// Checks that a data directory is empty, and locks it. First undoes a restore that was interrupted.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::Busy`], and errors of the system.
    pub fn begin(data: &Path) -> Result<Self, Error> {
        let lock = File::open(data).map_err(Error::io("open", data))?;
        // Where directories cannot be locked, only the lock of the store protects it.
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(Error::Busy { path: data.to_owned() });
        }
        undo(data)?;
        refuse_content(data)?;
        let part = data.join(PART);
        crash::point("unpack-make");
        std::fs::DirBuilder::new().mode(0o700).create(&part).map_err(Error::io("create", &part))?;
        Ok(Self { data: data.to_owned(), lock })
    }

    /// The directory with the store that was unpacked.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.data.join(PART).join("store")
    }

    /// Renames everything but the store into place. The caller puts the store into place at once.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn place(&self) -> Result<(), Error> {
        let part = self.data.join(PART);
        sync(&part)?;
        let placing = part.join(PLACING);
        crash::point("unpack-mark");
        File::create_new(&placing).and_then(|file| file.sync_all()).map_err(Error::io("create", &placing))?;
        sync_dir(&part)?;
        for name in PARTS {
            let (from, to) = (part.join(name), self.data.join(name));
            if std::fs::symlink_metadata(&from).is_ok() {
                crash::point("unpack-place");
                std::fs::rename(&from, &to).map_err(Error::io("move into place", &to))?;
            }
        }
        sync_dir(&self.data)
    }

    /// The store is in place: the remaining files are removed.
    pub fn finish(self) {
        // Removing the directory also removes the marker, so nothing is undone from now on. Leftover files are
        // harmless.
        crash::point("unpack-end");
        drop(std::fs::remove_dir_all(self.data.join(PART)));
    }

    /// The restore failed: everything that it created is removed.
    pub fn abandon(self) {
        // If this fails, the next restore does it.
        drop(undo(&self.data));
    }
}

impl Drop for Unpacking {
    /// Closing the file is not enough: a child that another thread is just starting has it too.
    fn drop(&mut self) {
        // If unlocking fails, the lock ends with the file.
        rustix::fs::flock(&self.lock, FlockOperation::Unlock).ok();
    }
}

impl Archive {
    /// Unpacks a part of the archive. All of it was checked before; this checks the digests once more.
    ///
    /// # Errors
    /// [`Error`]; [`Unpacking::abandon`] removes what was created.
    pub fn unpack(&self, into: &Unpacking, part: Part) -> Result<(), Error> {
        let root = into.data.join(PART);
        let root_fd =
            rustix::fs::open(&root, DIRECTORY, Mode::empty()).map_err(|e| Error::io("open", &root)(e.into()))?;
        let mut place = Place { root: root_fd, path: root, archive: self.path(), parent: None };
        self.walk(|head, reader| {
            let of_store = head.path.starts_with(b"store/");
            if of_store == (part == Part::Store) { place.create(head, reader) } else { Ok(()) }
        })
    }
}

/// Where entries are created, one name at a time and never through a link.
struct Place<'a> {
    root: OwnedFd,
    /// Both for messages only.
    path: PathBuf,
    archive: &'a Path,
    /// The directory of the last entry.
    parent: Option<(Vec<u8>, OwnedFd)>,
}

impl Place<'_> {
    fn create(&mut self, head: &Head, reader: &mut Reader) -> Result<(), Error> {
        let parts = components(&head.path).map_err(|reason| Error::refused(self.archive, &head.path, reason))?;
        let Some((name, above)) = parts.split_last() else { return Ok(()) };
        let parent = self.parent(head, above)?;
        let name = OsStr::from_bytes(name);
        crash::point("unpack-entry");
        let made = match head.kind {
            Kind::Directory => directory(&parent, name, head.mode),
            Kind::Link => rustix::fs::symlinkat(OsStr::from_bytes(&head.target), &parent, name),
            Kind::File => match rustix::fs::openat(&parent, name, NEW_FILE, Mode::from_raw_mode(0o600)) {
                Ok(fd) => return self.fill(File::from(fd), head, reader, parent),
                Err(errno) => Err(errno),
            },
        };
        made.map_err(|errno| self.fault(head, errno))?;
        self.keep(above, parent);
        Ok(())
    }

    fn keep(&mut self, above: &[&[u8]], parent: OwnedFd) {
        self.parent = Some((above.join(&b'/'), parent));
    }

    /// Opens the directory of an entry, and creates it if the archive did not list it.
    fn parent(&mut self, head: &Head, above: &[&[u8]]) -> Result<OwnedFd, Error> {
        if let Some((path, fd)) = self.parent.take()
            && path == above.join(&b'/')
        {
            return Ok(fd);
        }
        let fault = |errno| self.fault(head, errno);
        let mut at = self.root.try_clone().map_err(Error::io("open", &self.path))?;
        for part in above {
            let name = OsStr::from_bytes(part);
            at = match rustix::fs::openat(&at, name, DIRECTORY, Mode::empty()) {
                Err(Errno::NOENT) => {
                    rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o700)).map_err(fault)?;
                    rustix::fs::openat(&at, name, DIRECTORY, Mode::empty()).map_err(fault)?
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let reason = "lies below something that is not a directory";
                    return Err(Error::refused(self.archive, &head.path, reason));
                }
                opened => opened.map_err(fault)?,
            };
        }
        Ok(at)
    }

    fn fill(&mut self, mut file: File, head: &Head, reader: &mut Reader, parent: OwnedFd) -> Result<(), Error> {
        let path = self.path.join(OsStr::from_bytes(&head.path));
        let mut digest = Sha256::new();
        let is_blob = head.path.starts_with(b"files/");
        reader.each(|chunk| {
            if is_blob {
                digest.update(chunk);
            }
            file.write_all(chunk).map_err(Error::io("write", &path))
        })?;
        if is_blob && !head.path.ends_with(format!("/{}", hex(digest)).as_bytes()) {
            let shown = super::report::shown(&head.path);
            return Err(Error::damaged(self.archive, format!("the digest of {shown} does not match its name")));
        }
        let modified = Timespec { tv_sec: i64::try_from(head.modified).unwrap_or(0), tv_nsec: 0 };
        let times = Timestamps { last_access: modified, last_modification: modified };
        // Times are not worth a failure: some file systems cannot hold them.
        rustix::fs::futimens(&file, &times).ok();
        rustix::fs::fchmod(&file, Mode::from_raw_mode(head.mode)).map_err(|errno| self.fault(head, errno))?;
        let above = components(&head.path).unwrap_or_default();
        self.keep(above.split_last().map_or(&[], |(_, above)| above), parent);
        Ok(())
    }

    fn fault(&self, head: &Head, errno: Errno) -> Error {
        match errno {
            Errno::EXIST => Error::refused(self.archive, &head.path, "is there twice"),
            errno => Error::io("create", &self.path.join(OsStr::from_bytes(&head.path)))(errno.into()),
        }
    }
}

/// Creates a directory, or keeps one that was created for an earlier entry. Its owner can always change it.
fn directory(parent: &OwnedFd, name: &OsStr, mode: u32) -> Result<(), Errno> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let dir = rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()).map_err(|errno| match errno {
        Errno::NOTDIR | Errno::LOOP => Errno::EXIST,
        errno => errno,
    })?;
    rustix::fs::fchmod(&dir, Mode::from_raw_mode(mode | 0o700))
}

/// Removes what an interrupted restore left. If the store is in place, the restore was complete.
fn undo(data: &Path) -> Result<(), Error> {
    let part = data.join(PART);
    let there = |path: &Path| std::fs::symlink_metadata(path).is_ok();
    if !there(&part) {
        return Ok(());
    }
    if there(&part.join(PLACING)) && !there(&data.join("store/data.mdb")) {
        for name in PARTS {
            let (from, to) = (data.join(name), part.join(format!("undone-{name}")));
            if there(&from) {
                crash::point("unpack-undo");
                std::fs::rename(&from, &to).map_err(Error::io("move", &from))?;
            }
        }
    }
    crash::point("unpack-remove");
    std::fs::remove_dir_all(&part).map_err(Error::io("remove", &part))
}

/// Fails if a directory has anything but what an interrupted first start leaves.
fn refuse_content(data: &Path) -> Result<(), Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(data).map_err(Error::io("list", data))? {
        let entry = entry.map_err(Error::io("list", data))?;
        let name = entry.file_name();
        let is = |names: &[&str]| names.iter().any(|known| name == *known);
        let empty = || std::fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none());
        if !(is(&HARMLESS) || (is(&EMPTY) && empty())) {
            found.push(super::report::shown(name.as_bytes()));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    found.sort();
    let more = found.len().saturating_sub(NAMED_MAX);
    found.truncate(NAMED_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Err(Error::NotEmpty { path: data.to_owned(), names: found.join(", ") + &more })
}

/// Syncs everything below a directory.
fn sync(dir: &Path) -> Result<(), Error> {
    crash::point("unpack-sync");
    #[cfg(target_os = "linux")]
    {
        let file = File::open(dir).map_err(Error::io("open", dir))?;
        rustix::fs::syncfs(file.as_fd()).map_err(|errno| Error::io("sync", dir)(errno.into()))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = dir;
        rustix::fs::sync();
        Ok(())
    }
}

fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", dir))
}
