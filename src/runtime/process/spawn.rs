//! The only place where this runtime starts processes. It keeps them from inheriting more than they should.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use command_fds::{CommandFdExt, FdMapping};
use rustix::process::{Resource, getrlimit};

use super::tool::ToolRun;

/// The life pipe in the child: end of file means that the daemon is gone.
pub(super) const LIFE_FD: RawFd = 3;
/// The lock file in the child: every process that has it open belongs to the incarnation.
pub(super) const LOCK_FD: RawFd = 4;
/// The runner's program when it starts inside a mount view, where its file has no path.
const RUNNER_FD: RawFd = 5;
/// Bubblewrap's status pipe.
pub(super) const STATUS_FD: RawFd = 6;
/// Bubblewrap's options.
const OPTIONS_FD: RawFd = 7;
/// `/etc/passwd` of a mount view.
pub(super) const PASSWD_FD: RawFd = 8;
/// `/etc/group` of a mount view.
pub(super) const GROUP_FD: RawFd = 9;

/// Between fork and exec a child has a copy of every descriptor of this process, including open lock files. This
/// concerns the whole process, hence a static: while one thread starts a child, no other looks for holders of locks.
static FORKS: Mutex<()> = Mutex::new(());

/// Proof that no child is between fork and exec.
pub(super) struct Gate(#[expect(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

impl Gate {
    /// Waits until no child is between fork and exec, and keeps it so.
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
    /// The mount view it starts in, if it has one.
    pub(super) jailed: Option<Jailed>,
}

/// A start inside bubblewrap. The variables are among its options.
pub(super) struct Jailed {
    pub(super) program: PathBuf,
    pub(super) options: Vec<OsString>,
    pub(super) passwd: String,
    pub(super) group: String,
    /// The user that the runner switches to, if it is not its own.
    pub(super) user: Option<u32>,
}

/// Hides the options, which contain secrets.
impl std::fmt::Debug for Jailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jailed").field("program", &self.program).finish_non_exhaustive()
    }
}

/// The descriptors that an incarnation holds.
pub(super) struct Held<'a> {
    /// Its end of the life pipe.
    pub(super) life: OwnedFd,
    /// The lock, which this process has taken.
    pub(super) lock: &'a File,
    /// Marks the processes that belong to it: the lock's file, opened so that nothing can be locked with it.
    pub(super) mark: OwnedFd,
}

/// Starts a runner in its own process group with standard error piped, the life pipe and the mark. In a mount view
/// bubblewrap has the lock instead, and the returned pipe carries its status.
pub(super) fn runner(launch: &Launch, held: Held<'_>, gate: &Gate) -> io::Result<(Child, Option<PipeReader>)> {
    let given = |parent_fd, child_fd| FdMapping { parent_fd, child_fd };
    let life = given(held.life, LIFE_FD);
    let Some(jailed) = &launch.jailed else {
        let mut command = command(&launch.program);
        command.args(&launch.arguments).current_dir(&launch.directory).env_clear().stderr(Stdio::piped());
        command.envs(launch.variables.iter().map(|(name, value)| (name, value)));
        return Ok((start(command, vec![life, given(held.mark, LOCK_FD)], gate)?, None));
    };
    if let Some(user) = jailed.user {
        // After it has switched to that user, the runner opens the pipe by its path, which requires ownership.
        use rustix::fs::{Gid, Uid, fchown};
        fchown(&life.parent_fd, Some(Uid::from_raw(user)), Some(Gid::from_raw(user)))?;
    }
    let (told, status) = io::pipe()?;
    let lock = held.lock.try_clone()?;
    let mut files = in_jail(jailed, &launch.program)?;
    files.extend([life, given(lock.into(), LOCK_FD), given(status.into(), STATUS_FD)]);
    let mut command = bubblewrap(&jailed.program);
    command.args(&launch.arguments);
    Ok((start(command, files, gate)?, Some(told)))
}

/// Starts a bridge in its own process group with its socket. The returned pipe carries its output of both kinds.
pub(super) fn bridge(launch: &Launch, socket: OwnedFd, gate: &Gate) -> io::Result<(Child, PipeReader)> {
    let (output, theirs) = io::pipe()?;
    let input = socket.try_clone()?;
    let mut files = vec![FdMapping { parent_fd: socket, child_fd: LIFE_FD }];
    let mut command = match &launch.jailed {
        Some(jailed) => {
            files.append(&mut in_jail(jailed, &launch.program)?);
            files.append(&mut unused()?);
            bubblewrap(&jailed.program)
        }
        None => {
            let mut command = command(&launch.program);
            command.current_dir(&launch.directory).env_clear();
            command.envs(launch.variables.iter().map(|(name, value)| (name, value)));
            command
        }
    };
    command.args(&launch.arguments).stdin(input).stdout(theirs.try_clone()?).stderr(theirs);
    Ok((start(command, files, gate)?, output))
}

