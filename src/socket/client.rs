//! The client's side: blocking, because a command does one thing at a time.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::protocol::{LINE_MAX, Request, Response, VERSION};
use crate::config::Paths;

/// Time a daemon has to greet.
const GREETING: Duration = Duration::from_secs(10);

/// Why a daemon cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens.
    #[error("no daemon is running for {data}: start one with `hearth run` or `hearth up`")]
    NotRunning {
        /// The data directory.
        data: PathBuf,
    },
    /// The token cannot be read.
    #[error("the token {path} cannot be read: {source}; only the user who runs the daemon can talk to it")]
    Token {
        /// Its file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the connection to the daemon broke: {0}")]
    Broken(std::io::Error),
    /// It listens and does not answer.
    #[error("the daemon does not answer: see its log, stop it if it hangs, and start it again")]
    Silent,
    /// The daemon closed the connection.
    #[error("the daemon closed the connection")]
    Closed,
    /// The daemon said something that is no line of the protocol.
    #[error("the daemon answered something unknown: {0}; is it of another version?")]
    Strange(String),
    /// The daemon did not do it.
    #[error("{message}")]
    Refused {
        /// A word for programs.
        code: String,
        /// What, where, what to do.
        message: String,
    },
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
        let noted = std::fs::read(paths.socket_note()).ok().map(|path| PathBuf::from(OsString::from_vec(path)));
        let stream = noted.iter().chain(paths.sockets()).find_map(|socket| UnixStream::connect(socket).ok());
        let writer = stream.ok_or_else(|| Error::NotRunning { data: paths.data().to_owned() })?;
        let reader = BufReader::new(writer.try_clone().map_err(Error::Broken)?);
        let path = paths.token();
        let token = std::fs::read_to_string(&path).map_err(|source| Error::Token { path, source })?;
        let mut client = Self { writer, reader };
        client.patience(Some(GREETING))?;
        match client.ask(&Request::Hello { v: VERSION, token }) {
            Ok(Response::Welcome { .. }) => {}
            Ok(other) => return Err(unexpected(other)),
            Err(Error::Broken(error)) if error.kind() == std::io::ErrorKind::WouldBlock => return Err(Error::Silent),
            // It was leaving.
            Err(Error::Broken(_) | Error::Closed) => return Err(Error::NotRunning { data: paths.data().to_owned() }),
            Err(error) => return Err(error),
        }
        client.patience(None)?;
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
            // So ends the connection of a daemon that died before it had read everything.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
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

/// Sends while somebody else receives.
pub struct Sender(UnixStream);

impl Sender {
    /// Sends a line.
    ///
    /// # Errors
    /// [`Error::Broken`].
    pub fn send(&mut self, request: &Request) -> Result<(), Error> {
        send(&mut self.0, request)
    }

    /// Ends the conversation; whoever waits for lines sees the end.
    pub fn close(&self) {
        // An error means that it is closed already.
        drop(self.0.shutdown(std::net::Shutdown::Both));
    }
}

/// The error of an answer that does not fit the question.
#[must_use]
pub fn unexpected(response: Response) -> Error {
    match response {
        Response::Refused { code, message, .. } => Error::Refused { code, message },
        other => Error::Strange(format!("{other:?}")),
    }
}

fn send(stream: &mut UnixStream, request: &Request) -> Result<(), Error> {
    let mut line = serde_json::to_vec(request).map_err(|error| Error::Strange(error.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(Error::Broken)
}
