//! Opens files of unknown kind safely: opening a FIFO would block, and a link would lead elsewhere.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    Nothing,
    Regular,
    /// In words, with an article.
    Other(&'static str),
}

/// The file of a store in the directory `dir`.
pub(super) fn store_file(dir: &Path) -> PathBuf {
    dir.join("data.mdb")
}

/// LMDB's lock file beside it. Only LMDB may open it.
pub(super) fn lock_file(dir: &Path) -> PathBuf {
    dir.join("lock.mdb")
}

/// Creates the file of a copy of a store in the directory `dir`.
pub(super) fn create_copy(dir: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(store_file(dir))
}

/// Looks up the kind of an entry without opening it.
pub(super) fn look(path: &Path) -> io::Result<EntryKind> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(EntryKind::Nothing);
        }
        Err(error) => return Err(error),
    };
    Ok(match () {
        () if kind.is_file() => EntryKind::Regular,
        () if kind.is_symlink() => EntryKind::Other("a symbolic link"),
        () if kind.is_dir() => EntryKind::Other("a directory"),
        () if kind.is_fifo() => EntryKind::Other("a FIFO"),
        () if kind.is_socket() => EntryKind::Other("a socket"),
        () => EntryKind::Other("a device"),
    })
}

/// Opens a regular file for reading.
///
/// # Errors
/// Errors of the system, and an error for anything but a regular file.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::LOOP) => return Err(not_regular()),
        opened => File::from(opened?),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_is_opened_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("file"), "x").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        for (name, found) in [
            ("file", EntryKind::Regular),
            ("link", EntryKind::Other("a symbolic link")),
            ("fifo", EntryKind::Other("a FIFO")),
            (".", EntryKind::Other("a directory")),
            ("none", EntryKind::Nothing),
            ("file/none", EntryKind::Nothing),
        ] {
            assert_eq!(look(&path(name)).unwrap(), found, "{name}");
            assert_eq!(open(&path(name)).is_ok(), found == EntryKind::Regular, "{name}");
        }
    }
}
