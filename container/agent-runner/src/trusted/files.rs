//! Files that several programs change: locks and atomic writes.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::clock::{self, Stopwatch};

/// Permission bits of new files.
pub(crate) const DEFAULT_MODE: u32 = 0o644;
/// Size limit in bytes of a file that is read as a whole.
pub(crate) const READ_BYTES: u64 = 64 * 1024 * 1024;
/// Age in seconds at which an unfinished file counts as abandoned.
const ORPHAN_SECONDS: i64 = 3600;
/// Pause between two tries to take a held lock.
const RETRY: Duration = Duration::from_millis(5);

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// The lock file cannot be opened.
    #[error("cannot open lock file {}: {}", path.display(), system(source, path))]
    Open {
        /// The lock's file.
        path: PathBuf,
        source: io::Error,
    },
    /// It cannot be locked at all.
    #[error("cannot acquire LOCK_EX on {}: {}", path.display(), system(source, path))]
    Failed {
        /// The lock's file.
        path: PathBuf,
        source: io::Error,
    },
    /// Another process holds it.
    #[error(
        "cannot acquire LOCK_EX on {}: another process has held it for {} s; nothing was changed, find it with `fuser {0}` and run this again",
        path.display(), waited.as_secs_f32(),
    )]
    Busy {
        /// The lock's file.
        path: PathBuf,
        /// How long this process has waited.
        waited: Duration,
    },
}

/// An exclusive `flock(2)`, held until this is dropped. The lock file is created and never removed.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "closing it lets go")] File);

impl Lock {
    /// Takes the lock, waiting at most `wait`.
    ///
    /// # Errors
    /// If it cannot be taken. In that case at most the lock file was created.
    pub(crate) fn take(path: &Path, wait: Duration) -> Result<Self, LockError> {
        let opened = OpenOptions::new().read(true).append(true).create(true).mode(0o666).open(path);
        let file = opened.map_err(|source| LockError::Open { path: path.to_owned(), source })?;
        let watch = Stopwatch::start();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(LockError::Failed { path: path.to_owned(), source: error.into() }),
            }
            let left = watch.left_of(wait);
            if left.is_zero() {
                return Err(LockError::Busy { path: path.to_owned(), waited: wait });
            }
            std::thread::sleep(RETRY.min(left));
        }
    }
}

/// The path of a file's lock: its own path with `.lock` appended.
pub(crate) fn lock_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// The content of a file; `None` if it does not exist.
///
/// # Errors
/// If it cannot be read, is not a regular file or is larger than [`READ_BYTES`].
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Opening a pipe must not wait for a writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    if !kind.is_file() {
        return Err(io::Error::other("not an ordinary file"));
    }
    let mut bytes = Vec::new();
    file.take(READ_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > READ_BYTES {
        return Err(io::Error::other(format!("it has more than {READ_BYTES} bytes")));
    }
    Ok(Some(bytes))
}

/// Replaces a file atomically: even if this process dies, readers see the old or the new content. The file keeps its
/// permissions and gets [`DEFAULT_MODE`] if it is new. A symbolic link is replaced, not followed.
///
/// # Errors
/// The file system's error. The file is unchanged, and nothing is left beside it.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = parent(path);
    fs::create_dir_all(dir)?;
    let mode = fs::metadata(path).map_or(DEFAULT_MODE, |known| known.mode() & 0o777);
    let (temporary, file) = create_beside(path)?;
    let written = finish(file, content, mode).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() && fs::remove_file(&temporary).is_err() {
        // The first error is the one to report.
    }
    written?;
    // If a directory cannot be synced, its file system writes it in its own time.
    File::open(dir).and_then(|dir| dir.sync_all()).or(Ok(()))
}

fn finish(mut file: File, content: &[u8], mode: u32) -> io::Result<()> {
    file.write_all(content)?;
    file.sync_all()?;
    file.set_permissions(Permissions::from_mode(mode))
}

