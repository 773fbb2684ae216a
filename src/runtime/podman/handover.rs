//! Hands an agent its secrets through a named pipe. The content of a pipe stays in kernel memory until it is read: it
//! is in no file, in nothing that Podman stores and in no process argument, whatever file system the pipe lies on.
//!
//! Each start has a directory with one pipe, which its container sees read-only at [`PLACE`]. The runner opens the pipe
//! before it does anything else. Then the host writes the variables. It removes the pipe and its directory when the start
//! has succeeded or failed: a pipe that a dead daemon left is empty, and says that its container never got its secrets.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use tokio::task::JoinHandle;

use super::spec::Bind;
use crate::crash;
use crate::model::entity::Access;
use crate::model::id::SessionId;
use crate::runtime::owner::AGENT;
use crate::runtime::{Error, directory};

/// Where a container sees the directory of its pipe.
pub(super) const PLACE: &str = "/run/hearth-secrets";
/// Where it sees the pipe.
pub(super) const PIPE: &str = "/run/hearth-secrets/pipe";
/// Name of the pipe in its directory.
const NAME: &str = "pipe";
/// Pause between two checks for a reader.
const PAUSE: Duration = Duration::from_millis(5);

/// The start that a pipe belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) session: SessionId,
    pub(super) incarnation: u32,
}

/// The pipe of one start. [`clear`] removes it.
pub(super) struct Pipe {
    directory: PathBuf,
}

impl Pipe {
    /// Creates the pipe below `parent`. If `give_away` is set, root gives it to the agent's user.
    pub(super) fn make(parent: &Path, start: Start, give_away: bool) -> Result<Self, Error> {
        directory::make(parent)?;
        let failed = |source| Error::HandOver { path: parent.to_owned(), source };
        let parent = parent.canonicalize().map_err(failed)?;
        clear(&parent, start);
        let pipe = Self { directory: place(&parent, start) };
        let failed = |source| Error::HandOver { path: pipe.path(), source };
        crash::point("secrets-pipe");
        DirBuilder::new().mode(0o700).create(&pipe.directory).map_err(failed)?;
        make_pipe(&pipe.path()).map_err(failed)?;
        if give_away {
            for path in [pipe.path(), pipe.directory.clone()] {
                std::os::unix::fs::chown(path, Some(AGENT), Some(AGENT)).map_err(failed)?;
            }
        }
        Ok(pipe)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// The bind mount for the container.
    pub(super) fn bind(&self) -> Bind {
        Bind { source: self.directory.clone(), target: PLACE.into(), access: Access::ReadOnly }
    }

    /// Starts waiting for the runner, and writes these variables once it reads.
    pub(super) fn offer(&self, variables: &[(String, String)]) -> Offer {
        let stop = Arc::new(AtomicBool::new(false));
        let text: Vec<u8> =
            variables.iter().flat_map(|(name, value)| format!("{name}={value}\0").into_bytes()).collect();
        let (path, stopped) = (self.path(), Arc::clone(&stop));
        let task = tokio::task::spawn_blocking(move || write(&path, &text, &stopped));
        Offer { path: self.path(), stop, task }
    }
}

/// Secrets that wait for their runner. Dropping the offer withdraws them.
pub(super) struct Offer {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    task: JoinHandle<io::Result<()>>,
}

impl Offer {
    /// Waits up to `patience` until the runner has read the secrets. `None` if it has not opened the pipe yet.
    pub(super) async fn taken(&mut self, patience: Duration) -> Option<Result<(), Error>> {
        let ended = tokio::time::timeout(patience, &mut self.task).await.ok()?;
        let written = ended.unwrap_or_else(|error| Err(io::Error::other(error)));
        Some(written.map_err(|source| Error::HandOver { path: self.path.clone(), source }))
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Whether a start did not get its secrets: the pipe of an earlier daemon still exists.
pub(super) fn is_pending(parent: &Path, start: Start) -> bool {
    place(parent, start).symlink_metadata().is_ok()
}

/// Removes the pipe of a start, if it exists.
pub(super) fn clear(parent: &Path, start: Start) {
    remove(&place(parent, start));
}

/// All starts that have a pipe.
pub(super) fn all(parent: &Path) -> Vec<Start> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let start = |name: &str| {
        let (session, incarnation) = name.split_once('.')?;
        Some(Start { session: session.parse().ok()?, incarnation: incarnation.parse().ok()? })
    };
    entries.filter_map(|entry| start(entry.file_name().to_str()?)).collect()
}

fn place(parent: &Path, Start { session, incarnation }: Start) -> PathBuf {
    parent.join(format!("{session}.{incarnation}"))
}

/// Removes a pipe and its directory. A failure is harmless: the pipe is empty, and the next daemon tries again.
fn remove(directory: &Path) {
    drop(std::fs::remove_file(directory.join(NAME)));
    drop(std::fs::remove_dir(directory));
}

#[cfg(target_os = "linux")]
fn make_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?)
}

