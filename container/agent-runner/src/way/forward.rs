//! Forwards connections of an agent's programs to Unix sockets of the daemon. One thread, which waits with `poll`.
//!
//! The thread has no more rights than the agent, which could connect to the sockets itself. While the daemon is being
//! restarted, programs wait here instead of failing.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::copy::{BUFFER, Pipe};
use super::dns;
use super::names::Names;
use super::opening::{Opening, Progress};
use crate::clock::Stopwatch;

/// Maximum number of connections. Further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 256;
/// How long a program waits for the daemon.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two attempts to connect.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Longest path of a socket.
const PATH_MAX: usize = 100;
/// Longest query of DNS that is read.
const QUERY_MAX: usize = 4096;
/// Queries that are answered before connections go on.
const QUERIES_AT_ONCE: usize = 64;
/// The answer to a request to the proxy that the daemon did not answer.
pub(super) const UNANSWERED: &[u8] = b"HTTP/1.1 502 No Answer\r\ncontent-type: text/plain; charset=utf-8\r\n\
    content-length: 71\r\nx-hearth-gate: refused\r\nconnection: close\r\n\r\n\
    No answer came: Hearth was stopped, or the host closed the connection.\n";

/// What happens to connections of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Their bytes go to the socket as they are.
    Plain,
    /// Bytes pass unchanged. A request that gets no byte of an answer gets an HTTP error.
    Proxy,
    /// The socket is asked for a connection to the name that the address stands for, before bytes are copied.
    ByName,
}

/// Where programs connect.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) listener: TcpListener,
    pub(crate) kind: Kind,
}

/// Forwards connections to one socket.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(crate) entries: Vec<Entry>,
    /// Where names are looked up.
    pub(crate) resolver: Option<UdpSocket>,
    pub(crate) socket: PathBuf,
    pub(crate) patience: Duration,
}

/// A connection of a program.
struct Connection {
    program: TcpStream,
    /// `None` while the daemon does not answer.
    daemon: Option<UnixStream>,
    since: Stopwatch,
    /// What the program gets if its request gets no answer.
    unanswered: Option<&'static [u8]>,
    /// The request that precedes the program's bytes, until it is answered.
    opening: Option<Opening>,
    up: Pipe,
    down: Pipe,
}

impl Connection {
    fn new(program: TcpStream, kind: Kind, opening: Option<Opening>) -> io::Result<Self> {
        program.set_nonblocking(true)?;
        program.set_nodelay(true)?;
        let (since, up, down) = (Stopwatch::start(), Pipe::default(), Pipe::default());
        let unanswered = (kind == Kind::Proxy).then_some(UNANSWERED);
        Ok(Self { program, daemon: None, since, unanswered, opening, up, down })
    }

    /// Goes on as far as it can. Returns whether the connection stays.
    fn go_on(&mut self, socket: &Path, patience: Duration, buffer: &mut [u8]) -> bool {
        if self.daemon.is_none() {
            self.daemon = connect(socket).ok();
        }
        let Some(daemon) = &self.daemon else {
            let waits = self.since.elapsed() < patience;
            if !waits && let Some(words) = self.unanswered {
                // A program that has sent nothing needs no answer, and one that is gone gets none.
                let asked = (&self.program).read(buffer).is_ok_and(|read| read > 0);
                drop(asked.then(|| (&self.program).write(words)));
            }
            return waits;
        };
        if let Some(opening) = &mut self.opening {
            match opening.go_on(daemon, &self.program) {
                Progress::Waiting => return true,
                // The daemon was stopped before it answered. The next one is asked again.
                Progress::Broken => {
                    self.daemon = None;
                    opening.restart();
                    return self.since.elapsed() < patience;
                }
                Progress::Opened(first) => self.down = Pipe::beginning(first),
                Progress::Refused(words) => {
                    // Closing a socket with bytes that were not read resets the connection.
                    drop((&self.program).read(buffer));
                    // Nothing more is read from the program, and it gets these bytes.
                    self.down = Pipe::beginning(words);
                    self.down.ended = true;
                    self.up.ended = true;
                }
            }
            self.opening = None;
        }
        let (program, daemon): (&TcpStream, &UnixStream) = (&self.program, daemon);
        let up = self.up.copy(&mut &*program, &mut &*daemon, buffer, || daemon.shutdown(Shutdown::Write));
        if self.up.has_begun() && !self.down.has_begun() {
            self.unanswered.take().into_iter().for_each(|words| self.down.or_else(words));
        }
        let down = self.down.copy(&mut &*daemon, &mut &*program, buffer, || program.shutdown(Shutdown::Write));
        // When the daemon has ended, nothing that the program says can be answered.
        up.is_ok() && down.is_ok() && !self.down.is_over()
    }

    fn of_program(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        let copies = self.daemon.is_some() && self.opening.is_none();
        flags.set(PollFlags::IN, copies && self.up.is_empty() && !self.up.ended);
        flags.set(PollFlags::OUT, !self.down.is_empty());
        flags
    }

