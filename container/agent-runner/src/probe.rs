//! What a self-test lets a confined process try: the host says what, and alone knows what should come of it.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::child::{Heard, Launch, LineProcess};
use crate::confine::CONFINE_VARIABLE;
use crate::log;

/// [`Asked`], as JSON.
pub const PROBE_VARIABLE: &str = "HEARTH_PROBE";

/// Where a child that has nothing to tell reports.
const NOWHERE: &str = "/dev/null";

/// How long a socket may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a program may take, and a child for everything; a busy machine takes its time.
const PROGRAM: Duration = Duration::from_secs(20);
const CHILD: Duration = Duration::from_secs(180);

/// What is to be tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// One after the other.
    pub attempts: Vec<Attempt>,
    /// Where the outcomes go, as JSON; they are in the order of the attempts.
    pub report: PathBuf,
    /// Arguments that make this program the runner.
    pub arguments: Vec<String>,
    /// Who tries.
    pub who: Who,
}

/// Who makes the attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Who {
    /// The process that was started.
    Itself,
    /// A child of it.
    Child,
}

/// Something to try. What succeeds stays done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attempt {
    /// Reads a file, or lists a directory.
    Read(PathBuf),
    /// Opens a file for writing, without changing what is in it; makes it if it is not there.
    Write(PathBuf),
    /// Makes a symbolic link at the first path and reads what it leads to, the second one.
    ReadByLink(PathBuf, PathBuf),
    /// Makes a hard link at the first path to the second one and reads it.
    ReadByHardLink(PathBuf, PathBuf),
    /// Moves the second path to the first.
    Take(PathBuf, PathBuf),
    /// Connects to a Unix socket, says the line and tells what is answered. A name that begins with `@` is abstract.
    Greet(PathBuf, String),
    /// Connects to an address of a network, `host:port`.
    Connect(String),
    /// Asks whether a process could be signalled.
    Signal(i32),
    /// Looks for a text in the environments of all processes that it can see.
    Environments(String),
    /// Looks whether it has a capability, or could get one by a program with the setuid bit.
    Rights,
    /// Makes a device node.
    Node(PathBuf),
    /// Makes a user namespace.
    Namespace,
    /// Runs a program to its end.
    Run(Vec<String>),
    /// Has so many children at once.
    Fork(u32),
    /// Uses so many bytes of memory, in a process of its own.
    Fill(u64),
    /// Puts a file in place, whole from its first moment on.
    Put(PathBuf, String),
    /// Leaves something that is no ordinary file.
    Leave(PathBuf, Odd),
    /// Puts a link to the second path in the place of the first one and takes it away again, so many times.
    Swap(PathBuf, PathBuf, u32),
    /// Puts as many files with this text in place; the path is completed by a number and `.json`.
    Many(PathBuf, u32, String),
}

/// What is no ordinary file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Odd {
    /// A symbolic link to there.
    Link(PathBuf),
    /// Another name of an own file.
    Name,
    /// A pipe without anybody at its other end.
    Pipe,
    /// A file of so many bytes that takes no room.
    Sparse(u64),
    /// Directories within each other.
    Deep(u32),
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it succeeded.
    pub done: bool,
    /// Whether it was forbidden, as opposed to impossible.
    pub forbidden: bool,
    /// Whether there was nothing to try it with or on: no such file, no such process, nobody who listens.
    pub absent: bool,
    /// The system's words, or what was answered; never what a file holds.
    pub detail: String,
}

