//! The connection to signal-cli: a program that the bridge starts, or a daemon that runs already.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::time::Duration;

use hearth_bridge::program::log;
use hearth_bridge::program::run::spawn;

/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest line in bytes; a file from a daemon is in one.
const LINE_BYTES: u64 = 32 << 20;
/// Longest line of the program's log.
const LOG_BYTES: u64 = 4096;
/// Requests that may wait to be written.
const REQUESTS: usize = 64;
/// How long the program's last words may take after its end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Where signal-cli is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// To be started, with a directory for its data.
    Program {
        program: String,
        directory: PathBuf,
        account: String,
    },
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// What ends a connection.
enum Handle {
    Child(Child),
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A connection, which threads read and write.
pub(super) struct Link {
    handle: Handle,
    /// Why it ended.
    ended: Receiver<String>,
    /// The last line of the program's log, when it has ended.
    words: Receiver<String>,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoLink {
    pub(super) why: String,
    /// It will not be there later either.
    pub(super) is_final: bool,
}

/// Receives each line. An error ends the connection.
pub(super) type Sink = Box<dyn FnMut(Vec<u8>) -> Result<(), String> + Send>;

/// A connection, before threads attend to it.
struct Opened {
    handle: Handle,
    read: Box<dyn Read + Send>,
    write: Box<dyn Write + Send>,
    words: Receiver<String>,
}

impl NoLink {
    fn passing(why: impl ToString) -> Self {
        Self { why: why.to_string(), is_final: false }
    }

    fn unreachable(place: &str, error: &io::Error) -> Self {
        Self::passing(format!("the daemon of signal-cli at {place} cannot be reached: {error}"))
    }
}

impl Link {
    /// Connects; also the way for requests.
    pub(super) fn open(place: &Place, sink: Sink) -> Result<(Self, SyncSender<Vec<u8>>), NoLink> {
        let opened = match place {
            Place::Program { program, directory, account } => of_program(start(program, directory, account)?),
            Place::Unix(path) => {
                let unreachable = |error: io::Error| NoLink::unreachable(&path.display().to_string(), &error);
                let socket = UnixStream::connect(path).map_err(unreachable)?;
                halves(socket.try_clone(), socket.try_clone(), Handle::Unix(socket))
            }
            Place::Tcp(address) => {
                let unreachable = |error: io::Error| NoLink::unreachable(&address.to_string(), &error);
                let socket = TcpStream::connect_timeout(address, CONNECT).map_err(unreachable)?;
                halves(socket.try_clone(), socket.try_clone(), Handle::Tcp(socket))
            }
        };
        let Opened { mut handle, read, write, words } = opened?;
        match attend(read, write, sink) {
            Ok((ended, out)) => Ok((Self { handle, ended, words }, out)),
            Err(error) => {
                handle.close();
                Err(NoLink::passing(error))
            }
        }
    }

    /// Waits for the end; none if it does not come in time.
    pub(super) fn ended(&self, within: Duration) -> Option<String> {
        match self.ended.recv_timeout(within) {
            Ok(why) => Some(why),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some("its reader ended".to_owned()),
        }
    }

    /// Ends it; what is known about its end.
    pub(super) fn close(mut self, why: String) -> String {
        let how = self.handle.close();
        let words = self.words.recv_timeout(LAST_WORDS).unwrap_or_default();
        let all = [why, how, words];
        let all: Vec<&str> = all.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        all.join(": ")
    }
}

impl Handle {
    /// Ends a process, and says how it ended; nothing of a connection.
    fn close(&mut self) -> String {
        match self {
            Self::Child(child) => {
                let ended = child.try_wait().ok().flatten();
                // It may have ended.
                drop(child.kill());
                drop(child.wait());
                ended.map(|status| status.to_string()).unwrap_or_default()
            }
            Self::Unix(socket) => {
                drop(socket.shutdown(std::net::Shutdown::Both));
                String::new()
            }
            Self::Tcp(socket) => {
                drop(socket.shutdown(std::net::Shutdown::Both));
                String::new()
            }
        }
    }
}

fn of_program(mut child: Child) -> Result<Opened, NoLink> {
    let (told, words) = channel();
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(NoLink::passing("signal-cli has no pipes"));
    };
    // Without its receiver its words are only logged.
    spawn("signal-cli log", move || drop(told.send(log_of(stderr)))).map_err(NoLink::passing)?;
    Ok(Opened { handle: Handle::Child(child), read: Box::new(stdout), write: Box::new(stdin), words })
}

fn halves<S: Read + Write + Send + 'static>(
    read: io::Result<S>,
    write: io::Result<S>,
    handle: Handle,
) -> Result<Opened, NoLink> {
    let (read, write) = (read.map_err(NoLink::passing)?, write.map_err(NoLink::passing)?);
    // A daemon's log is not here.
    let (_, words) = channel();
    Ok(Opened { handle, read: Box::new(read), write: Box::new(write), words })
}

