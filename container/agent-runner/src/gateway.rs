//! The way to the model gateway for an agent in a network of its own: a loopback port, whose connections are copied to
//! the gateway's Unix socket.
//!
//! The thread is started after confinement and has no more rights than the agent, which could connect to the socket
//! itself: what counts there is the placeholder. While the daemon is being restarted, programs wait here instead of
//! failing.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;

use crate::clock::Stopwatch;
use crate::log;

/// Maximum number of connections. Further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 256;
/// Bytes that are read before they are written.
const BUFFER: usize = 32 << 10;
/// How long a program waits for the daemon.
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two attempts to connect.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Longest path of a socket.
const PATH_MAX: usize = 100;

static ADDRESSES: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// What the host says about the gateway.
#[derive(Debug, Deserialize)]
struct Gateway {
    /// Path of the socket.
    socket: PathBuf,
    /// Variables, and the paths that they lead to.
    addresses: BTreeMap<String, String>,
}

/// Listens, and starts the thread that copies. From then on [`addresses`] returns the variables.
pub(crate) fn start(asked: &str) -> io::Result<()> {
    let gateway: Gateway = serde_json::from_str(asked)?;
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let socket = gateway.socket;
    std::thread::Builder::new().name("gateway".to_owned()).spawn(move || {
        let error = serve(&listener, &socket, PATIENCE);
        log::note(format_args!("the model gateway is out of reach: {error}"));
    })?;
    let addresses = gateway.addresses.into_iter();
    let addresses = addresses.map(|(name, path)| (name, format!("http://127.0.0.1:{port}{path}"))).collect();
    ADDRESSES.get_or_init(|| addresses);
    Ok(())
}

/// The variables with the gateway's addresses, for every program that the runner starts.
pub(crate) fn addresses() -> impl Iterator<Item = (&'static str, String)> {
    ADDRESSES.get().into_iter().flatten().map(|(name, address)| (name.as_str(), address.clone()))
}

/// Bytes on their way in one direction.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    /// How many of them are written.
    written: usize,
    /// The source has ended.
    ended: bool,
    /// The target was told so.
    shut: bool,
}

impl Pipe {
    fn is_empty(&self) -> bool {
        self.written >= self.bytes.len()
    }

    /// Copies what is there, as long as neither side blocks.
    fn copy(&mut self, from: &mut impl Read, to: &mut impl Write, shut: impl Fn() -> io::Result<()>) -> io::Result<()> {
        loop {
            if self.is_empty() && !self.ended {
                self.bytes.resize(BUFFER, 0);
                let read = from.read(&mut self.bytes);
                self.bytes.truncate(*read.as_ref().unwrap_or(&0));
                self.written = 0;
                match read {
                    Ok(bytes) => self.ended = bytes == 0,
                    Err(error) => return unless_blocked(error),
                }
            }
            if self.is_empty() {
                if !self.shut {
                    self.shut = true;
                    // The target may be gone already.
                    drop(shut());
                }
                return Ok(());
            }
            match to.write(self.bytes.get(self.written..).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.written = self.written.saturating_add(bytes),
                Err(error) => return unless_blocked(error),
            }
        }
    }
}

fn unless_blocked(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

/// A connection of a program.
struct Connection {
    program: TcpStream,
    /// `None` while the daemon does not answer.
    gateway: Option<UnixStream>,
    since: Stopwatch,
    up: Pipe,
    down: Pipe,
}

impl Connection {
    fn new(program: TcpStream) -> io::Result<Self> {
        program.set_nonblocking(true)?;
        program.set_nodelay(true)?;
        Ok(Self { program, gateway: None, since: Stopwatch::start(), up: Pipe::default(), down: Pipe::default() })
    }

    /// Goes on as far as it can. Returns whether the connection stays.
    fn go_on(&mut self, socket: &Path, patience: Duration) -> bool {
        if self.gateway.is_none() {
            self.gateway = connect(socket).ok();
        }
        let Some(gateway) = &mut self.gateway else { return self.since.elapsed() < patience };
        let (program, gateway): (&TcpStream, &UnixStream) = (&self.program, gateway);
        let up = self.up.copy(&mut &*program, &mut &*gateway, || gateway.shutdown(Shutdown::Write));
        let down = self.down.copy(&mut &*gateway, &mut &*program, || program.shutdown(Shutdown::Write));
        // When the gateway has ended, nothing that the program says can be answered.
        up.is_ok() && down.is_ok() && !(self.down.ended && self.down.is_empty())
    }

    fn of_program(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.gateway.is_some() && self.up.is_empty() && !self.up.ended);
        flags.set(PollFlags::OUT, !self.down.is_empty());
        flags
    }

    fn of_gateway(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.down.is_empty() && !self.down.ended);
        flags.set(PollFlags::OUT, !self.up.is_empty());
        flags
    }
}

