//! The lock file of a session: an incarnation's processes inherit it, so as long as one of them lives, it is not free. It
//! outlives the daemon, which is how the next one finds what was left behind.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::Pid;

use super::holders::{self, Wanted};
use super::spawn::Gate;
use crate::model::id::SessionId;

/// The name's ending; files of other names in the directory are left alone.
pub(super) const ENDING: &str = ".lock";

/// The lock of one session.
pub(super) struct SessionLock {
    path: PathBuf,
    /// Who held it at the last look. Only who holds it twice is killed: somebody else's fork, which has a copy of every
    /// descriptor until its exec, does not.
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

    /// Takes it, or nothing if somebody has it.
    pub(super) fn take(&self, _gate: &Gate) -> io::Result<Option<File>> {
        crate::crash::point("agent-lock");
        let file = options().create(true).truncate(false).mode(0o600).open(&self.path)?;
        Ok(if try_lock(&file)? { Some(file) } else { None })
    }

    /// Looks whether anybody holds it and ends who did so at the last look already. True when nobody does: the lock is free
    /// and, where the system tells, no process has the file open, not even one that gave up the lock.
    pub(super) fn clear(&mut self, gate: &Gate) -> io::Result<bool> {
        let (wanted, free) = self.probe(gate)?;
        let holders = holders::find(&wanted)?;
        let clear = free && holders.is_empty();
        for holder in holders.intersection(&self.seen) {
            holders::end(*holder, &wanted);
        }
        self.seen = holders;
        Ok(clear)
    }

    /// What to look for, and whether the lock is free.
    fn probe(&self, _gate: &Gate) -> io::Result<(Wanted, bool)> {
        let file = match options().open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Wanted::new(&self.path, None), true)),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        let wanted = Wanted::new(&self.path, Some((metadata.dev(), metadata.ino())));
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

/// Waits between looks: soon at first, then twice a second; knows how long it has waited.
#[derive(Default)]
pub(super) struct Pauses {
    next: Duration,
    waited: Duration,
}

impl Pauses {
    /// Waits and tells for how long in all.
    pub(super) fn pause(&mut self) -> Duration {
        self.next = (self.next * 2).clamp(Duration::from_millis(10), Duration::from_millis(500));
        std::thread::sleep(self.next);
        self.waited += self.next;
        self.waited
    }
}

/// Ends what an earlier daemon left behind, for at most `patience`. Tells how many locks are held nevertheless.
///
/// One look at all processes for all locks together: there is a lock for every session that ever ran.
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
        let mut wanted = Wanted::default();
        let mut held = 0;
        for lock in &locks {
            let (one, free) = lock.probe(&gate)?;
            held += usize::from(!free);
            wanted.add(one);
        }
        let holders = holders::find(&wanted)?;
        if held == 0 && holders.is_empty() {
            return Ok(0);
        }
        for holder in holders.intersection(&seen) {
            holders::end(*holder, &wanted);
        }
        seen = holders;
        drop(gate);
        if pauses.pause() >= patience {
            return Ok(held.max(1));
        }
    }
}
