//! One request per connection to Podman's socket, answered line by line.
//!
//! HTTP/1.0, in which a body ends where the connection does: builds take minutes, their context may be larger than memory,
//! and ending the connection is how one is stopped. Clients that pool connections are made for the opposite.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::context::Context;
use super::{Error, Watch};
use crate::config::env::env_lookup;

/// How long one wait for Podman is, before the time is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Lines of an answer, and whole answers, are shorter.
const ANSWER_MAX: u64 = 16 * 1024 * 1024;
/// Since Podman 4.0 it answers under this version.
const VERSION: &str = "/v4.0.0/libpod";

/// Podman, by its socket.
#[derive(Debug, Clone)]
pub struct Engine {
    socket: PathBuf,
}

/// What is asked.
pub(super) struct Call<'a> {
    /// `GET`, `POST` or `DELETE`.
    pub(super) method: &'static str,
    /// Below the version, with its query.
    pub(super) path: String,
    pub(super) body: Body<'a>,
}

/// What goes along.
pub(super) enum Body<'a> {
    Nothing,
    Json(&'a Value),
    Tar(&'a Context),
}

/// An answer whose body is still to be read.
pub(super) struct Answer<'a> {
    engine: &'a Engine,
    watch: &'a dyn Watch,
    status: u16,
    stream: BufReader<UnixStream>,
}

impl Engine {
    /// The one that answers: `CONTAINER_HOST` if that is set, else the user's own, else for root the system's.
    ///
    /// # Errors
    /// [`Error::NoPodman`] and [`Error::Elsewhere`].
    pub fn find() -> Result<Self, Error> {
        let given = env_lookup("CONTAINER_HOST").filter(|host| !host.is_empty());
        let candidates = match &given {
            Some(host) => match host.strip_prefix("unix://") {
                Some(path) if path.starts_with('/') => vec![PathBuf::from(path)],
                _ => return Err(Error::Elsewhere { given: host.clone() }),
            },
            None => usual_places(),
        };
        if let Some(socket) = candidates.iter().find(|path| UnixStream::connect(path).is_ok()) {
            return Ok(Self { socket: socket.clone() });
        }
        let tried: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        Err(Error::NoPodman { tried: tried.join(", ") })
    }

    /// The one behind a socket. Only tests know one beforehand.
    #[must_use]
    pub const fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks, and reads the whole answer as JSON; null if it is empty.
    pub(super) fn ask(&self, call: &Call<'_>, watch: &dyn Watch) -> Result<Value, Error> {
        let text = self.text(call, watch)?;
        if text.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&text).map_err(|_| self.unclear("an answer is not JSON"))
    }

    /// Asks, and reads the whole answer.
    pub(super) fn text(&self, call: &Call<'_>, watch: &dyn Watch) -> Result<Vec<u8>, Error> {
        let mut answer = self.call(call, watch)?;
        let mut text = Vec::new();
        while answer.read(&mut text, |_| None)?.is_some() {}
        if (200..400).contains(&answer.status) { Ok(text) } else { Err(refused(answer.status, &text)) }
    }

    /// Asks, and gives the answer if it is not a refusal.
    pub(super) fn stream<'a>(&'a self, call: &Call<'_>, watch: &'a dyn Watch) -> Result<Answer<'a>, Error> {
        let mut answer = self.call(call, watch)?;
        if (200..400).contains(&answer.status) {
            return Ok(answer);
        }
        let mut text = Vec::new();
        while answer.read(&mut text, |_| None)?.is_some() {}
        Err(refused(answer.status, &text))
    }

    fn call<'a>(&'a self, call: &Call<'_>, watch: &'a dyn Watch) -> Result<Answer<'a>, Error> {
        let mut stream = UnixStream::connect(&self.socket).map_err(|source| self.broken(source))?;
        let timeouts = stream.set_read_timeout(Some(LOOK)).and_then(|()| stream.set_write_timeout(Some(LOOK)));
        timeouts.map_err(|source| self.broken(source))?;
        // Whoever refuses at once may not read what was sent, and still says why.
        match self.send(&mut stream, call, watch) {
            Err(Error::Broken { source, .. })
                if matches!(source.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {}
            sent => sent?,
        }
        let mut answer = Answer { engine: self, watch, status: 0, stream: BufReader::new(stream) };
        let first = answer.line()?.ok_or_else(|| self.unclear("there is no answer"))?;
        let status = first.split_ascii_whitespace().nth(1).and_then(|status| status.parse().ok());
        answer.status = status.ok_or_else(|| self.unclear("an answer has no status"))?;
        while answer.line()?.is_some_and(|line| !line.is_empty()) {}
        Ok(answer)
    }

    fn send(&self, stream: &mut UnixStream, call: &Call<'_>, watch: &dyn Watch) -> Result<(), Error> {
        let mut out = Patient { engine: self, watch, stream };
        let (kind, length, json) = match &call.body {
            Body::Nothing => ("application/json", 0, Vec::new()),
            Body::Json(value) => {
                let text = value.to_string().into_bytes();
                ("application/json", u64::try_from(text.len()).unwrap_or(u64::MAX), text)
            }
            Body::Tar(context) => ("application/x-tar", context.length(), Vec::new()),
        };
        let head = format!(
            "{} {VERSION}{} HTTP/1.0\r\nHost: podman\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n",
            call.method, call.path
        );
        out.put(head.as_bytes())?;
        out.put(&json)?;
        match &call.body {
            Body::Tar(context) => context.write(&mut |bytes| out.put(bytes)),
            Body::Nothing | Body::Json(_) => Ok(()),
        }
    }

    pub(super) fn unclear(&self, what: &'static str) -> Error {
        Error::Unclear { socket: self.socket.clone(), what }
    }

    fn broken(&self, source: io::Error) -> Error {
        Error::Broken { socket: self.socket.clone(), source }
    }

    /// Whether a wait that brought nothing may be followed by another one.
    fn again(&self, error: io::Error, watch: &dyn Watch) -> Result<(), Error> {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => self.in_time(watch),
            _ => Err(self.broken(error)),
        }
    }

    fn in_time(&self, watch: &dyn Watch) -> Result<(), Error> {
        if watch.expired() { Err(Error::TooLong { socket: self.socket.clone() }) } else { Ok(()) }
    }
}

