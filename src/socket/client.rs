//! Client side of the socket. Blocking, because a command does one thing at a time.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::command::{Answer, ClientCommand, RequestRefused};
use super::protocol::{LINE_MAX, Request, Response, VERSION};
use crate::config::Paths;

/// Time limit for the daemon's answer to the greeting.
const GREETING: Duration = Duration::from_secs(10);

/// Why a request to the daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No daemon listens on the socket.
    #[error("no daemon is running for {data}: start one with `hearth run` or `hearth up`")]
    NotRunning {
        /// The data directory.
        data: PathBuf,
    },
    /// The token cannot be read.
    #[error("the token {path} cannot be read: {source}; only the user who runs the daemon can talk to it")]
    Token {
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the connection to the daemon broke: {0}")]
    Broken(std::io::Error),
    /// The daemon listens but does not answer.
    #[error("the daemon does not answer: read its log, and restart it if it hangs")]
    Silent,
    /// A process holds the lock of the data directory but cannot be reached.
    #[error(
        "the daemon (process {pid}) does not answer: it is starting, hangs, or lost its directory `run/`, which it \
         recreates within seconds; retry and read its log; if it still does not answer, end it with `kill -9 {pid}` \
         and start it again: nothing is lost"
    )]
    Unreachable {
        /// The process that holds the lock of the data directory.
        pid: i32,
    },
    /// The daemon closed the connection.
    #[error("the daemon closed the connection")]
    Closed,
    /// The daemon sent something that is not a line of the protocol.
    #[error("unknown answer from the daemon: {0}; it may be of another version")]
    Strange(String),
    /// The daemon refused the request.
    #[error("{}", .0.message)]
    Refused(Box<RequestRefused>),
}

/// A connection to a daemon.
pub struct Client {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the daemon of a data directory and greets it.
    ///
    /// # Errors
    /// [`Error::NotRunning`] if there is none, else what went wrong.
    pub fn connect(paths: &Paths) -> Result<Self, Error> {
        let client = Self::connect_within(paths, GREETING)?;
        client.patience(None)?;
        Ok(client)
    }

    /// The same, with a limit on the time that the client waits for each line.
    ///
    /// # Errors
    ///
    /// As for [`Self::connect`].
    pub fn connect_within(paths: &Paths, time: Duration) -> Result<Self, Error> {
        let noted = std::fs::read(paths.socket_note()).ok().map(|path| PathBuf::from(OsString::from_vec(path)));
        let stream = noted.iter().chain(paths.sockets()).find_map(|socket| UnixStream::connect(socket).ok());
        let writer = stream.ok_or_else(|| Error::NotRunning { data: paths.data().to_owned() })?;
        let reader = BufReader::new(writer.try_clone().map_err(Error::Broken)?);
        let path = paths.token();
        let token = std::fs::read_to_string(&path).map_err(|source| Error::Token { path, source })?;
        let mut client = Self { writer, reader };
        client.patience(Some(time))?;
        match client.ask(&Request::Hello { v: VERSION, token }) {
            Ok(Response::Welcome { .. }) => {}
            Ok(other) => return Err(unexpected(other)),
            // It was leaving.
            Err(Error::Broken(_) | Error::Closed) => return Err(Error::NotRunning { data: paths.data().to_owned() }),
            Err(error) => return Err(error),
        }
        Ok(client)
    }

    fn patience(&self, time: Option<Duration>) -> Result<(), Error> {
        self.writer.set_read_timeout(time).map_err(Error::Broken)
    }

    /// Sends a line and waits for the next one.
    ///
    /// # Errors
    /// [`Error`] of the connection.
    pub fn ask(&mut self, request: &Request) -> Result<Response, Error> {
        self.send(request)?;
        self.next()
    }

    /// Submits a command and waits for its answer.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is refused, [`Error`] of the connection otherwise.
    pub fn submit(&mut self, command: ClientCommand) -> Result<Answer, Error> {
        self.answer(&Request::Submit { command })
    }

    /// Sends a request that ends in an answer.
    ///
    /// # Errors
    /// As for [`Self::submit`].
    pub fn answer(&mut self, request: &Request) -> Result<Answer, Error> {
        match self.ask(request)? {
            Response::Done { answer } => Ok(answer),
            other => Err(unexpected(other)),
        }
    }

    /// Sends a line.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn send(&mut self, request: &Request) -> Result<(), Error> {
        send(&mut self.writer, request)
    }

    /// Waits for the next line.
    ///
    /// # Errors
    /// [`Error::Closed`] at the end, [`Error`] of the connection otherwise.
    #[expect(clippy::should_implement_trait, reason = "it can fail and is not an iterator")]
    pub fn next(&mut self) -> Result<Response, Error> {
        let mut line = String::new();
        let limit = u64::try_from(LINE_MAX).unwrap_or(u64::MAX);
        let read = match self.reader.by_ref().take(limit).read_line(&mut line) {
            // This is how the connection of a daemon ends that died before it had read everything.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Err(Error::Silent),
            read => read.map_err(Error::Broken)?,
        };
        if read == 0 {
            return Err(Error::Closed);
        }
        serde_json::from_str(&line).map_err(|error| Error::Strange(error.to_string()))
    }

    /// A second handle for sending while this one waits for lines.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn sender(&self) -> Result<Sender, Error> {
        self.writer.try_clone().map(Sender).map_err(Error::Broken)
    }
}

/// Sends requests while another handle receives responses.
pub struct Sender(UnixStream);

impl Sender {
    /// Sends a line.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn send(&mut self, request: &Request) -> Result<(), Error> {
        send(&mut self.0, request)
    }

    /// Closes the connection. A reader that waits for lines sees the end of the stream.
    pub fn close(&self) {
        // An error means that the connection is already closed.
        drop(self.0.shutdown(std::net::Shutdown::Both));
    }
}

/// The error for a response that does not match the request.
#[must_use]
pub fn unexpected(response: Response) -> Error {
    match response {
        Response::Refused { refusal, .. } => Error::Refused(Box::new(refusal)),
        other => Error::Strange(format!("{other:?}")),
    }
}

fn send(stream: &mut UnixStream, request: &Request) -> Result<(), Error> {
    let mut line = serde_json::to_vec(request).map_err(|error| Error::Strange(error.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(Error::Broken)
}
