//! A socket client that speaks the line format but ignores the protocol's rules.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hearth::socket::protocol::VERSION;
use serde_json::{Value, json};

use crate::host::PATIENCE;

pub(crate) struct Raw {
    lines: BufReader<UnixStream>,
    /// The beginning of an incomplete line.
    begun: String,
}

impl Raw {
    /// Connects and sends nothing; `None` if no server listens.
    pub(crate) fn try_connect(data: &Path) -> Option<Self> {
        let path = std::fs::read_to_string(data.join("run/socket")).ok()?;
        let stream = UnixStream::connect(path).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Self { lines: BufReader::new(stream), begun: String::new() })
    }

    pub(crate) fn connect(data: &Path) -> Self {
        Self::try_connect(data).expect("nobody listens")
    }

    pub(crate) fn greet(data: &Path) -> Self {
        Self::try_greet(data).expect("no welcome")
    }

    /// Connects and is welcomed, if there is a daemon and it lives long enough.
    pub(crate) fn try_greet(data: &Path) -> Option<Self> {
        let mut raw = Self::try_connect(data)?;
        let token = std::fs::read_to_string(data.join("run/token")).ok()?;
        raw.say(&json!({"do": "hello", "v": VERSION, "token": token})).ok()?;
        (raw.try_hear().ok()??["is"] == "welcome").then_some(raw)
    }

    /// Attaches to the only agent, as a terminal does. After that it waits for lines only for a moment.
    pub(crate) fn try_attach(data: &Path) -> Option<Self> {
        let mut raw = Self::try_greet(data)?;
        raw.say(&json!({"do": "attach", "agent": null})).ok()?;
        raw.stream().set_read_timeout(Some(Duration::from_millis(20))).ok()?;
        Some(raw)
    }

    pub(crate) fn stream(&mut self) -> &mut UnixStream {
        self.lines.get_mut()
    }

    pub(crate) fn send(&mut self, line: &str) {
        self.stream().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn say(&mut self, request: &Value) -> std::io::Result<()> {
        self.stream().write_all(format!("{request}\n").as_bytes())
    }

    /// The next line; null at the end of the stream.
    pub(crate) fn hear(&mut self) -> Value {
        self.try_hear().unwrap().expect("nothing was said in time")
    }

    /// The next line, null at the end, `None` on a timeout.
    pub(crate) fn try_hear(&mut self) -> std::io::Result<Option<Value>> {
        match self.lines.read_line(&mut self.begun) {
            Ok(_) => {
                let line = std::mem::take(&mut self.begun);
                Ok(Some(if line.is_empty() { Value::Null } else { serde_json::from_str(&line).unwrap_or_default() }))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The outcome of an injected event, if the answer has one.
pub(crate) fn outcome(answer: &Value) -> Option<&str> {
    answer["answer"]["routed"]["outcome"].as_str()
}
