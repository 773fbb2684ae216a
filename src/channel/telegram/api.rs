//! Calls the Bot API over HTTP and classifies failures.
//!
//! The token is part of every URL, so no error of the HTTP client leaves this file unchanged: URLs are removed, and the
//! token is replaced in the remaining text.

use std::time::Duration;

use reqwest::multipart::{Form, Part};
use reqwest::{Body, Client, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::wire::{Answer, Located};
use crate::http;

/// Address of the public Bot API.
pub(super) const PUBLIC: &str = "https://api.telegram.org";
/// Size limit in bytes of an answer that is not a file.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Size limit in bytes of a file that bots may fetch.
pub(super) const FETCH_BYTES_MAX: u64 = 20 << 20;
/// Timeout of a call.
const CALL: Duration = Duration::from_secs(30);
/// Timeout of a file transfer.
const TRANSFER: Duration = Duration::from_secs(300);
/// Pause if the server asks for one without a length.
const SLOW: Duration = Duration::from_secs(5);
/// Longest pause that is accepted.
const SLOW_MAX: Duration = Duration::from_secs(3_600);
/// Replaces the token in texts.
const HIDDEN: &str = "[token]";

/// Why a call failed. The texts are for people and never contain the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server was not reached: nothing happened.
    #[error("the server cannot be reached: {0}")]
    Unreached(String),
    /// The connection was lost after the request was sent, or the answer is unusable: the call may have been carried
    /// out.
    #[error("no usable answer: {0}")]
    Unclear(String),
    /// A server error: the call was not carried out.
    #[error("the server reports an error: {0}")]
    Trouble(String),
    /// Too many calls.
    #[error("the server requests a pause of {} s", .0.as_secs())]
    Slow(Duration),
    /// The server rejects the token.
    #[error("the server does not accept the token: {0}")]
    Token(String),
    /// Another program fetches the updates.
    #[error("another program receives the bot's messages: {0}")]
    Conflict(String),
    /// The call was rejected for good.
    #[error("{description}")]
    Refused {
        /// The server's message.
        description: String,
        /// The chat's new id, if it has changed.
        moved: Option<i64>,
    },
    /// The answer exceeds the size limit.
    #[error("the answer is larger than {ANSWER_BYTES_MAX} bytes")]
    TooLarge,
}

/// Why the API cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Invalid server address.
    #[error("base_url is not usable: {0}; give one like {PUBLIC}, without a path for the token")]
    Address(String),
    /// The token cannot be part of a URL.
    #[error("the token is empty or contains invalid characters")]
    Token,
    /// The HTTP client cannot be created.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// A file to send.
pub(super) struct Upload {
    /// The method's parameter for it: `photo`, `document`.
    pub(super) field: &'static str,
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// The Bot API of one bot.
pub(super) struct Api {
    client: Client,
    base: Url,
    token: String,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Api {
    /// Creates the client without making a call.
    pub(super) fn new(base: Option<&str>, token: &str) -> Result<Self, Unusable> {
        let token = token.trim();
        if token.is_empty() || !token.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-')) {
            return Err(Unusable::Token);
        }
        let base = Url::parse(base.unwrap_or(PUBLIC)).map_err(|error| Unusable::Address(error.to_string()))?;
        let plain = match base.scheme() {
            "https" => false,
            "http" => true,
            other => return Err(Unusable::Address(format!("`{other}` is neither https nor http"))),
        };
        let secretive = base.username().is_empty() && base.password().is_none() && base.query().is_none();
        if base.cannot_be_a_base() || !secretive || base.fragment().is_some() {
            return Err(Unusable::Address("it has more parts than host, port and path".to_owned()));
        }
        let client = http::client(plain).map_err(|error| Unusable::Tls(error.without_url().to_string()))?;
        Ok(Self { client, base, token: token.to_owned() })
    }

    /// Calls a method.
    pub(super) async fn call<T: DeserializeOwned>(&self, method: &str, parameters: &Value) -> Result<T, Failure> {
        self.call_within(CALL, method, parameters).await
    }

    /// Calls a method with its own timeout.
    pub(super) async fn call_within<T: DeserializeOwned>(
        &self,
        time: Duration,
        method: &str,
        parameters: &Value,
    ) -> Result<T, Failure> {
        let request = self.client.post(self.address(&["", method])).timeout(time);
        let request = request.header("content-type", "application/json").body(Body::from(parameters.to_string()));
        crate::crash::point("post");
        self.answer(request.send().await).await
    }