/// Writes for as long as there is time.
struct Patient<'a> {
    engine: &'a Engine,
    watch: &'a dyn Watch,
    stream: &'a mut UnixStream,
}

impl Patient<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(self.engine.broken(io::ErrorKind::BrokenPipe.into())),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) => self.engine.again(error, self.watch)?,
            }
            self.engine.in_time(self.watch)?;
        }
        Ok(())
    }
}

impl Answer<'_> {
    /// The next line without its end; none at the end of the answer.
    pub(super) fn line(&mut self) -> Result<Option<String>, Error> {
        let mut line = Vec::new();
        let end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        loop {
            match self.read(&mut line, end)? {
                Some(true) => break,
                Some(false) => {}
                None if line.is_empty() => return Ok(None),
                None => break,
            }
        }
        let text = String::from_utf8_lossy(&line);
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// Adds what comes next to `to`, up to and including where `end` finds an end in it; says whether it found one. None
    /// at the end of the answer.
    fn read(&mut self, to: &mut Vec<u8>, end: impl Fn(&[u8]) -> Option<usize>) -> Result<Option<bool>, Error> {
        loop {
            self.engine.in_time(self.watch)?;
            let (taken, ended) = match self.stream.fill_buf() {
                Ok([]) => return Ok(None),
                Ok(bytes) => {
                    let found = end(bytes);
                    let taken = bytes.get(..found.unwrap_or(bytes.len())).unwrap_or(bytes);
                    to.extend_from_slice(taken);
                    (taken.len(), found.is_some())
                }
                Err(error) => {
                    self.engine.again(error, self.watch)?;
                    continue;
                }
            };
            self.stream.consume(taken);
            if u64::try_from(to.len()).unwrap_or(u64::MAX) > ANSWER_MAX {
                return Err(self.engine.unclear("an answer is longer than 16 MiB"));
            }
            return Ok(Some(ended));
        }
    }
}

fn refused(status: u16, text: &[u8]) -> Error {
    let json: Option<Value> = serde_json::from_slice(text).ok();
    let said = json.as_ref().and_then(|json| json.get("message")?.as_str().map(str::to_owned));
    let said = said.unwrap_or_else(|| String::from_utf8_lossy(text).trim().chars().take(500).collect());
    Error::Refused { status, said }
}

/// Where Podman's service listens when nobody says otherwise.
fn usual_places() -> Vec<PathBuf> {
    let uid = rustix::process::geteuid();
    let runtime = env_lookup("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let own = runtime.unwrap_or_else(|| PathBuf::from(format!("/run/user/{}", uid.as_raw())));
    let mut places = vec![own.join("podman/podman.sock")];
    if uid.is_root() {
        places.insert(0, PathBuf::from("/run/podman/podman.sock"));
    }
    places
}

/// A text as part of a query.
pub(super) fn quoted(text: &str) -> String {
    text.bytes().fold(String::new(), |mut quoted, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            quoted.push(char::from(byte));
        } else {
            quoted.push_str(&format!("%{byte:02X}"));
        }
        quoted
    })
}
