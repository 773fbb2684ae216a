//! HTTP over Podman's socket: one connection per request, which ends when the request is dropped.

use std::path::{Path, PathBuf};

use futures_util::stream;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{Body, Method, RequestBuilder, Response, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Receiver;

use super::Unusable;
use super::error::{Fault, chain};

/// Base URL. A socket has one host behind it, so the name does not matter.
const ROOT: &str = "http://podman/v4.3.1/libpod";
/// Size limit of an answer, and of a line of a streamed answer.
const ANSWER_MAX: usize = 16 * 1024 * 1024;

/// The fields read from an error answer.
#[derive(Default, Deserialize)]
struct Refusal {
    message: Option<String>,
}

/// Podman at one socket.
pub(super) struct Client {
    http: reqwest::Client,
    root: Url,
    pub(super) socket: PathBuf,
}

impl Client {
    pub(super) fn new(socket: &Path) -> Result<Self, Unusable> {
        // The client requires a crypto provider although nothing here is encrypted. This fails only if one is already
        // installed.
        drop(rustls::crypto::ring::default_provider().install_default());
        let unusable = |reason| Unusable::Client { reason };
        let http = reqwest::Client::builder().tls_certs_only([]).no_proxy().redirect(Policy::none());
        let http = http.pool_max_idle_per_host(0).unix_socket(socket).build();
        let http = http.map_err(|error| unusable(error.to_string()))?;
        let root = Url::parse(ROOT).map_err(|error| unusable(error.to_string()))?;
        Ok(Self { http, root, socket: socket.to_owned() })
    }

    /// A request without a time limit.
    pub(super) fn request(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> RequestBuilder {
        let mut url = self.root.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.http.request(method, url)
    }

    /// Sends a request and returns the answer unless it is an error.
    pub(super) async fn open(&self, request: RequestBuilder) -> Result<Response, Fault> {
        let response = request.send().await.map_err(|error| unanswered(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = whole(response).await?;
        let Refusal { message } = serde_json::from_slice(&text).unwrap_or_default();
        let plain = || String::from_utf8_lossy(&text).trim().chars().take(500).collect();
        let message = message.or_else(|| Some(plain()).filter(|text: &String| !text.is_empty()));
        Err(Fault::Refused { status: status.as_u16(), message: message.unwrap_or_else(|| status.to_string()) })
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn text(&self, request: RequestBuilder) -> Result<Vec<u8>, Fault> {
        whole(self.open(request).await?).await
    }

    /// Sends a request and parses the answer.
    pub(super) async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Fault> {
        let text = self.text(request).await?;
        serde_json::from_slice(&text).map_err(|error| Fault::Unanswered(format!("its answer cannot be read: {error}")))
    }
}

async fn whole(mut response: Response) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| unanswered(&error))? {
        text.extend_from_slice(&piece);
        within_limit(&text)?;
    }
    Ok(text)
}

/// Fails if an answer is too long.
fn within_limit(text: &[u8]) -> Result<(), Fault> {
    if text.len() > ANSWER_MAX {
        return Err(Fault::Unanswered("an answer is longer than 16 MiB".to_owned()));
    }
    Ok(())
}

fn unanswered(error: &reqwest::Error) -> Fault {
    Fault::Unanswered(chain(error))
}

/// The lines of an answer, in pieces.
pub(super) struct Lines {
    /// `None` at its end.
    response: Option<Response>,
    unread: Vec<u8>,
}

impl Lines {
    pub(super) const fn of(response: Response) -> Self {
        Self { response: Some(response), unread: Vec::new() }
    }

    /// The next line; `None` at the end of the answer.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.unread.drain(..=end).collect()));
            }
            let Some(response) = &mut self.response else {
                return Ok(Some(std::mem::take(&mut self.unread)).filter(|line| !line.is_empty()));
            };
            match response.chunk().await.map_err(|error| unanswered(&error))? {
                Some(piece) => self.unread.extend_from_slice(&piece),
                None => self.response = None,
            }
            within_limit(&self.unread)?;
        }
    }
}

/// A tar archive that is sent while it is written.
pub(super) struct Upload {
    pub(super) pieces: Receiver<Vec<u8>>,
    pub(super) length: u64,
}

impl Upload {
    pub(super) fn attach(self, request: RequestBuilder) -> RequestBuilder {
        let body = Body::wrap_stream(stream::unfold(self.pieces, async |mut pieces| {
            let piece: std::io::Result<Vec<u8>> = Ok(pieces.recv().await?);
            Some((piece, pieces))
        }));
        request.header(CONTENT_TYPE, "application/x-tar").header(CONTENT_LENGTH, self.length).body(body)
    }
}