    /// Calls a method with a file.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: &Value,
        file: Upload,
    ) -> Result<T, Failure> {
        let mut form = Form::new().part(file.field, Part::bytes(file.bytes).file_name(file.name));
        for (name, value) in parameters.as_object().into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            form = form.text(name.clone(), text);
        }
        let request = self.client.post(self.address(&["", method])).timeout(TRANSFER).multipart(form);
        crate::crash::point("post");
        self.answer(request.send().await).await
    }

    /// Fetches a file.
    pub(super) async fn fetch(&self, file_id: &str) -> Result<Vec<u8>, Failure> {
        let refused = |description: String| Failure::Refused { description, moved: None };
        let located: Located = self.call("getFile", &serde_json::json!({ "file_id": file_id })).await?;
        let path = located.file_path.ok_or_else(|| refused("the server has no file of that id".to_owned()))?;
        let segments: Vec<&str> = path.split('/').collect();
        if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
            return Err(refused("the server stores the file where only its own machine can read it".to_owned()));
        }
        if located.file_size.is_some_and(|size| size > FETCH_BYTES_MAX) {
            return Err(refused(too_large()));
        }
        let address = self.address(&[&["file"], segments.as_slice()].concat());
        let sent = self.client.get(address).timeout(TRANSFER).send().await;
        let response = sent.map_err(|error| self.lost(error))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::TOO_MANY_REQUESTS => return Err(Failure::Slow(SLOW)),
            status if status.is_server_error() => return Err(Failure::Trouble(status.to_string())),
            status => return Err(refused(format!("the file cannot be fetched: {status}"))),
        }
        let max = usize::try_from(FETCH_BYTES_MAX).unwrap_or(usize::MAX);
        match self.read(response, max).await {
            Err(Failure::TooLarge) => Err(refused(too_large())),
            read => read,
        }
    }

    /// `<base>/bot<token>/<rest>`, or `<base>/file/bot<token>/<rest>`: the token is part of the segment after the base
    /// or after `file`.
    fn address(&self, segments: &[&str]) -> Url {
        let mut address = self.base.clone();
        if let Ok(mut path) = address.path_segments_mut() {
            path.pop_if_empty();
            let (first, rest) = segments.split_first().unwrap_or((&"", &[]));
            path.extend(Some(first).filter(|first| !first.is_empty()));
            path.push(&format!("bot{}", self.token)).extend(rest);
        }
        address
    }

    async fn answer<T: DeserializeOwned>(&self, sent: Result<Response, reqwest::Error>) -> Result<T, Failure> {
        let response = sent.map_err(|error| self.lost(error))?;
        let status = response.status();
        let bytes = self.read(response, ANSWER_BYTES_MAX).await?;
        match serde_json::from_slice::<Answer<'_>>(&bytes) {
            Ok(answer) if answer.ok => {
                let result = answer.result.map_or("null", |result| result.get());
                serde_json::from_str(result).map_err(|error| Failure::Unclear(self.clean(&error.to_string())))
            }
            Ok(answer) => Err(self.refusal(status, answer)),
            Err(error) => Err(self.nonsense(status, &error)),
        }
    }

    /// Reads the body, if it is no larger than `max`.
    async fn read(&self, response: Response, max: usize) -> Result<Vec<u8>, Failure> {
        let read = http::body(response, max).await.map_err(|error| Failure::Unclear(self.words(error)))?;
        read.ok_or(Failure::TooLarge)
    }

    /// Classifies an error answer of the server.
    fn refusal(&self, status: StatusCode, answer: Answer<'_>) -> Failure {
        let code = answer.error_code.and_then(|code| u16::try_from(code).ok()).unwrap_or(status.as_u16());
        let description = self.clean(&answer.description.unwrap_or_else(|| status.to_string()));
        let parameters = answer.parameters.unwrap_or_default();
        match code {
            // The server is older than the method.
            404 if description.contains("method") => Failure::Refused { description, moved: None },
            401 | 404 => Failure::Token(description),
            409 => Failure::Conflict(description),
            429 => Failure::Slow(parameters.retry_after.map_or(SLOW, Duration::from_secs).min(SLOW_MAX)),
            504 => Failure::Unclear(description),
            500.. => Failure::Trouble(description),
            _ => Failure::Refused { description, moved: parameters.migrate_to_chat_id },
        }
    }

    /// An answer that is not from the Bot API: from a proxy, or another service at the address.
    fn nonsense(&self, status: StatusCode, error: &serde_json::Error) -> Failure {
        let what = format!("{status}, and not in the Bot API's form");
        match status.as_u16() {
            200..=299 | 504 => Failure::Unclear(format!("{what}: {}", self.clean(&error.to_string()))),
            401 | 404 => Failure::Token(what),
            413 => Failure::Refused { description: what, moved: None },
            429 => Failure::Slow(SLOW),
            _ => Failure::Trouble(what),
        }
    }

    /// A request without an answer. Only while the connection is being established is it certain that nothing was sent.
    fn lost(&self, error: reqwest::Error) -> Failure {
        if error.is_connect() || error.is_builder() {
            Failure::Unreached(self.clean(&http::unreached(error)))
        } else {
            Failure::Unclear(self.words(error))
        }
    }

    /// The message of the HTTP client, with its causes.
    fn words(&self, error: reqwest::Error) -> String {
        self.clean(&http::words(error))
    }

    /// A foreign text without the token, on one line and bounded.
    fn clean(&self, text: &str) -> String {
        let secret = self.token.split_once(':').map(|(_, secret)| secret).filter(|secret| secret.len() >= 8);
        http::clean(&text.replace(&self.token, HIDDEN), secret.unwrap_or_default(), HIDDEN)
    }
}

pub(super) fn too_large() -> String {
    format!("it is larger than the {} MB that bots may fetch", FETCH_BYTES_MAX >> 20)
}
