//! What a self-test lets a confined process try: the host says what, and alone knows what should come of it.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
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

/// How long a socket may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a child may take for everything.
const CHILD: Duration = Duration::from_secs(20);

/// What is to be tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// One after the other.
    pub attempts: Vec<Attempt>,
    /// Where the outcomes go, as JSON; they are in the order of the attempts.
    pub report: PathBuf,
    /// Arguments that make this program the runner, if a child of it is to try instead.
    pub child: Option<Vec<String>>,
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
    /// Connects to a Unix socket, says the line and tells what is answered.
    Greet(PathBuf, String),
    /// Asks whether a process could be signalled.
    Signal(i32),
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it succeeded.
    pub done: bool,
    /// Whether it was forbidden, as opposed to impossible.
    pub forbidden: bool,
    /// The system's words, or what was answered; never what a file holds.
    pub detail: String,
}

/// Tries and writes the report.
pub(crate) fn main(asked: &str) -> ExitCode {
    let tried = serde_json::from_str(asked).map_err(io::Error::other).and_then(|asked: Asked| match &asked.child {
        Some(arguments) => leave_to_child(&asked, arguments),
        None => {
            let outcomes: Vec<Outcome> = asked.attempts.iter().map(outcome).collect();
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
fn leave_to_child(asked: &Asked, arguments: &[String]) -> io::Result<()> {
    let asked = Asked { child: None, ..asked.clone() };
    let mut argv = vec!["/proc/self/exe".to_owned()];
    argv.extend_from_slice(arguments);
    let env = vec![(PROBE_VARIABLE, serde_json::to_string(&asked)?)];
    let launch = Launch { argv, env, without: vec![CONFINE_VARIABLE] };
    let mut child = LineProcess::start(&launch, Path::new("/")).map_err(io::Error::other)?;
    match child.hear(CHILD) {
        Heard::Gone(how) if how.contains("exit status: 0") => Ok(()),
        Heard::Gone(how) => Err(io::Error::other(format!("its child {how}"))),
        Heard::Line(_) | Heard::Nothing => Err(io::Error::other("its child did not end")),
    }
}

fn outcome(attempt: &Attempt) -> Outcome {
    match carry_out(attempt) {
        Ok(detail) => Outcome { done: true, forbidden: false, detail },
        Err(error) => {
            // A move or a link out of where it is allowed is refused as if it were to another file system.
            let forbidden = matches!(Errno::from_io_error(&error), Some(Errno::ACCESS | Errno::PERM | Errno::XDEV));
            Outcome { done: false, forbidden, detail: error.to_string() }
        }
    }
}

fn carry_out(attempt: &Attempt) -> io::Result<String> {
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
        Attempt::Signal(pid) => {
            let pid = rustix::process::Pid::from_raw(*pid).ok_or(io::ErrorKind::InvalidInput)?;
            rustix::process::test_kill_process(pid)?;
            Ok("it can be signalled".to_owned())
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

fn greet(socket: &Path, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream.take(4096)).read_line(&mut answer)?;
    Ok(answer.trim().to_owned())
}