/// Tries and writes the report.
pub(crate) fn main(asked: &str) -> ExitCode {
    let tried = serde_json::from_str(asked).map_err(io::Error::other).and_then(|asked: Asked| match asked.who {
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

/// The child is not told any rules: whatever holds it was inherited.
fn leave_to_child(asked: &Asked, patience: Duration) -> io::Result<()> {
    let asked = Asked { who: Who::Itself, ..asked.clone() };
    let mut argv = vec!["/proc/self/exe".to_owned()];
    argv.extend_from_slice(&asked.arguments);
    let env = vec![(PROBE_VARIABLE, serde_json::to_string(&asked)?)];
    finish(&Launch { argv, env, without: vec![CONFINE_VARIABLE] }, patience).map(drop)
}

/// Runs a program to its end; its last line. Anything but success is an error.
fn finish(launch: &Launch, patience: Duration) -> io::Result<String> {
    let mut child = LineProcess::start(launch, Path::new("/")).map_err(io::Error::other)?;
    let mut last = String::new();
    loop {
        match child.hear(patience) {
            Heard::Gone(how) if how.contains("exit status: 0") => return Ok(last),
            Heard::Gone(how) => return Err(io::Error::other(how)),
            Heard::Line(line) => last = line,
            Heard::Nothing => return Err(io::Error::other("it did not end")),
        }
    }
}

fn outcome(asked: &Asked, attempt: &Attempt) -> Outcome {
    match carry_out(asked, attempt) {
        Ok(detail) => Outcome { done: true, forbidden: false, absent: false, detail },
        Err(error) => {
            let errno = Errno::from_io_error(&error);
            // A move or a link out of where it is allowed is refused as if it were to another file system.
            let forbidden = [Errno::ACCESS, Errno::PERM, Errno::XDEV, Errno::ROFS].map(Some).contains(&errno);
            let absent = [Errno::NOENT, Errno::SRCH, Errno::NOTDIR, Errno::NXIO].map(Some).contains(&errno);
            let detail = match attempt {
                // What it prints is not ours to pass on.
                Attempt::Run(_) => "it failed".to_owned(),
                _ => error.to_string(),
            };
            Outcome { done: false, forbidden, absent, detail }
        }
    }
}

fn carry_out(asked: &Asked, attempt: &Attempt) -> io::Result<String> {
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
        Attempt::Connect(address) => connect(address),
        Attempt::Signal(pid) => {
            let pid = rustix::process::Pid::from_raw(*pid).ok_or(io::ErrorKind::InvalidInput)?;
            rustix::process::test_kill_process(pid)?;
            Ok("it can be signalled".to_owned())
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

/// An earlier try may have left it.
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

fn connect(address: &str) -> io::Result<String> {
    let address = address.parse().map_err(io::Error::other)?;
    TcpStream::connect_timeout(&address, ANSWER).map(|_| "somebody answered".to_owned())
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// Its own has the text, too, since it was told to look for it.
fn environments(text: &str) -> io::Result<String> {
    let own = [std::process::id(), std::os::unix::process::parent_id()].map(|id| id.to_string());
    let mut unread = None;
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if own.contains(&name) || !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        match fs::read(entry.path().join("environ")) {
            // The init of its own container was told what to look for, too.
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

/// Says what it has as success, and a refusal if that is nothing.
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
        // What it says is that it cannot start, in whichever way the limit showed.
        match LineProcess::start(&launch, Path::new("/")) {
            Ok(child) => children.push(child),
            Err(_) if number > 0 => return Err(Errno::PERM.into()),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(format!("it had {count} children"))
}

/// Whoever uses too much is killed, so that is left to a child.
fn fill(asked: &Asked, bytes: u64) -> io::Result<String> {
    if asked.report.as_os_str() == NOWHERE {
        let mut held = Vec::new();
        for _ in 0..bytes >> 20 {
            held.push(vec![1_u8; 1 << 20]);
        }
        return Ok(format!("it had {} MiB", held.len()));
    }
    let alone = Asked { attempts: vec![Attempt::Fill(bytes)], report: NOWHERE.into(), ..asked.clone() };
    match leave_to_child(&alone, CHILD) {
        Ok(()) => Ok(format!("it had {} MiB", bytes >> 20)),
        Err(error) if error.to_string().contains("signal: 9") => Err(Errno::PERM.into()),
        Err(error) => Err(error),
    }
}

fn put(path: &Path, text: &str) -> io::Result<String> {
    let unseen = path.with_file_name(format!(".tmp-{}", name_of(path)));
    fs::write(&unseen, text)?;
    fs::rename(unseen, path).map(|()| "it is there".to_owned())
}

/// The host may mend what it sees in between; the next round begins with what is there then.
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

/// What only Linux is asked for.
#[cfg(target_os = "linux")]
mod odd {
    use std::fs;
    use std::io;
    use std::path::Path;

    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixStream};

    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

    use super::Odd;

    /// The one of `/dev/null` would be harmless, and is as forbidden as any other.
    pub(super) fn node(path: &Path) -> io::Result<()> {
        Ok(mknodat(CWD, path, FileType::CharacterDevice, Mode::RUSR, makedev(1, 3))?)
    }

    /// For this process; where it has several threads the kernel says that this is impossible, which is not forbidden.
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
