//! Children that have ended but are not reaped. Until a child is reaped, the kernel does not reuse its process group
//! id.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::model::incarnation::Exit;

/// Offset that bubblewrap adds to the number of the signal that ended the command.
const BY_SIGNAL: i32 = 128;
/// Highest signal number.
const SIGNAL_MAX: i32 = 64;

/// All reachable processes of an incarnation.
#[derive(Debug)]
pub(super) struct Tree {
    /// Process group of the started child. Valid until the child is reaped.
    pub(super) group: Pid,
    /// First process of the process namespace, if there is one. When it ends, all others are killed.
    pub(super) init: Option<OwnedFd>,
}

impl Tree {
    /// Kills the tree. In a namespace it kills the first process and never the bubblewrap process outside, because a
    /// process inside may have stopped what that one waits for.
    pub(super) fn force(&self) {
        match &self.init {
            Some(init) => force_init(init),
            None => signal(self.group, Signal::KILL),
        }
    }
}

/// Kills a namespace by its first process.
#[cfg(target_os = "linux")]
pub(super) fn force_init(init: &OwnedFd) {
    crate::crash::point("kill");
    if let Err(error) = rustix::process::pidfd_send_signal(init, Signal::KILL) {
        tracing::debug!(%error, "nothing is left of a process namespace");
    }
}

/// Whether all processes of a namespace are gone: its first process ends after all others.
#[cfg(target_os = "linux")]
pub(super) fn namespace_is_dead(init: &OwnedFd) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let soon = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    match poll(&mut [PollFd::new(init, PollFlags::IN)], Some(&soon)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a pidfd for the first process of the namespace that `child` made, from the pid that bubblewrap reported.
#[cfg(target_os = "linux")]
pub(super) fn open_init(child: &Child, told: i32) -> io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let pid = Pid::from_raw(told).ok_or(io::ErrorKind::InvalidData)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    // The pid has not been reused: it is still an unreaped child of `child`.
    let stat = std::fs::read_to_string(format!("/proc/{told}/stat"))?;
    let parent = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(1));
    if parent == Some(child.id().to_string().as_str()) { Ok(handle) } else { Err(io::ErrorKind::NotFound.into()) }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn force_init(_: &OwnedFd) {}

#[cfg(not(target_os = "linux"))]
pub(super) fn namespace_is_dead(_: &OwnedFd) -> io::Result<bool> {
    Ok(true)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_init(_: &Child, _: i32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Signals a process group. The group's leader must be an unreaped child, so that the id has not been reused.
pub(super) fn signal(group: Pid, signal: Signal) {
    crate::crash::point("kill");
    if let Err(error) = kill_process_group(group, signal) {
        tracing::debug!(group = group.as_raw_nonzero().get(), %error, "nothing is left of a process group");
    }
}

/// The process group of a child that leads one. Valid until the child is reaped.
pub(super) fn group(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Waits until a child has ended and leaves it unreaped.
pub(super) fn wait_unreaped(child: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = waitid(WaitId::Pid(child), options) {}
}

/// How a child ended, in the model's terms. Bubblewrap reports its command's death by signal as an exit code.
pub(super) fn exit(status: ExitStatus, jailed: bool) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) if jailed && (1..=SIGNAL_MAX).contains(&(code - BY_SIGNAL)) => Exit::Signal(code - BY_SIGNAL),
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}
