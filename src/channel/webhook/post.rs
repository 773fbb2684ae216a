//! Sends one signed request to the receiver and classifies the answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::pause::{NotNow, Pause, asked_for};
use super::signature::{Key, SIGNATURE, TIMESTAMP};
use super::wire;
use crate::channel::health::LastContact;
use crate::channel::intake::Ingress;
use crate::model::time::Timestamp;

/// Time limit of a delivery, including all waiting; less than the engine's limit of an attempt.
const ATTEMPT: Duration = Duration::from_secs(50);
/// Maximum number of parallel requests.
const AT_ONCE: usize = 16;
/// How long to wait for a request slot. After that, nothing was sent.
const TURN: Duration = Duration::from_secs(5);
/// Size limit of an answer in bytes; the rest is not read.
const ANSWER_BYTES_MAX: usize = 64 * 1_024;

/// The receiver of a channel.
pub(super) struct Receiver {
    client: Client,
    url: String,
    key: Key,
    now: fn() -> Timestamp,
    turns: Semaphore,
    /// Time limit of a whole exchange.
    pub(super) patience: Duration,
    pub(super) pause: Pause,
    pub(super) intake: Arc<dyn Ingress>,
    /// Whether it may let its network fetch link previews.
    pub(super) link_previews: bool,
    pub(super) contact: Arc<LastContact>,
    trouble: Mutex<Option<String>>,
}

/// Result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The receiver accepted it and answered this.
    Taken(Vec<u8>),
    /// It was not carried out, but may be later.
    Later(String),
    /// The receiver does not support the request (404, 501).
    Unknown(String),
    /// The receiver rejected it.
    Refused(String),
    /// It was sent, and its result is unknown.
    Lost(String),
}

impl Receiver {
    pub(super) fn new(
        url: &str,
        key: Key,
        now: fn() -> Timestamp,
        intake: Arc<dyn Ingress>,
        closed: watch::Receiver<bool>,
    ) -> Result<Self, String> {
        let plain = url.starts_with("http://");
        let client = crate::http::client(plain).map_err(cause)?;
        // Otherwise the client would report it only with the first message.
        client.post(url).build().map_err(|_| "its base_url is not a web address".to_owned())?;
        let (turns, pause) = (Semaphore::new(AT_ONCE), Pause::new(closed));
        Ok(Self {
            client,
            url: url.to_owned(),
            key,
            now,
            turns,
            patience: ATTEMPT,
            pause,
            intake,
            link_previews: false,
            contact: Arc::new(LastContact::new()),
            trouble: Mutex::default(),
        })
    }

    /// Waits for the end of a short pause and for a request slot.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, String> {
        self.pause.over().await.map_err(|not| match not {
            NotNow::Pause => "the receiver requested a pause".to_owned(),
            NotNow::Closed => "the channel is being closed".to_owned(),
        })?;
        match tokio::time::timeout(TURN, self.turns.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err("too many messages are being sent at once".to_owned()),
        }
    }

    /// A request slot, if one is free now.
    pub(super) fn turn_now(&self) -> Option<SemaphorePermit<'_>> {
        if self.pause.lasts() { None } else { self.turns.try_acquire().ok() }
    }

    /// Sends a body. Callers set the timeout.
    pub(super) async fn send(&self, body: String) -> Sent {
        let (timestamp, signature) = self.key.sign((self.now)(), body.as_bytes());
        let request = self.client.post(&self.url).header(CONTENT_TYPE, "application/json");
        let request = request.header(TIMESTAMP, timestamp).header(SIGNATURE, signature);
        crate::crash::point("webhook-post");
        let sent = match request.body(body).send().await {
            Ok(response) => self.understand(response).await,
            Err(error) if error.is_connect() => {
                Sent::Later(format!("the receiver cannot be reached: {}", cause(error)))
            }
            Err(error) if error.is_builder() => Sent::Refused(format!("the request cannot be made: {}", cause(error))),
            Err(error) => Sent::Lost(format!("the connection was lost before an answer: {}", cause(error))),
        };
        self.note(sent)
    }

    /// Records what a request reveals about the receiver as a whole.
    pub(super) fn note(&self, sent: Sent) -> Sent {
        let trouble = match &sent {
            Sent::Later(why) | Sent::Lost(why) => Some(why.clone()),
            Sent::Taken(_) | Sent::Unknown(_) | Sent::Refused(_) => None,
        };
        if trouble.is_none() {
            self.contact.set((self.now)());
        }
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
        sent
    }

    /// What was wrong with the last completed request.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn understand(&self, response: Response) -> Sent {
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after = after.and_then(|value| asked_for(value, (self.now)()));
        let answer = read(response).await;
        if status.is_success() {
            return match answer {
                Ok(answer) => Sent::Taken(answer),
                Err(error) => Sent::Lost(format!("the answer broke off: {}", cause(error))),
            };
        }
        let words = wire::words(&answer.unwrap_or_default());
        let why = format!("the receiver answered {}", [status.as_str(), &words].join(" ").trim_end());
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                if let Some(after) = after {
                    self.pause.begin(after, (self.now)(), &self.intake);
                }
                Sent::Later(why)
            }
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => Sent::Unknown(why),
            _ if status.is_server_error() => Sent::Later(why),
            _ if status.is_redirection() => Sent::Refused(format!("{why}: set base_url to where it redirects")),
            _ => Sent::Refused(why),
        }
    }
}

/// Reads an answer up to the size limit.
async fn read(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = ANSWER_BYTES_MAX.saturating_sub(answer.len());
        answer.extend(chunk.iter().take(room));
        if chunk.len() > room {
            break;
        }
    }
    Ok(answer)
}

/// The innermost cause of an error. The outer ones contain the URL, whose path may be a secret.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut innermost: &dyn std::error::Error = &error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
