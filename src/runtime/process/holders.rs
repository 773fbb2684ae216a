//! Who has a lock file open, and ending them. Process ids are used again by the system, so a process is ended only through
//! a handle that was opened before its link to the lock file was verified.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::Path;

use rustix::process::Pid;

/// The files that are looked for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Device and inode.
    files: BTreeSet<(u64, u64)>,
    /// What the system shows for such a file after somebody deleted it.
    deleted: BTreeSet<OsString>,
}

impl Wanted {
    /// Without a file there may still be a deleted one of that name.
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
    use super::{HashSet, Path, Pid, Wanted, io};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal};

    use crate::runtime::process::lock::ENDING;

    /// All processes but this one that have a wanted file open. Those of other users are not visible.
    pub(in crate::runtime::process) fn find(wanted: &Wanted) -> io::Result<HashSet<Pid>> {
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

    /// Processes end while one looks: what cannot be read holds nothing.
    fn holds(pid: Pid, wanted: &Wanted) -> bool {
        let Ok(links) = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())) else { return false };
        links.flatten().any(|link| {
            let Ok(target) = std::fs::read_link(link.path()) else { return false };
            wanted.deleted.contains(target.as_os_str()) || is_lock(&target) && is_wanted(&link.path(), wanted)
        })
    }

    /// Asked first, because a question about other files, on a network for example, may take for ever.
    fn is_lock(target: &Path) -> bool {
        target.is_absolute() && target.as_os_str().as_bytes().ends_with(ENDING.as_bytes())
    }

    fn is_wanted(link: &Path, wanted: &Wanted) -> bool {
        std::fs::metadata(link).is_ok_and(|file| wanted.files.contains(&(file.dev(), file.ino())))
    }

    /// Ends a holder and its process group, if they still are what they were.
    pub(in crate::runtime::process) fn end(holder: Pid, wanted: &Wanted) {
        let handle = pidfd_open(holder, PidfdFlags::empty());
        let group = group_of(holder);
        if !holds(holder, wanted) {
            return;
        }
        // From here on the holder is known to have been in this group: the number is not somebody else's.
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

    /// Programs may close descriptors that they do not know before they start others, so a holder's group has members that
    /// hold nothing. A group whose leader lives and holds nothing is not an agent's: a holder has moved into it.
    fn end_group(group: Pid, holder: Pid, wanted: &Wanted) {
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

    /// Whether a process group has no members but dead ones. Meaningful while its leader is not reaped.
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

    /// Read here, because the call that asks the kernel does not expect the groups that are not visible from this namespace,
    /// which have the number zero.
    fn status(pid: Pid) -> Option<Status> {
        let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name, in parentheses, may contain anything; after it come state, parent, group, and much later the threads.
        let (_, fields) = stat.split_at_checked(stat.iter().rposition(|byte| *byte == b')')?)?;
        let mut fields = std::str::from_utf8(fields).ok()?.split_ascii_whitespace().skip(1);
        let state = fields.next()?;
        let group = fields.nth(1)?.parse().ok().filter(|group| *group > 0).and_then(Pid::from_raw);
        let threads: u32 = fields.nth(14)?.parse().ok()?;
        // A main thread may have ended before the others.
        let alive = !matches!(state, "Z" | "X") || threads > 1;
        Some(Status { group, alive })
    }
}

/// Elsewhere nothing tells who has a file open: the lock alone decides, and what escaped its group is waited for.
#[cfg(not(target_os = "linux"))]
pub(super) fn find(wanted: &Wanted) -> io::Result<HashSet<Pid>> {
    let _unknown = (&wanted.files, &wanted.deleted);
    Ok(HashSet::new())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn end(_holder: Pid, _wanted: &Wanted) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn group_is_dead(_group: Pid) -> io::Result<bool> {
    Ok(true)
}
