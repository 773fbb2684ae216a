//! Requests to the server: the one place that speaks HTTP.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// Time for an ordinary request.
const ORDINARY: Duration = Duration::from_secs(30);
/// Time for a file.
const FILE: Duration = Duration::from_secs(120);
/// Largest answer that is read.
const ANSWER_BYTES: u64 = 32 << 20;
/// Longest pause that a server can ask for.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);
const PAUSE: Duration = Duration::from_secs(5);

/// Why there is no answer, or not the wanted one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Nothing was sent.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The request may have been carried out.
    #[error("the server did not answer: {0}")]
    Lost(String),
    /// The server asks for a pause. Nothing was done.
    #[error("the server asks for a pause of {} s", .0.as_secs())]
    Paused(Duration),
    /// Nothing is sent until the owner agrees.
    #[error("{0}")]
    Held(String),
    /// The server refuses.
    #[error("the server refuses: {why} ({status} {code})")]
    Refused {
        status: u16,
        /// The kind of the error, such as `M_FORBIDDEN`.
        code: String,
        why: String,
    },
}

impl Trouble {
    /// Whether the server refuses the token.
    pub(crate) fn is_token(&self) -> bool {
        matches!(self, Self::Refused { status: 401, .. })
    }

    /// Whether the server says that there is no such thing.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether the same can succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Lost(_) | Self::Paused(_) => true,
            Self::Refused { .. } => self.is_token(),
            Self::Held(_) => false,
        }
    }
}

/// The server, as the bot.
#[derive(Clone)]
pub(crate) struct Api {
    agent: Agent,
    server: String,
    authorization: String,
}

impl Api {
    pub(crate) fn new(server: &str, token: &str) -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder().tls_config(tls).timeout_connect(Some(CONNECT)).http_status_as_error(false);
        let agent = config.timeout_global(Some(ORDINARY)).build().into();
        Self { agent, server: server.to_owned(), authorization: format!("Bearer {token}") }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/_matrix/{path}", self.server)
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, Trouble> {
        self.get_within(path, ORDINARY)
    }

    pub(crate) fn get_within(&self, path: &str, within: Duration) -> Result<Value, Trouble> {
        answer(self.open(path, within)?)
    }

    fn open(&self, path: &str, within: Duration) -> Result<Response<Body>, Trouble> {
        let call = self.agent.get(self.url(path)).header("authorization", &self.authorization);
        call.config().timeout_global(Some(within)).build().call().map_err(trouble)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value, Trouble> {
        let call = self.agent.post(self.url(path)).header("authorization", &self.authorization);
        answer(call.header("content-type", "application/json").send(body.to_string()).map_err(trouble)?)
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<Value, Trouble> {
        let call = self.agent.put(self.url(path)).header("authorization", &self.authorization);
        answer(call.header("content-type", "application/json").send(body.to_string()).map_err(trouble)?)
    }

    /// Sends a file.
    pub(crate) fn post_file(&self, path: &str, file: File, mime: &str) -> Result<Value, Trouble> {
        let size = file.metadata().map_err(|error| Trouble::Unreachable(error.to_string()))?.len();
        let call = self.agent.post(self.url(path)).header("authorization", &self.authorization);
        // Servers refuse bodies whose length they do not know.
        let call = call.header("content-type", mime).header("content-length", size.to_string());
        let call = call.config().timeout_global(Some(FILE)).build();
        answer(call.send(file).map_err(trouble)?)
    }

    /// Writes the body of an answer into a new file; `Ok(false)` if it is larger than allowed.
    pub(crate) fn get_file(&self, path: &str, to: &Path, bytes_max: u64) -> Result<bool, Trouble> {
        let response = self.open(path, FILE)?;
        if !response.status().is_success() {
            return answer(response).map(|_| false);
        }
        let lost = |error: io::Error| Trouble::Lost(error.to_string());
        let mut file = File::create_new(to).map_err(lost)?;
        let mut body = response.into_body().into_reader().take(bytes_max + 1);
        let size = io::copy(&mut body, &mut file).and_then(|size| file.flush().map(|()| size));
        match size {
            Ok(size) if size <= bytes_max => Ok(true),
            other => {
                drop(std::fs::remove_file(to));
                other.map(|_| false).map_err(lost)
            }
        }
    }
}

fn trouble(error: ureq::Error) -> Trouble {
    use ureq::{Error, Timeout};
    let why = error.to_string();
    match error {
        Error::ConnectionFailed
        | Error::HostNotFound
        | Error::BadUri(_)
        | Error::Tls(_)
        | Error::Timeout(Timeout::Connect | Timeout::Resolve) => Trouble::Unreachable(why),
        Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => Trouble::Unreachable(why),
        _ => Trouble::Lost(why),
    }
}

/// An answer that was read, in the form in which it came.
pub(crate) fn as_response(answer: &Value) -> Response<Vec<u8>> {
    Response::new(answer.to_string().into_bytes())
}

/// The JSON of an answer, or what the server says is wrong.
fn answer(response: Response<Body>) -> Result<Value, Trouble> {
    let status = response.status();
    let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
    let header = header.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let mut bytes = Vec::new();
    let read = response.into_body().into_reader().take(ANSWER_BYTES + 1).read_to_end(&mut bytes);
    let value = serde_json::from_slice::<Value>(&bytes);
    let word = |name: &str| value.as_ref().ok()?.get(name)?.as_str().map(str::to_owned);
    if status.is_success() {
        read.map_err(|error| Trouble::Lost(error.to_string()))?;
        return value.map_err(|error| Trouble::Lost(format!("its answer cannot be read: {error}")));
    }
    if status.as_u16() == 429 {
        let named = value.as_ref().ok().and_then(|value| value.get("retry_after_ms")).and_then(Value::as_u64);
        let pause = named.map(Duration::from_millis).or(header).unwrap_or(PAUSE);
        return Err(Trouble::Paused(pause.min(PAUSE_MAX)));
    }
    let code = word("errcode").unwrap_or_default();
    let why: String = word("error").unwrap_or_else(|| "it gives no reason".to_owned()).chars().take(300).collect();
    // A gateway that has no server, or a server with a fault: it may have been done.
    if status.is_server_error() && code != "M_NOT_YET_UPLOADED" {
        return Err(Trouble::Lost(format!("{status} {why}")));
    }
    Err(Trouble::Refused { status: status.as_u16(), code, why })
}
