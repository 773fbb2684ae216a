//! Executes the attempts of a self-test in a confined process. Only the host knows the expected outcomes.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::child::{Launch, LineProcess, ProcessOutput};
use crate::confine::CONFINE_VARIABLE;
use crate::log;

/// Variable with [`ProbeArgs`], as JSON.
pub const PROBE_VARIABLE: &str = "HEARTH_PROBE";

/// Report path of a child that has nothing to report.
const NOWHERE: &str = "/dev/null";

/// Timeout of a socket's answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Bytes of an answer that are returned.
const ANSWER_MAX: u64 = 4096;
/// Timeouts of a program, and of a child with all its attempts; a busy machine is slow.
const PROGRAM: Duration = Duration::from_secs(20);
const CHILD: Duration = Duration::from_secs(180);

/// The request of a self-test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeArgs {
    /// The attempts, made in this order.
    pub attempts: Vec<Attempt>,
    /// Path of the report: the outcomes as JSON, in the order of the attempts.
    pub report: PathBuf,
    /// Arguments that make this program the runner.
    pub arguments: Vec<String>,
    /// The process that makes the attempts.
    pub who: Who,
}

/// The process that makes the attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Who {
    /// The started process itself.
    Itself,
    /// A child of it.
    Child,
}

/// An attempt. The effects of a successful one remain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attempt {
    /// Reads a file, or lists a directory.
    Read(PathBuf),
    /// Opens a file for writing without changing its content; creates it if needed.
    Write(PathBuf),
    /// Creates a symbolic link at the first path and reads the second path through it.
    ReadByLink(PathBuf, PathBuf),
    /// Creates a hard link at the first path to the second one and reads it.
    ReadByHardLink(PathBuf, PathBuf),
    /// Moves the second path to the first.
    Take(PathBuf, PathBuf),
    /// Connects to a Unix socket, sends the line and returns the answer. A name that begins with `@` is abstract.
    Greet(PathBuf, String),
    /// Sends a text to a Unix socket, or to a network address `host:port`, and returns the beginning of the answer.
    Ask(String, String),
    /// Connects to a network address, `host:port`.
    Connect(String),
    /// Checks whether a process could be signalled.
    Signal(i32),
    /// Sets a resource limit of another process, the least harmful one.
    Limit(i32),
    /// Changes the mode of a file.
    Mode(PathBuf, u32),
    /// Creates a file with a mode.
    Create(PathBuf, u32),
    /// Searches the environments of all visible processes for a text.
    Environments(String),
    /// Checks for a capability, or a way to get one through a setuid program.
    Rights,
    /// Creates a device node.
    Node(PathBuf),
    /// Creates a user namespace.
    Namespace,
    /// Runs a program to its end.
    Run(Vec<String>),
    /// Starts this many children at once.
    Fork(u32),
    /// Uses this many bytes of memory, in a separate process.
    Fill(u64),
    /// Puts a file in place atomically.
    Put(PathBuf, String),
    /// Creates something other than a regular file.
    Leave(PathBuf, Odd),
    /// Repeatedly replaces the first path by a link to the second one and removes it again.
    Swap(PathBuf, PathBuf, u32),
    /// Creates this many files with this text; a number and `.json` are appended to the path.
    Many(PathBuf, u32, String),
}

/// Something other than a regular file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Odd {
    /// A symbolic link to this path.
    Link(PathBuf),
    /// A second hard link to a file of its own.
    Name,
    /// A pipe without a process at its other end.
    Pipe,
    /// A sparse file of this size in bytes.
    Sparse(u64),
    /// Nested directories of this depth.
    Deep(u32),
}

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it succeeded.
    pub done: bool,
    /// Whether it was forbidden, as opposed to impossible.
    pub forbidden: bool,
    /// Whether the target was missing: no such file, no such process, no listener.
    pub absent: bool,
    /// The system's error or the answer; never a file's content.
    pub detail: String,
}