/// Creates a new file: a copy that is never changed again.
///
/// # Errors
/// The file system's error, also if the file exists.
pub(crate) fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = finish(file, content, 0o600);
    if written.is_err() && fs::remove_file(path).is_err() {
        // The first error is the one to report.
    }
    written
}

/// Creates `.<name>.<8 characters>.tmp` in the same directory, readable only by this user.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let mut seed = clock::now_ms() ^ (u64::from(std::process::id()) << 32);
    loop {
        // The name need not be secret, only unlikely to collide. If it exists, another one is tried.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let temporary = path.with_file_name(format!(".{name}.{:08x}.tmp", seed >> 32));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (temporary, file)),
        }
    }
}

/// Removes unfinished files of killed writers of `path`. The caller must hold the lock of `path`. Recent files are
/// kept, since they may belong to a writer that does not use the lock.
pub(crate) fn sweep(path: &Path) {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { return };
    let now = i64::try_from(clock::now_ms() / 1000).unwrap_or(i64::MAX);
    for entry in fs::read_dir(parent(path)).into_iter().flatten().flatten() {
        let old = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|known| now - known.mtime() > ORPHAN_SECONDS);
        if is_temporary_of(&entry.file_name().to_string_lossy(), &name)
            && old(&entry)
            && fs::remove_file(entry.path()).is_err()
        {
            // It only takes space.
        }
    }
}

fn is_temporary_of(name: &str, target: &str) -> bool {
    let middle = name.strip_prefix('.').and_then(|rest| rest.strip_prefix(target));
    let unique = middle.and_then(|rest| rest.strip_prefix('.')).and_then(|rest| rest.strip_suffix(".tmp"));
    unique.is_some_and(|unique| {
        unique.len() == 8 && unique.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A system error in the format of the programs that these commands replace.
pub(crate) fn system(error: &io::Error, path: &Path) -> String {
    let words = error.to_string();
    match error.raw_os_error() {
        Some(number) => {
            let words = words.strip_suffix(&format!(" (os error {number})")).unwrap_or(&words);
            format!("[Errno {number}] {words}: '{}'", path.display())
        }
        None => format!("{words}: '{}'", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_kept_and_links_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/file");
        write(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o644);
        fs::set_permissions(&path, Permissions::from_mode(0o2664)).unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o664);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write(&link, b"three").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&link).unwrap()), (b"two".to_vec(), b"three".to_vec()));
        assert!(!fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_write_that_fails_leaves_everything_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        assert!(write(&path, b"x").is_err());
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["taken"]);
    }

    #[test]
    fn only_ordinary_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(&dir.path().join("none")).unwrap(), None);
        assert!(system(&read(dir.path()).unwrap_err(), dir.path()).starts_with("[Errno 21] Is a directory: '/"));
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(read(&pipe).unwrap_err().to_string().contains("not an ordinary file"));
    }

    #[test]
    fn old_unfinished_files_are_swept_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let kept = [".state.json.1234567.tmp", ".state.json.12345678.bak", ".other.json.12345678.tmp", "state.json"];
        for name in kept.into_iter().chain([".state.json.ab_45678.tmp"]) {
            File::create(dir.path().join(name)).unwrap().set_modified(long_ago).unwrap();
        }
        File::create(dir.path().join(".state.json.87654321.tmp")).unwrap();
        sweep(&path);
        assert!(!dir.path().join(".state.json.ab_45678.tmp").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), kept.len() + 1);
    }

    #[test]
    fn a_lock_that_is_held_is_not_waited_for_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let held = Lock::take(&path, Duration::ZERO).unwrap();
        let error = Lock::take(&path, Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, LockError::Busy { .. }), "{error}");
        drop(held);
        // A process that another test is just starting may hold a copy of the descriptor for a moment.
        Lock::take(&path, Duration::from_secs(10)).unwrap();
    }
}
