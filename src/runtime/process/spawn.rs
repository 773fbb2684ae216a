//! The one place where this runtime starts processes, and what keeps them from inheriting more than they should.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use command_fds::{CommandFdExt, FdMapping};

/// The life pipe in the child: end of file means that the daemon is gone.
pub(super) const LIFE_FD: RawFd = 3;
/// The lock file in the child: whoever has it open belongs to the incarnation.
pub(super) const LOCK_FD: RawFd = 4;

/// A fork has a copy of every descriptor of this process until its exec, also of lock files that are open just then. That is
/// a fact of the whole process, hence a static: while one thread starts a child, no other looks for holders of locks.
static FORKS: Mutex<()> = Mutex::new(());

/// Proof that no child is between fork and exec.
pub(super) struct Gate(#[expect(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

impl Gate {
    /// Waits until no child is between fork and exec and keeps it so.
    pub(super) fn enter() -> Self {
        Self(FORKS.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A runner that is ready to be started.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) directory: PathBuf,
    pub(super) variables: Vec<(OsString, OsString)>,
}

/// Starts a runner in a process group of its own with standard error piped, the life pipe and the lock.
pub(super) fn runner(launch: &Launch, life: OwnedFd, lock: File, gate: &Gate) -> io::Result<Child> {
    let mut command = command(&launch.program);
    command.args(&launch.arguments).current_dir(&launch.directory).env_clear().stderr(Stdio::piped());
    command.envs(launch.variables.iter().map(|(name, value)| (name, value)));
    let given =
        vec![FdMapping { parent_fd: life, child_fd: LIFE_FD }, FdMapping { parent_fd: lock.into(), child_fd: LOCK_FD }];
    start(command, given, gate)
}

/// Starts a shell command of the operator, with the environment of the daemon and standard output piped.
pub(super) fn shell(text: &str, gate: &Gate) -> io::Result<Child> {
    let mut command = command(Path::new("sh"));
    command.arg("-c").arg(text).stdout(Stdio::piped());
    start(command, Vec::new(), gate)
}

#[expect(clippy::disallowed_methods, reason = "the one place where processes start")]
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Descriptors that would be inherited are covered with the null device: safe code cannot close them in the child. One such
/// is the data file of the store, which LMDB opens inheritable.
fn start(mut command: Command, mut given: Vec<FdMapping>, _gate: &Gate) -> io::Result<Child> {
    for stray in strays()? {
        if !given.iter().any(|mapping| mapping.child_fd == stray) {
            given.push(FdMapping { parent_fd: File::open("/dev/null")?.into(), child_fd: stray });
        }
    }
    let _occupied = occupy()?;
    command.fd_mappings(given).map_err(io::Error::other)?;
    crate::crash::point("spawn");
    command.spawn()
}

/// Takes the numbers that the child's descriptors will get. Otherwise the standard library's own pipe, over which a failed
/// exec is told, could have one of them and be lost.
fn occupy() -> io::Result<Vec<OwnedFd>> {
    let mut taken: Vec<OwnedFd> = Vec::new();
    loop {
        let next = File::open("/dev/null")?;
        if next.as_raw_fd() > LOCK_FD {
            return Ok(taken);
        }
        taken.push(next.into());
    }
}

/// Descriptors of this process, beyond the standard ones, that a child would inherit.
#[cfg(target_os = "linux")]
fn strays() -> io::Result<Vec<RawFd>> {
    let mut strays = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fdinfo")? {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        let Ok(info) = std::fs::read_to_string(entry.path()) else { continue };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default().trim();
        let closes = u32::from_str_radix(flags, 8)
            .is_ok_and(|flags| rustix::fs::OFlags::from_bits_retain(flags).contains(rustix::fs::OFlags::CLOEXEC));
        if number > 2 && !closes {
            strays.push(number);
        }
    }
    Ok(strays)
}

/// Elsewhere nothing tells which descriptors are inheritable.
#[cfg(not(target_os = "linux"))]
fn strays() -> io::Result<Vec<RawFd>> {
    Ok(Vec::new())
}