    fn of_daemon(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.down.is_empty() && !self.down.ended);
        flags.set(PollFlags::OUT, !self.up.is_empty() || self.opening.as_ref().is_some_and(Opening::is_unsent));
        flags
    }
}

/// What a descriptor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Entry(usize),
    Resolver,
    Connection(usize),
}

impl Forwarder {
    /// Forwards until waiting fails.
    pub(crate) fn run(self) -> io::Error {
        let mut connections: Vec<Connection> = Vec::new();
        let mut names = Names::default();
        let mut buffer = vec![0; BUFFER];
        loop {
            let ready = match self.wait(&connections) {
                Ok(ready) => ready,
                Err(error) => return error,
            };
            if ready.contains(&Owner::Resolver) {
                self.resolver.iter().for_each(|resolver| answer(resolver, &mut names));
            }
            let mut is_ready = vec![false; connections.len()];
            for owner in &ready {
                if let Owner::Connection(at) = owner
                    && let Some(is_ready) = is_ready.get_mut(*at)
                {
                    *is_ready = true;
                }
            }
            let mut at = 0_usize;
            connections.retain_mut(|connection| {
                let is_ready = is_ready.get(at).copied().unwrap_or(true);
                at = at.saturating_add(1);
                // Attempts to connect have their own pace.
                let goes_on = is_ready || connection.daemon.is_none();
                !goes_on || connection.go_on(&self.socket, self.patience, &mut buffer)
            });
            for owner in ready {
                if let Owner::Entry(at) = owner
                    && let Some(entry) = self.entries.get(at)
                {
                    self.accept(entry, &names, &mut connections, &mut buffer);
                }
            }
        }
    }

    fn accept(&self, entry: &Entry, names: &Names, connections: &mut Vec<Connection>, buffer: &mut [u8]) {
        while connections.len() < CONNECTIONS_MAX {
            let program = match entry.listener.accept() {
                Ok((program, _)) => program,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A program that is gone already, or a lack of descriptors, which passes.
                Err(_) => return std::thread::sleep(Duration::from_millis(10)),
            };
            let opening = match entry.kind {
                Kind::Plain | Kind::Proxy => None,
                Kind::ByName => match asked(&program, names) {
                    Some(opening) => Some(opening),
                    // An address that stands for no name: the connection is closed.
                    None => continue,
                },
            };
            let Ok(mut connection) = Connection::new(program, entry.kind, opening) else { continue };
            if connection.go_on(&self.socket, self.patience, buffer) {
                connections.push(connection);
            }
        }
    }

    /// Waits until something can go on, and returns what.
    fn wait(&self, connections: &[Connection]) -> io::Result<Vec<Owner>> {
        let mut owners = Vec::with_capacity(2 * connections.len() + self.entries.len() + 1);
        let mut all = Vec::with_capacity(owners.capacity());
        let mut add = |owner, fd, flags: PollFlags| {
            // A descriptor without a flag would still report that its other side is gone, again and again.
            if !flags.is_empty() {
                owners.push(owner);
                all.push(PollFd::from_borrowed_fd(fd, flags));
            }
        };
        if connections.len() < CONNECTIONS_MAX {
            let entries = self.entries.iter().enumerate();
            entries.for_each(|(at, entry)| add(Owner::Entry(at), entry.listener.as_fd(), PollFlags::IN));
        }
        self.resolver.iter().for_each(|resolver| add(Owner::Resolver, resolver.as_fd(), PollFlags::IN));
        for (at, connection) in connections.iter().enumerate() {
            add(Owner::Connection(at), connection.program.as_fd(), connection.of_program());
            if let Some(daemon) = &connection.daemon {
                add(Owner::Connection(at), daemon.as_fd(), connection.of_daemon());
            }
        }
        let waits = connections.iter().any(|connection| connection.daemon.is_none());
        match poll(&mut all, waits.then_some(&AGAIN)) {
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
            Ok(_) => {
                let ready = owners.iter().zip(&all).filter(|(_, fd)| !fd.revents().is_empty());
                Ok(ready.map(|(owner, _)| *owner).collect())
            }
        }
    }
}

/// What a connection to an address of a name asks for.
fn asked(program: &TcpStream, names: &Names) -> Option<Opening> {
    let SocketAddr::V4(local) = program.local_addr().ok()? else { return None };
    Some(Opening::new(names.name(*local.ip())?, local.port()))
}

/// Answers the queries that wait.
fn answer(resolver: &UdpSocket, names: &mut Names) {
    let mut query = [0; QUERY_MAX];
    for _ in 0..QUERIES_AT_ONCE {
        let Ok((length, from)) = resolver.recv_from(&mut query) else { return };
        let query = query.get(..length).unwrap_or_default();
        let answer = dns::answer(query, &mut |name| names.address(name));
        // A program that does not read its answers loses them, as anywhere.
        answer.into_iter().for_each(|answer| drop(resolver.send_to(&answer, from)));
    }
}

/// Listens on a port of all addresses that stand for names, or of the loopback address alone.
pub(super) fn listen(address: Ipv4Addr, port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((IpAddr::from(address), port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
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
