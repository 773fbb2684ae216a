//! Requests over HTTP. Every wait and every answer has a limit, redirects are not followed, and nothing is repeated.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{HeaderMap, Request, Response};
pub(crate) use ureq::http::{Method, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, SendBody};

/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(15);
/// Time for an ordinary request.
pub(crate) const ORDINARY: Duration = Duration::from_secs(30);
/// Time for a file.
pub(crate) const FILE: Duration = Duration::from_secs(120);
/// Largest answer that is read.
const ANSWER_BYTES: u64 = 8 << 20;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// Nothing was sent.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The request may have been carried out.
    #[error("the server did not answer: {0}")]
    Lost(String),
}

/// What a request carries.
pub(crate) enum Content<'a> {
    Nothing,
    Json(&'a Value),
    /// A stream of a known length.
    Stream {
        kind: &'a str,
        length: u64,
        from: Box<dyn Read>,
    },
}

pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    /// The header of that name, for the server that the token belongs to and no other.
    pub(crate) authorization: Option<&'a str>,
    pub(crate) content: Content<'a>,
    pub(crate) within: Duration,
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    body: Result<Vec<u8>, String>,
}

impl Answer {
    pub(crate) const fn is_success(&self) -> bool {
        self.status >= 200 && self.status < 300
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The JSON of the body; nothing for an empty one.
    pub(crate) fn json(&self) -> Result<Value, NoAnswer> {
        match &self.body {
            Ok(body) if body.trim_ascii().is_empty() => Ok(Value::Null),
            Ok(body) => serde_json::from_slice(body)
                .map_err(|error| NoAnswer::Lost(format!("its answer cannot be read: {error}"))),
            Err(why) => Err(NoAnswer::Lost(why.clone())),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Web(Agent);

impl Web {
    /// A client with a name for the header `User-Agent`.
    pub(crate) fn new(name: &str) -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder().tls_config(tls).timeout_connect(Some(CONNECT)).http_status_as_error(false);
        let config = config.max_redirects(0).max_redirects_will_error(false).user_agent(name);
        Self(config.timeout_global(Some(ORDINARY)).build().into())
    }

    pub(crate) fn ask(&self, ask: Ask<'_>) -> Result<Answer, NoAnswer> {
        read(self.open(ask)?)
    }

    fn open(&self, ask: Ask<'_>) -> Result<Response<Body>, NoAnswer> {
        let Ask { method, url, authorization, content, within } = ask;
        let mut request = Request::builder().method(method).uri(url);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let bad = |error: ureq::http::Error| NoAnswer::Unreachable(error.to_string());
        let text;
        let (request, body) = match content {
            Content::Nothing => (request, SendBody::none()),
            Content::Json(value) => {
                text = value.to_string();
                let request = request.header("content-type", "application/json").header("content-length", text.len());
                (request, SendBody::from_owned_reader(io::Cursor::new(text.into_bytes())))
            }
            Content::Stream { kind, length, from } => {
                let request = request.header("content-type", kind).header("content-length", length);
                (request, SendBody::from_owned_reader(from))
            }
        };
        let request = request.body(body).map_err(bad)?;
        let request = self.0.configure_request(request).timeout_global(Some(within)).build();
        self.0.run(request).map_err(no_answer)
    }

    /// Writes the body of an answer into a new file; `Ok(None)` if it is larger than allowed, and otherwise the answer, which
    /// has the body only if it is no success.
    pub(crate) fn fetch(&self, ask: Ask<'_>, to: &Path, bytes_max: u64) -> Result<Option<Answer>, NoAnswer> {
        let response = self.open(ask)?;
        if !response.status().is_success() {
            return read(response).map(Some);
        }
        let answer =
            Answer { status: response.status().as_u16(), headers: response.headers().clone(), body: Ok(Vec::new()) };
        let lost = |error: io::Error| NoAnswer::Lost(error.to_string());
        let mut file = File::create_new(to).map_err(lost)?;
        let mut body = response.into_body().into_reader().take(bytes_max + 1);
        let size = io::copy(&mut body, &mut file).and_then(|size| file.flush().map(|()| size));
        match size {
            Ok(size) if size <= bytes_max => Ok(Some(answer)),
            other => {
                drop(std::fs::remove_file(to));
                other.map(|_| None).map_err(lost)
            }
        }
    }
}

fn read(response: Response<Body>) -> Result<Answer, NoAnswer> {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut bytes = Vec::new();
    let body = match response.into_body().into_reader().take(ANSWER_BYTES + 1).read_to_end(&mut bytes) {
        Ok(size) if size as u64 > ANSWER_BYTES => Err(format!("its answer has more than {ANSWER_BYTES} bytes")),
        Ok(_) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    };
    Ok(Answer { status, headers, body })
}

fn no_answer(error: ureq::Error) -> NoAnswer {
    use ureq::{Error, Timeout};
    let why = error.to_string();
    match error {
        Error::ConnectionFailed
        | Error::HostNotFound
        | Error::BadUri(_)
        | Error::Tls(_)
        | Error::Timeout(Timeout::Connect | Timeout::Resolve) => NoAnswer::Unreachable(why),
        Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => NoAnswer::Unreachable(why),
        _ => NoAnswer::Lost(why),
    }
}