/// Copies until listening fails.
fn serve(listener: &TcpListener, socket: &Path, patience: Duration) -> io::Error {
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        if let Err(error) = wait(listener, &connections) {
            return error;
        }
        while connections.len() < CONNECTIONS_MAX {
            match listener.accept().and_then(|(program, _)| Connection::new(program)) {
                Ok(connection) => connections.push(connection),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // A program that is gone already, or a lack of descriptors, which passes.
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(10));
                    break;
                }
            }
        }
        connections.retain_mut(|connection| connection.go_on(socket, patience));
    }
}

/// Waits until something can go on.
fn wait(listener: &TcpListener, connections: &[Connection]) -> io::Result<()> {
    let mut all = Vec::with_capacity(1 + 2 * connections.len());
    if connections.len() < CONNECTIONS_MAX {
        all.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
    }
    for connection in connections {
        // A descriptor without a flag would still report that its other side is gone, again and again.
        let mut add = |fd, flags: PollFlags| {
            if !flags.is_empty() {
                all.push(PollFd::from_borrowed_fd(fd, flags));
            }
        };
        add(connection.program.as_fd(), connection.of_program());
        if let Some(gateway) = &connection.gateway {
            add(gateway.as_fd(), connection.of_gateway());
        }
    }
    let waits = connections.iter().any(|connection| connection.gateway.is_none());
    match poll(&mut all, waits.then_some(&AGAIN)) {
        Err(rustix::io::Errno::INTR) => Ok(()),
        polled => Ok(polled.map(drop)?),
    }
}

/// Connects to a socket whose path may be longer than an address can be.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = match (socket.parent(), socket.file_name()) {
        (Some(directory), Some(name)) if socket.as_os_str().len() > PATH_MAX => {
            use std::os::fd::AsRawFd as _;
            use std::os::unix::fs::OpenOptionsExt as _;
            let flags = i32::try_from((rustix::fs::OFlags::DIRECTORY).bits()).unwrap_or_default();
            let directory = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(directory)?;
            UnixStream::connect(Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name))?
        }
        _ => UnixStream::connect(socket)?,
    };
    stream.set_nonblocking(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn forwarded(socket: &Path, patience: Duration) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let socket = socket.to_owned();
        std::thread::spawn(move || serve(&listener, &socket, patience));
        port
    }

    /// Answers each connection with what it said, when it has said all.
    fn echo(listener: UnixListener) {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut all = Vec::new();
                    stream.read_to_end(&mut all).unwrap();
                    stream.write_all(&all).unwrap();
                });
            }
        });
    }

    fn said_back(port: u16, text: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(text).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    }

    #[test]
    fn bytes_go_both_ways_also_by_a_long_path() {
        let directory = tempfile::tempdir().unwrap();
        let long = directory.path().join("x".repeat(120));
        std::fs::create_dir(&long).unwrap();
        // Bound by another name of the same directory.
        let short = directory.path().join("s");
        std::os::unix::fs::symlink(&long, &short).unwrap();
        echo(UnixListener::bind(short.join("model.sock")).unwrap());
        let port = forwarded(&long.join("model.sock"), PATIENCE);
        let text: Vec<u8> = (0..=255_u8).cycle().take(3_000_000).collect();
        assert_eq!(said_back(port, &text), text);
        let asking: Vec<_> = (0..50_u8)
            .map(|number| {
                std::thread::spawn(move || assert_eq!(said_back(port, &[number; 100_000]), [number; 100_000]))
            })
            .collect();
        asking.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn a_program_waits_for_the_daemon_but_not_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("model.sock");
        let port = forwarded(&socket, PATIENCE);
        let asking = std::thread::spawn(move || said_back(port, b"hello"));
        std::thread::sleep(Duration::from_millis(120));
        echo(UnixListener::bind(&socket).unwrap());
        assert_eq!(asking.join().unwrap(), b"hello");
        let port = forwarded(&directory.path().join("nobody.sock"), Duration::from_millis(120));
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
    }

    /// An answer that broke off must not look whole, and the next connection reaches the next daemon.
    #[test]
    fn a_daemon_that_dies_ends_the_connection() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("model.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let port = forwarded(&socket, PATIENCE);
        let mut program = TcpStream::connect(("127.0.0.1", port)).unwrap();
        program.write_all(b"ask").unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"half").unwrap();
        let mut half = [0; 4];
        program.read_exact(&mut half).unwrap();
        drop((stream, listener));
        assert_eq!((&half, program.read(&mut [0; 1]).unwrap_or(0)), (b"half", 0));
        std::fs::remove_file(&socket).unwrap();
        echo(UnixListener::bind(&socket).unwrap());
        assert_eq!(said_back(port, b"again"), b"again");
    }
}
