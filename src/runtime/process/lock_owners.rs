//! Finds and ends the processes that have a lock file open. The system reuses process ids, so a process is ended only
//! through a handle that was opened before its link to the lock file was verified.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::Path;

use rustix::process::Pid;

/// The files to look for.
#[derive(Debug, Default)]
pub(super) struct LockQuery {
    /// Device and inode.
    files: BTreeSet<(u64, u64)>,
    /// The link text that the system shows for such a file after it was deleted.
    deleted: BTreeSet<OsString>,
}

impl LockQuery {
    /// `identity` is missing if the file does not exist. Processes may still have a deleted file of that name open.
    pub(super) fn new(path: &Path, identity: Option<(u64, u64)>) -> Self {
        let mut deleted = path.as_os_str().to_owned();
        deleted.push(" (deleted)");
        Self { files: identity.into_iter().collect(), deleted: BTreeSet::from([deleted]) }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        self.deleted.extend(other.deleted);
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::{end, find, group_is_dead};

#[cfg(target_os = "linux")]
mod linux {
    use super::{HashSet, LockQuery, Path, Pid, io};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};

    use crate::runtime::process::lock::ENDING;

    /// All other processes that have a wanted file open. Those of other users are not visible.
    pub(in crate::runtime::process) fn find(wanted: &LockQuery) -> io::Result<HashSet<Pid>> {
        let mut found = processes()?;
        found.retain(|pid| holds(*pid, wanted));
        Ok(found)
    }

    fn processes() -> io::Result<HashSet<Pid>> {
        let own = getpid();
        let mut all = HashSet::new();
        for entry in std::fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let pid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            all.extend(pid.filter(|pid| *pid != own));
        }
        Ok(all)
    }

    /// Whether a process has a wanted file open. Processes may end meanwhile: unreadable ones hold nothing.
    fn holds(pid: Pid, wanted: &LockQuery) -> bool {
        let Ok(links) = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())) else { return false };
        links.flatten().any(|link| {
            let Ok(target) = std::fs::read_link(link.path()) else { return false };
            wanted.deleted.contains(target.as_os_str()) || is_lock(&target) && is_wanted(&link.path(), wanted)
        })
    }

    /// Checked first, because a stat of other files, for example on a network, may block forever.
    fn is_lock(target: &Path) -> bool {
        target.is_absolute() && target.as_os_str().as_bytes().ends_with(ENDING.as_bytes())
    }

    fn is_wanted(link: &Path, wanted: &LockQuery) -> bool {
        std::fs::metadata(link).is_ok_and(|file| wanted.files.contains(&(file.dev(), file.ino())))
    }

    /// Kills a holder and its process group, after verifying that they are still the same.
    pub(in crate::runtime::process) fn end(holder: Pid, wanted: &LockQuery) {
        let handle = pidfd_open(holder, PidfdFlags::empty());
        let group = group_of(holder);
        if !holds(holder, wanted) {
            return;
        }
        // The holder was in this group when it was verified, so the group id has not been reused.
        if let Some(group) = group {
            end_group(group, holder, wanted);
        }
        let result = match handle {
            Ok(handle) => pidfd_send_signal(handle, Signal::KILL),
            Err(Errno::SRCH) => Ok(()),
            Err(_) => kill_process(holder, Signal::KILL),
        };
        tracing::info!(pid = holder.as_raw_nonzero().get(), ?result, "ended a process that held an agent's lock");
    }

    /// Kills a holder's process group. Programs may close unknown descriptors before they start others, so the group
    /// has members that hold nothing. A group whose leader lives and holds nothing is not an agent's: a holder has
    /// moved into it.
    fn end_group(group: Pid, holder: Pid, wanted: &LockQuery) {
        let foreign = group_of(getpid()) == Some(group) || group_of(group) == Some(group) && !holds(group, wanted);
        let Ok(others) = processes() else { return };
        if foreign {
            return;
        }
        for other in others.into_iter().filter(|other| *other != holder && group_of(*other) == Some(group)) {
            let Ok(handle) = pidfd_open(other, PidfdFlags::empty()) else { continue };
            if group_of(other) == Some(group) && holds(holder, wanted) {
                let result = pidfd_send_signal(handle, Signal::KILL);
                tracing::debug!(pid = other.as_raw_nonzero().get(), ?result, "ended a process of a holder's group");
            }
        }
    }

    /// Whether all members of a process group are dead. Only meaningful while its leader is not reaped.
    pub(in crate::runtime::process) fn group_is_dead(group: Pid) -> io::Result<bool> {
        Ok(!processes()?.into_iter().filter_map(status).any(|status| status.group == Some(group) && status.alive))
    }

    fn group_of(pid: Pid) -> Option<Pid> {
        status(pid)?.group
    }

    struct Status {
        group: Option<Pid>,
        alive: bool,
    }

    /// Parsed here, because the library call does not expect process groups outside of this namespace, which have the
    /// number zero.
    fn status(pid: Pid) -> Option<Status> {
        let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name in parentheses may contain anything. After it come the state, the parent, the group and, much later,
        // the thread count.
        let (_, fields) = stat.split_at_checked(stat.iter().rposition(|byte| *byte == b')')?)?;
        let mut fields = std::str::from_utf8(fields).ok()?.split_ascii_whitespace().skip(1);
        let state = fields.next()?;
        let group = fields.nth(1)?.parse().ok().filter(|group| *group > 0).and_then(Pid::from_raw);
        let threads: u32 = fields.nth(14)?.parse().ok()?;
        // The main thread may have ended before the others.
        let alive = !matches!(state, "Z" | "X") || threads > 1;
        Some(Status { group, alive })
    }
}

/// Other systems do not tell which process has a file open. There the lock alone decides, and processes that left their
/// group are waited for.
#[cfg(not(target_os = "linux"))]
pub(super) fn find(wanted: &LockQuery) -> io::Result<HashSet<Pid>> {
    let _unknown = (&wanted.files, &wanted.deleted);
    Ok(HashSet::new())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn end(_holder: Pid, _wanted: &LockQuery) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn group_is_dead(_group: Pid) -> io::Result<bool> {
    Ok(true)
}