/// Descriptors for what bubblewrap is told to hold and to report, where that is not needed.
fn unused() -> io::Result<Vec<FdMapping>> {
    let null = || File::options().write(true).open("/dev/null");
    [LOCK_FD, STATUS_FD].into_iter().map(|child_fd| Ok(FdMapping { parent_fd: null()?.into(), child_fd })).collect()
}

/// Starts bubblewrap to prove that it can make a view.
pub(super) fn jail_probe(program: &Path, options: &[OsString], gate: &Gate) -> io::Result<Child> {
    let options = options.to_vec();
    let jailed =
        Jailed { program: program.to_owned(), options, passwd: String::new(), group: String::new(), user: None };
    let mut files = in_jail(&jailed, program)?;
    files.append(&mut unused()?);
    let mut command = bubblewrap(program);
    command.arg("--version");
    start(command, files, gate)
}

/// Bubblewrap without the agent's arguments and environment: other users can see them, and bubblewrap obeys some of the
/// variables.
fn bubblewrap(program: &Path) -> Command {
    let mut command = command(program);
    command.args(["--args", &OPTIONS_FD.to_string(), "--", &format!("/proc/self/fd/{RUNNER_FD}")]);
    command.current_dir("/").env_clear().stderr(Stdio::piped());
    command
}

/// The descriptors for bubblewrap: its options, and the program that it starts.
fn in_jail(jailed: &Jailed, program: &Path) -> io::Result<Vec<FdMapping>> {
    let mut options = Vec::new();
    for word in &jailed.options {
        options.extend_from_slice(word.as_bytes());
        options.push(0);
    }
    Ok(vec![
        FdMapping { parent_fd: File::open(program)?.into(), child_fd: RUNNER_FD },
        FdMapping { parent_fd: memory_file(&options)?, child_fd: OPTIONS_FD },
        FdMapping { parent_fd: memory_file(jailed.passwd.as_bytes())?, child_fd: PASSWD_FD },
        FdMapping { parent_fd: memory_file(jailed.group.as_bytes())?, child_fd: GROUP_FD },
    ])
}

/// A file in memory only, because it may hold secrets.
#[cfg(target_os = "linux")]
fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    use std::io::{Seek as _, Write as _};
    let mut file = File::from(rustix::fs::memfd_create("hearth", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(not(target_os = "linux"))]
fn memory_file(_: &[u8]) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Starts a shell command of the operator, with the daemon's environment and standard output piped.
pub(super) fn shell(text: &str, gate: &Gate) -> io::Result<Child> {
    let mut command = command(Path::new("sh"));
    command.arg("-c").arg(text).stdout(Stdio::piped());
    start(command, Vec::new(), gate)
}

/// Starts a program of the operator with an environment of its own, and with its output of both kinds piped.
pub(super) fn tool(run: &ToolRun, input: Stdio, gate: &Gate) -> io::Result<Child> {
    let mut command = command(&run.program);
    command.args(&run.arguments).current_dir("/").env_clear();
    command.envs(run.variables.iter().map(|(name, value)| (name, value)));
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    start(command, Vec::new(), gate)
}

#[expect(clippy::disallowed_methods, reason = "the one place where processes start")]
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Covers descriptors that would be inherited with the null device, because safe code cannot close them in the child.
/// One of them is the store's data file, which LMDB opens inheritable.
fn start(mut command: Command, mut given: Vec<FdMapping>, _gate: &Gate) -> io::Result<Child> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    for stray in strays()? {
        if u64::try_from(stray).is_ok_and(|stray| stray >= limit) {
            return Err(io::Error::other(format!(
                "Hearth was started with the open file {stray}, which is above its limit of {limit} open files and would be \
                 passed on: start it without that file, or raise the limit (`ulimit -n`)"
            )));
        }
        if !given.iter().any(|mapping| mapping.child_fd == stray) {
            given.push(FdMapping { parent_fd: File::open("/dev/null")?.into(), child_fd: stray });
        }
    }
    let _occupied = occupy()?;
    command.fd_mappings(given).map_err(io::Error::other)?;
    crate::crash::point("spawn");
    command.spawn()
}

/// Occupies the numbers that the child's descriptors will get. Otherwise the standard library's pipe for exec errors
/// could have one of them and be lost.
fn occupy() -> io::Result<Vec<OwnedFd>> {
    let mut taken: Vec<OwnedFd> = Vec::new();
    loop {
        let next = File::open("/dev/null")?;
        if next.as_raw_fd() > GROUP_FD {
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

/// Other systems do not tell which descriptors are inheritable.
#[cfg(not(target_os = "linux"))]
fn strays() -> io::Result<Vec<RawFd>> {
    Ok(Vec::new())
}