/// Makes the attempts and writes the report.
pub(crate) fn main(asked: &str) -> ExitCode {
    let tried = serde_json::from_str(asked).map_err(io::Error::other).and_then(|asked: ProbeArgs| match asked.who {
        Who::Child => leave_to_child(&asked, CHILD),
        Who::Itself => {
            let outcomes: Vec<Outcome> = asked.attempts.iter().map(|attempt| outcome(&asked, attempt)).collect();
            fs::write(&asked.report, serde_json::to_vec(&outcomes).map_err(io::Error::other)?)
        }
    });
    match tried {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::note(format_args!("the self-test could not be carried out: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Lets a child make the attempts. The child gets no rules of its own, so it is held only by inherited ones.
fn leave_to_child(asked: &ProbeArgs, patience: Duration) -> io::Result<()> {
    let asked = ProbeArgs { who: Who::Itself, ..asked.clone() };
    let mut argv = vec!["/proc/self/exe".to_owned()];
    argv.extend_from_slice(&asked.arguments);
    let env = vec![(PROBE_VARIABLE, serde_json::to_string(&asked)?)];
    finish(&Launch { argv, env, without: vec![CONFINE_VARIABLE] }, patience).map(drop)
}

/// Runs a program to its end and returns its last line. Anything but success is an error.
fn finish(launch: &Launch, patience: Duration) -> io::Result<String> {
    let mut child = LineProcess::start(launch, Path::new("/")).map_err(|failure| io::Error::other(failure.error))?;
    let mut last = String::new();
    loop {
        match child.hear(patience) {
            ProcessOutput::Gone(how) if how.contains("exit status: 0") => return Ok(last),
            ProcessOutput::Gone(how) | ProcessOutput::Unreadable(how) => return Err(io::Error::other(how)),
            ProcessOutput::Line(line) => last = line,
            ProcessOutput::Nothing => return Err(io::Error::other("it did not end")),
        }
    }
}

fn outcome(asked: &ProbeArgs, attempt: &Attempt) -> Outcome {
    match carry_out(asked, attempt) {
        Ok(detail) => Outcome { done: true, forbidden: false, absent: false, detail },
        Err(error) => {
            let errno = Errno::from_io_error(&error);
            // A forbidden move or link fails like one to another file system.
            let forbidden = [Errno::ACCESS, Errno::PERM, Errno::XDEV, Errno::ROFS].map(Some).contains(&errno);
            let absent = [Errno::NOENT, Errno::SRCH, Errno::NOTDIR, Errno::NXIO].map(Some).contains(&errno);
            let detail = match attempt {
                // A program's output is not passed on.
                Attempt::Run(_) => "it failed".to_owned(),
                _ => error.to_string(),
            };
            Outcome { done: false, forbidden, absent, detail }
        }
    }
}

fn carry_out(asked: &ProbeArgs, attempt: &Attempt) -> io::Result<String> {
    match attempt {
        Attempt::Read(path) => read(path),
        Attempt::Write(path) => {
            OpenOptions::new().append(true).create(true).open(path).map(|_| "it can be written".to_owned())
        }
        Attempt::ReadByLink(link, target) => {
            remove(link);
            std::os::unix::fs::symlink(target, link)?;
            read(link)
        }
        Attempt::ReadByHardLink(link, target) => {
            remove(link);
            fs::hard_link(target, link)?;
            read(link)
        }
        Attempt::Take(here, there) => fs::rename(there, here).map(|()| "it was moved".to_owned()),
        Attempt::Greet(socket, line) => greet(socket, line),
        Attempt::Ask(address, text) if address.starts_with('/') => {
            let stream = UnixStream::connect(address)?;
            stream.set_read_timeout(Some(ANSWER))?;
            ask(stream, text)
        }
        Attempt::Ask(address, text) => {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(ANSWER))?;
            ask(stream, text)
        }
        Attempt::Connect(address) => connect(address),
        Attempt::Signal(pid) => {
            let pid = rustix::process::Pid::from_raw(*pid).ok_or(io::ErrorKind::InvalidInput)?;
            rustix::process::test_kill_process(pid)?;
            Ok("it can be signalled".to_owned())
        }
        Attempt::Limit(pid) => {
            use rustix::process::{Pid, Resource, Rlimit, prlimit};
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            prlimit(Some(Pid::from_raw(*pid).ok_or(io::ErrorKind::InvalidInput)?), Resource::Core, none)?;
            Ok("it has another limit".to_owned())
        }
        Attempt::Mode(path, mode) => {
            fs::set_permissions(path, fs::Permissions::from_mode(*mode)).map(|()| "it was changed".to_owned())
        }
        Attempt::Create(path, mode) => {
            remove(path);
            OpenOptions::new().write(true).create_new(true).mode(*mode).open(path).map(|_| "it was made".to_owned())
        }
        Attempt::Environments(text) => environments(text),
        Attempt::Rights => rights(),
        Attempt::Node(path) => odd::node(path).map(|()| "it was made".to_owned()),
        Attempt::Namespace => odd::namespace().map(|()| "it was made".to_owned()),
        Attempt::Run(argv) => finish(&Launch { argv: argv.clone(), env: Vec::new(), without: Vec::new() }, PROGRAM),
        Attempt::Fork(count) => fork(*count),
        Attempt::Fill(bytes) => fill(asked, *bytes),
        Attempt::Put(path, text) => put(path, text),
        Attempt::Leave(path, what) => odd::leave(path, what).map(|()| "it is there".to_owned()),
        Attempt::Swap(path, target, times) => swap(path, target, *times),
        Attempt::Many(path, count, text) => {
            for number in 0..*count {
                put(&path.with_file_name(format!("{}{number}.json", name_of(path))), text)?;
            }
            Ok(format!("{count} files are there"))
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    if path.is_dir() {
        return fs::read_dir(path).map(|entries| format!("{} entries", entries.count()));
    }
    let mut bytes = [0_u8; 256];
    let count = fs::File::open(path)?.read(&mut bytes)?;
    Ok(format!("{count} bytes were read"))
}

/// An earlier attempt may have left it.
fn remove(path: &Path) {
    drop(fs::remove_file(path));
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn greet(socket: &Path, line: &str) -> io::Result<String> {
    let mut stream = match socket.to_str().and_then(|name| name.strip_prefix('@')) {
        Some(name) => odd::connect(name)?,
        None => UnixStream::connect(socket)?,
    };
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream.take(4096)).read_line(&mut answer)?;
    Ok(answer.trim().to_owned())
}

fn ask(mut stream: impl io::Read + io::Write, text: &str) -> io::Result<String> {
    stream.write_all(text.as_bytes())?;
    let mut answer = Vec::new();
    // An answer that breaks off is one, too.
    drop(stream.take(ANSWER_MAX).read_to_end(&mut answer));
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn connect(address: &str) -> io::Result<String> {
    let address = address.parse().map_err(io::Error::other)?;
    TcpStream::connect_timeout(&address, ANSWER).map(|_| "a server answered".to_owned())
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Skips its own processes, whose environments contain the text as part of the request.
fn environments(text: &str) -> io::Result<String> {
    let own = [std::process::id(), std::os::unix::process::parent_id()].map(|id| id.to_string());
    let mut unread = None;
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if own.contains(&name) || !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        match fs::read(entry.path().join("environ")) {
            // The init of its own container has the request, too.
            Ok(found) if has(&found, PROBE_VARIABLE) => {}
            Ok(found) if has(&found, text) => {
                return Ok(format!("process {name} has it"));
            }
            Ok(_) => {}
            Err(error) => unread = Some(error),
        }
    }
    Err(unread.unwrap_or_else(|| Errno::SRCH.into()))
}

/// Returns existing capabilities as success, and none as a refusal.
fn rights() -> io::Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.map(str::trim).unwrap_or_default().to_owned()
    };
    let capable =
        ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"].into_iter().find(|key| value(key).bytes().any(|c| c != b'0'));
    match (capable, value("NoNewPrivs:").as_str()) {
        (Some(key), _) => Ok(format!("{key} {}", value(key))),
        (None, "1") => Err(Errno::PERM.into()),
        (None, other) => Ok(format!("NoNewPrivs: {other}")),
    }
}

fn fork(count: u32) -> io::Result<String> {
    let launch = Launch { argv: vec!["sleep".to_owned(), "60".to_owned()], env: Vec::new(), without: Vec::new() };
    let mut children = Vec::new();
    for number in 0..count {
        // Depending on the limit it fails in different ways; the result is that it cannot start.
        match LineProcess::start(&launch, Path::new("/")) {
            Ok(child) => children.push(child),
            Err(_) if number > 0 => return Err(Errno::PERM.into()),
            Err(failure) => return Err(io::Error::other(failure.error)),
        }
    }
    Ok(format!("it had {count} children"))
}

/// Delegated to a child, because a process over its limit is killed.
fn fill(asked: &ProbeArgs, bytes: u64) -> io::Result<String> {
    if asked.report.as_os_str() == NOWHERE {
        let mut held = Vec::new();
        for _ in 0..bytes >> 20 {
            held.push(vec![1_u8; 1 << 20]);
        }
        return Ok(format!("it had {} MiB", held.len()));
    }
    let alone = ProbeArgs { attempts: vec![Attempt::Fill(bytes)], report: NOWHERE.into(), ..asked.clone() };
    match leave_to_child(&alone, CHILD) {
        Ok(()) => Ok(format!("it had {} MiB", bytes >> 20)),
        // Killed by the system, or aborted because it got no more memory.
        Err(error) if ["signal: 9", "signal: 6"].iter().any(|end| error.to_string().contains(end)) => {
            Err(Errno::PERM.into())
        }
        Err(error) => Err(error),
    }
}

fn put(path: &Path, text: &str) -> io::Result<String> {
    let unseen = path.with_file_name(format!(".tmp-{}", name_of(path)));
    fs::write(&unseen, text)?;
    fs::rename(unseen, path).map(|()| "it is there".to_owned())
}

/// The host may repair the path in between; the next round continues from there.
fn swap(path: &Path, target: &Path, times: u32) -> io::Result<String> {
    let away = path.with_extension("away");
    let mut swapped = 0;
    for _ in 0..times {
        if fs::rename(path, &away).is_ok() && std::os::unix::fs::symlink(target, path).is_ok() {
            swapped += 1;
        }
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
            remove(path);
        }
        drop(fs::rename(&away, path));
    }
    Ok(format!("exchanged {swapped} times"))
}

/// Attempts that exist only on Linux.
#[cfg(target_os = "linux")]
mod odd {
    use std::fs;
    use std::io;
    use std::path::Path;

    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixStream};

    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

    use super::Odd;

    /// A node of `/dev/null` would be harmless, but is as forbidden as any other.
    pub(super) fn node(path: &Path) -> io::Result<()> {
        Ok(mknodat(CWD, path, FileType::CharacterDevice, Mode::RUSR, makedev(1, 3))?)
    }

    /// In a process with several threads the kernel reports this as impossible, which differs from forbidden.
    #[expect(deprecated, reason = "other flags than this one let threads lose what they share")]
    pub(super) fn namespace() -> io::Result<()> {
        Ok(rustix::thread::unshare(rustix::thread::UnshareFlags::NEWUSER)?)
    }

    pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
    }

    pub(super) fn leave(path: &Path, what: &Odd) -> io::Result<()> {
        match what {
            Odd::Link(target) => std::os::unix::fs::symlink(target, path),
            Odd::Name => {
                let other = path.with_extension("other");
                fs::write(&other, "{}")?;
                fs::hard_link(other, path)
            }
            Odd::Pipe => Ok(mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?),
            Odd::Sparse(bytes) => fs::File::create(path)?.set_len(*bytes),
            Odd::Deep(levels) => {
                let mut place = path.to_owned();
                for _ in 0..*levels {
                    place.push("d");
                }
                fs::create_dir_all(place)
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod odd {
    use std::io;
    use std::path::Path;

    use std::os::unix::net::UnixStream;

    use super::Odd;

    pub(super) fn connect(_: &str) -> io::Result<UnixStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn node(_: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn namespace() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn leave(_: &Path, _: &Odd) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