#[expect(clippy::disallowed_methods, reason = "signal-cli, whose end is waited for")]
fn start(program: &str, directory: &std::path::Path, account: &str) -> Result<Child, NoLink> {
    let mut command = Command::new(program);
    command.arg("--config").arg(directory).args([
        "-a",
        account,
        "jsonRpc",
        "--receive-mode=manual",
        "--ignore-stories",
    ]);
    command.env_remove("HEARTH_BRIDGE_FD").env_remove("HEARTH_BRIDGE_PROTOCOL");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied => NoLink {
            why: format!(
                "`{program}` cannot be started: {error}; install signal-cli, and name it in `command` after `signal`"
            ),
            is_final: true,
        },
        _ => NoLink { why: format!("`{program}` cannot be started: {error}"), is_final: false },
    })
}

/// Starts the threads of a connection.
fn attend(
    read: Box<dyn Read + Send>,
    mut write: Box<dyn Write + Send>,
    mut sink: Sink,
) -> io::Result<(Receiver<String>, SyncSender<Vec<u8>>)> {
    let (end, ended) = channel();
    let (out, lines) = sync_channel::<Vec<u8>>(REQUESTS);
    spawn("requests", move || {
        while let Ok(line) = lines.recv() {
            // The reader notices the end, too.
            if write.write_all(&line).and_then(|()| write.flush()).is_err() {
                return;
            }
        }
    })?;
    spawn("signal-cli", move || {
        let mut read = BufReader::new(read);
        let why = loop {
            match next(&mut read, LINE_BYTES) {
                Ok(Some(line)) => {
                    if let Err(why) = sink(line) {
                        break why;
                    }
                }
                Ok(None) => break "signal-cli ended".to_owned(),
                Err(error) => break format!("signal-cli cannot be read: {error}"),
            }
        };
        // Who waits for it may be gone.
        drop(end.send(why));
    })?;
    Ok((ended, out))
}

/// The next line without its end; none at the end. One that was cut short is no line.
fn next(read: &mut impl io::BufRead, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let count = read.take(most).read_until(b'\n', &mut line)?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Some(line));
    }
    if count as u64 == most { Err(io::Error::other(format!("a line has more than {most} bytes"))) } else { Ok(None) }
}

/// Passes on the log of the program until its end; its last line.
fn log_of(stderr: impl Read) -> String {
    let (mut read, mut last) = (BufReader::new(stderr), String::new());
    loop {
        let mut line = Vec::new();
        match (&mut read).take(LOG_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return last,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim();
                if !text.is_empty() {
                    log(&format!("signal-cli: {text}"));
                    last = text.chars().filter(|char| !char.is_control()).take(300).collect();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_of_a_bounded_length_are_read() {
        let mut text: &[u8] = b"one\n\ntwo\ncut";
        let mut lines = Vec::new();
        while let Some(line) = next(&mut text, 9).unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["one", "", "two"]);
        assert!(next(&mut &b"0123456789\n"[..], 9).is_err());
    }

    #[test]
    fn a_program_that_is_not_there_is_told() {
        let place = Place::Program {
            program: "/no/such/program".to_owned(),
            directory: PathBuf::from("d"),
            account: "+1".to_owned(),
        };
        let failed = Link::open(&place, Box::new(|_| Ok(()))).err().unwrap();
        assert!(failed.is_final && failed.why.contains("install signal-cli"), "{failed:?}");
    }
}
