//! The lock file of a session. The daemon holds the lock while an incarnation lives. All processes of the incarnation
//! have the file open, so the next daemon can find survivors.
//!
//! An agent never gets a descriptor that can be locked: such a descriptor, in flight between two ends of a socket,
//! would hold the lock forever without a process that could be found. In a mount view bubblewrap's first process has
//! the lock, out of the agent's reach. Elsewhere processes inherit a mark, which refers to the file and gives no access
//! to it.

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::process::Pid;

use super::lock_owners::{self, LockQuery};
use super::spawn::Gate;
use crate::model::backoff::Backoff;
use crate::model::id::SessionId;
use crate::model::time::Millis;

/// File extension of locks. Other files in the directory are left alone.
pub(super) const ENDING: &str = ".lock";

/// Opens a reference to a file, without access to its content.
#[cfg(target_os = "linux")]
const NOTHING: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const NOTHING: OFlags = OFlags::RDONLY;

pub(super) struct SessionLock {
    path: PathBuf,
    /// Processes that held it at the last check. Only a process seen twice is killed: a fork of an unrelated process
    /// has a copy of every descriptor until its exec, but only briefly.
    seen: HashSet<Pid>,
}

impl SessionLock {
    pub(super) fn new(directory: &Path, session: SessionId) -> Self {
        Self::at(directory.join(format!("{session}{ENDING}")))
    }

    fn at(path: PathBuf) -> Self {
        Self { path, seen: HashSet::new() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the lock; `None` if another process holds it.
    pub(super) fn take(&self, _gate: &Gate) -> io::Result<Option<File>> {
        crate::crash::point("agent-lock");
        let open = || options().create(true).truncate(false).mode(0o600).open(&self.path);
        let file = match open() {
            // The directory may have been removed since the start.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let directory = self.path.parent().unwrap_or(&self.path);
                DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
                open()?
            }
            opened => opened?,
        };
        Ok(if try_lock(&file)? { Some(file) } else { None })
    }

    /// A reference to the file for processes that are to be found by it.
    pub(super) fn mark(&self) -> io::Result<OwnedFd> {
        Ok(rustix::fs::open(&self.path, NOTHING | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Checks for holders and kills those seen at the last check. Returns true when the lock is free and, where the
    /// system tells, no process has the file open, not even one that released the lock.
    pub(super) fn clear(&mut self, gate: &Gate) -> io::Result<bool> {
        let (wanted, free) = self.probe(gate)?;
        let holders = lock_owners::find(&wanted)?;
        let clear = free && holders.is_empty();
        for holder in holders.intersection(&self.seen) {
            lock_owners::end(*holder, &wanted);
        }
        self.seen = holders;
        Ok(clear)
    }

    /// What to look for, and whether the lock is free.
    fn probe(&self, _gate: &Gate) -> io::Result<(LockQuery, bool)> {
        let file = match options().open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((LockQuery::new(&self.path, None), true));
            }
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let wanted = LockQuery::new(&self.path, Some((metadata.dev(), metadata.ino())));
        Ok((wanted, try_lock(&file)?))
    }
}

fn options() -> OpenOptions {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options
}

fn try_lock(file: &File) -> io::Result<bool> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Pauses between checks.
const PAUSES: Backoff = Backoff::new(Millis::new(10), Millis::new(500));

/// Growing pauses between checks. Counts the total time.
#[derive(Default)]
pub(super) struct Pauses {
    count: u32,
    waited: Duration,
}

impl Pauses {
    /// Waits and returns the total time waited.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = PAUSES.wait(self.count).duration();
        std::thread::sleep(pause);
        self.count = self.count.saturating_add(1);
        self.waited += pause;
        self.waited
    }
}

/// Ends what an earlier daemon left behind, for at most `patience`. Returns how many locks are still held.
///
/// One scan of all processes covers all locks: every session that ever ran has one.
pub(super) fn clear_all(directory: &Path, patience: Duration) -> io::Result<usize> {
    let mut locks = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == ENDING.trim_start_matches('.')) {
            locks.push(SessionLock::at(path));
        }
    }
    let mut seen = HashSet::new();
    let mut pauses = Pauses::default();
    loop {
        let gate = Gate::enter();
        let mut wanted = LockQuery::default();
        let mut held = 0;
        for lock in &locks {
            let (one, free) = lock.probe(&gate)?;
            held += usize::from(!free);
            wanted.add(one);
        }
        let holders = lock_owners::find(&wanted)?;
        if held == 0 && holders.is_empty() {
            return Ok(0);
        }
        for holder in holders.intersection(&seen) {
            lock_owners::end(*holder, &wanted);
        }
        seen = holders;
        drop(gate);
        if pauses.pause() >= patience {
            return Ok(held.max(1));
        }
    }
}
