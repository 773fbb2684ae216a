//! The answer of a server on its way to the agent: passed on as it comes, searched for keys, and counted.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, Response};

use super::Finished;
use super::events::Events;
use super::meter::{Form, Meter};
use super::refusal::Refusal;
use super::scan::Scanner;
use super::turns::Turn;
use crate::clock;
use crate::http;
use crate::model::gateway::ModelCall;

/// Headers that belong to one connection.
pub(super) const OF_A_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Reports a call when it ends, however it ends.
pub(super) struct Report {
    pub(super) call: ModelCall,
    pub(super) meter: Option<Meter>,
    /// The turn that it counts for.
    pub(super) turn: Option<Arc<Turn>>,
    /// Whether the last byte was passed on.
    pub(super) whole: bool,
    pub(super) finished: Finished,
}

impl Drop for Report {
    fn drop(&mut self) {
        self.call.complete = self.whole;
        if let Some(meter) = self.meter.take() {
            let count = meter.finish(self.whole);
            self.call.usage = count.usage;
            self.call.model = count.model.or(self.call.model.take());
            self.call.complete = count.complete;
        }
        if let (Some(turn), Some(usage)) = (&self.turn, self.call.usage) {
            turn.used(usage.total());
        }
        self.call.ended = clock::wall();
        (self.finished)(self.call.clone());
    }
}

/// What stays with an answer until it has ended.
pub(super) type Held = Box<dyn Send + Sync>;

/// An answer that is passed on.
struct Passing {
    response: reqwest::Response,
    scanner: Scanner,
    events: Option<Events>,
    report: Report,
    is_over: bool,
    /// Bytes that are still to come, if the server said how many.
    left: Option<u64>,
    /// What the request has of the agent's limits.
    _held: Held,
}

/// Begins to pass on an answer. `counts`: whether the server was asked for counts that the program did not ask for.
pub(super) fn pass_on(
    response: reqwest::Response,
    scanner: Scanner,
    counts: bool,
    mut report: Report,
    held: Held,
) -> Result<Response<Body>, Refusal> {
    report.call.status = Some(response.status().as_u16());
    let failed = |what: &str| Refusal::Server(what.to_owned());
    if response.status().is_redirection() {
        return Err(failed("it redirects to another address"));
    }
    let is_plain = |value: &axum::http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !response.headers().get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Err(failed("it compresses its answer although it was told not to"));
    }
    if response.headers().values().any(|value| scanner.finds(value.as_bytes())) {
        warn_of_echo(&report.call);
        return Err(failed("its answer has the key in it"));
    }
    let is_events =
        response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let form = if is_events { Form::Events } else { Form::Whole };
    if report.call.operation.costs() && response.status().is_success() {
        report.meter = Some(Meter::new(report.call.operation, form));
    }
    let events = (counts && is_events).then(Events::default);
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = response.status();
    *answer.headers_mut() = headers(response.headers(), events.is_some());
    let left = response.content_length();
    let passing = Passing { response, scanner, events, report, is_over: false, left, _held: held };
    let stream = futures_util::stream::unfold(passing, |mut passing| async move {
        let next = passing.next().await?;
        Some((next, passing))
    });
    *answer.body_mut() = Body::from_stream(stream);
    Ok(answer)
}

/// The headers that are passed on. `changes`: whether the length changes.
fn headers(of_server: &HeaderMap, changes: bool) -> HeaderMap {
    let named = named_by_connection(of_server);
    let dropped = |name: &HeaderName| {
        OF_A_CONNECTION.contains(&name.as_str())
            || named.contains(name)
            || name == SET_COOKIE
            || (changes && name == CONTENT_LENGTH)
    };
    of_server.iter().filter(|(name, _)| !dropped(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Headers that `Connection` says to be of this connection only.
pub(super) fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let texts = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

impl Passing {
    /// The next piece; `None` at the end. After an error nothing follows, and the connection breaks.
    async fn next(&mut self) -> Option<Result<Bytes, std::io::Error>> {
        while !self.is_over {
            let piece = match self.response.chunk().await {
                Ok(piece) => self.piece(piece),
                Err(error) => {
                    self.is_over = true;
                    tracing::debug!(session = %self.report.call.session, error = http::words(error), "an answer of a model broke off");
                    Err(std::io::ErrorKind::ConnectionReset.into())
                }
            };
            match piece {
                Ok(piece) if piece.is_empty() => {}
                piece => return Some(piece.map(Bytes::from)),
            }
        }
        None
    }

    /// What can be passed on of a piece; there is none after the last one. The last byte of an answer whose length is
    /// known is its end: the HTTP library asks for no more.
    fn piece(&mut self, piece: Option<Bytes>) -> Result<Vec<u8>, std::io::Error> {
        let bytes = piece.as_deref().unwrap_or_default();
        if let Some(meter) = &mut self.report.meter {
            meter.take(bytes);
        }
        let Ok(mut text) = self.scanner.pass(bytes) else {
            self.is_over = true;
            warn_of_echo(&self.report.call);
            return Err(std::io::ErrorKind::InvalidData.into());
        };
        self.left = self.left.map(|left| left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX)));
        let ends = piece.is_none() || self.left == Some(0);
        if ends {
            (self.is_over, self.report.whole) = (true, true);
            text.extend(self.scanner.rest());
        }
        if let Some(events) = &mut self.events {
            text = events.pass(&text);
            if ends {
                text.extend(events.rest());
            }
        }
        Ok(text)
    }
}

fn warn_of_echo(call: &ModelCall) {
    let api = call.api.as_str();
    tracing::warn!(session = %call.session, api, "a model's server repeated the key in its answer, which was cut");
}