#[cfg(not(target_os = "linux"))]
fn make_pipe(_: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "containers get secrets on Linux only"))
}

/// Waits for a reader, then writes the whole text.
fn write(path: &Path, mut text: &[u8], stopped: &AtomicBool) -> io::Result<()> {
    let mut pipe: Option<File> = None;
    while !text.is_empty() {
        if stopped.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "it was stopped before it read them"));
        }
        let Some(open) = &mut pipe else {
            pipe = open(path)?;
            match pipe {
                Some(_) => crash::point("secrets-write"),
                None => std::thread::sleep(PAUSE),
            }
            continue;
        };
        match open.write(text) {
            Ok(written) => text = text.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens the pipe for writing; `None` while it has no reader.
fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    match OpenOptions::new().write(true).custom_flags(flags).open(path) {
        Ok(pipe) => Ok(Some(pipe)),
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};

    use super::*;

    const START: Start = Start { session: SessionId::new(4), incarnation: 7 };

    fn variables() -> Vec<(String, String)> {
        [("KEY", "a=b\nc"), ("LONG", &"x".repeat(200_000))]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
    }

    fn in_runtime<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn a_reader_gets_all_variables() {
        let directory = tempfile::tempdir().unwrap();
        let parent = directory.path().join("secrets");
        let pipe = Pipe::make(&parent, START, false).unwrap();
        let path = pipe.path();
        let found = path.symlink_metadata().unwrap();
        assert!(found.file_type().is_fifo());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(is_pending(&parent, START) && all(&parent) == [START]);
        let read = in_runtime(async {
            let mut offer = pipe.offer(&variables());
            assert!(offer.taken(Duration::from_millis(20)).await.is_none(), "nobody reads");
            let reader = std::thread::spawn(move || std::fs::read(path).unwrap());
            offer.taken(Duration::from_secs(20)).await.unwrap().unwrap();
            reader.join().unwrap()
        });
        assert_eq!(read, [b"KEY=a=b\nc\0LONG=".as_slice(), "x".repeat(200_000).as_bytes(), b"\0"].concat());
        clear(&parent, START);
        assert!(!is_pending(&parent, START));
        assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0);
    }

    #[test]
    fn an_offer_that_is_dropped_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = Pipe::make(directory.path(), START, false).unwrap();
        // It ends only when the writing thread does.
        in_runtime(async { drop(pipe.offer(&variables())) });
        assert!(is_pending(directory.path(), START), "the next daemon sees that nobody read");
    }

    #[test]
    fn a_reader_that_goes_away_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = Pipe::make(directory.path(), START, false).unwrap();
        let path = pipe.path();
        let taken = in_runtime(async {
            let mut offer = pipe.offer(&variables());
            std::thread::spawn(move || drop(File::open(path).unwrap())).join().unwrap();
            offer.taken(Duration::from_secs(20)).await.unwrap()
        });
        assert!(matches!(taken, Err(Error::HandOver { .. })), "{taken:?}");
    }

    /// An earlier start of the same number may have left its pipe.
    #[test]
    fn what_a_dead_daemon_left_is_replaced_or_removed() {
        let directory = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            Pipe::make(directory.path(), START, false).unwrap();
        }
        assert_eq!(all(directory.path()), [START]);
        clear(directory.path(), START);
        assert_eq!(all(directory.path()), []);
    }
}
