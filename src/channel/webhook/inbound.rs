//! Receives messages and pressed buttons from a bridge. Each request is answered once its content is committed, and not
//! before.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

use super::entrance::OWN_KIB;
use super::judge;
use super::signature::{self, BadSignature, Key, SIGNATURE, TIMESTAMP};
use crate::channel::event::{self, EVENT_BYTES_MAX};
use crate::channel::health::LastContact;
use crate::channel::intake::{Ingress, NotTaken};
use crate::connections::{ConnectionHandle, Priority};
use crate::model::address::ChannelName;
use crate::model::input::InboundEvent;
use crate::model::routed::RouteResult;
use crate::model::time::Timestamp;

/// Timeout of reading one body.
const READING: Duration = Duration::from_secs(30);
/// `Retry-After` in seconds for requests that come at a bad time, as for bridges.
const AGAIN_SECONDS: u16 = 2;

/// The context of every request.
pub(super) struct RequestContext {
    pub(super) name: ChannelName,
    pub(super) key: Key,
    pub(super) intake: Arc<dyn Ingress>,
    pub(super) now: fn() -> Timestamp,
    pub(super) contact: Arc<LastContact>,
    /// True when the channel accepts nothing any more.
    pub(super) closed: watch::Receiver<bool>,
}

/// The memory reserved for a request's body; released when dropped.
struct Room(ConnectionHandle);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The web service.
pub(super) fn router(gate: Arc<RequestContext>) -> Router {
    Router::new().route("/v1/events", post(events)).route("/v1/actions", post(actions)).with_state(gate)
}

/// Why a request failed.
enum Refusal {
    /// The signature is not valid.
    Stranger(BadSignature),
    /// The request is wrong and must not be repeated.
    Bad(StatusCode, String),
    /// The request may be repeated later.
    Later(String),
}

impl From<NotTaken> for Refusal {
    fn from(not: NotTaken) -> Self {
        match not {
            NotTaken::Later(why) => Self::Later(why),
            NotTaken::Refused(why) => bad(why),
        }
    }
}

fn bad(why: impl ToString) -> Refusal {
    Refusal::Bad(StatusCode::BAD_REQUEST, why.to_string())
}

async fn events(
    State(gate): State<Arc<RequestContext>>,
    ConnectInfo(caller): ConnectInfo<ConnectionHandle>,
    request: Request,
) -> Response {
    answer(take_event(&gate, &caller, request).await)
}

async fn actions(
    State(gate): State<Arc<RequestContext>>,
    ConnectInfo(caller): ConnectInfo<ConnectionHandle>,
    request: Request,
) -> Response {
    answer(take_action(&gate, &caller, request).await)
}

async fn take_event(gate: &RequestContext, caller: &ConnectionHandle, request: Request) -> Result<Response, Refusal> {
    let (_room, body) = signed_body(gate, caller, request).await?;
    let arrived = event::read(&body).map_err(bad)?;
    drop(body);
    check_own(gate, arrived.event())?;
    let event = arrived.keep_in(&*gate.intake).await?;
    let report = gate.intake.inbound(event).await?;
    Ok(json_text(StatusCode::OK, &RouteResult::from(&report)))
}

async fn take_action(gate: &RequestContext, caller: &ConnectionHandle, request: Request) -> Result<Response, Refusal> {
    let (_room, body) = signed_body(gate, caller, request).await?;
    let press = judge::press(&gate.name, &body).map_err(bad)?;
    let pressed = gate.intake.pressed(press).await?;
    Ok(json_text(StatusCode::OK, &json!({ "decided": pressed.decided, "text": pressed.text })))
}

/// A webhook speaks for its own channel only. It has to give every message an id, so that repeats are recognized.
fn check_own(gate: &RequestContext, event: &InboundEvent) -> Result<(), Refusal> {
    let mut channels = vec![("channelType", &event.source.channel)];
    channels.extend(event.reply_to.as_ref().map(|to| ("replyTo.channelType", &to.channel)));
    if let Some((field, other)) = channels.into_iter().find(|(_, channel)| **channel != gate.name) {
        return Err(bad(format!("{field} is `{other}`; this webhook speaks only for `{}`", gate.name)));
    }
    if event.platform_message.is_none() {
        return Err(bad("message.id is missing; it must be a string, so that repeated events are recognized"));
    }
    Ok(())
}

/// The body of a correctly signed request, and the memory reserved for it.
async fn signed_body(
    gate: &RequestContext,
    caller: &ConnectionHandle,
    request: Request,
) -> Result<(Room, Vec<u8>), Refusal> {
    if *gate.closed.borrow() {
        return Err(Refusal::Later("the channel is being closed".to_owned()));
    }
    let headers = request.headers();
    let timestamp = text(headers, TIMESTAMP).ok_or(Refusal::Stranger(BadSignature::Header("X-Hearth-Timestamp")))?;
    let signature = text(headers, SIGNATURE).ok_or(Refusal::Stranger(BadSignature::Header("X-Hearth-Signature")))?;
    signature::check_time(&timestamp, (gate.now)()).map_err(Refusal::Stranger)?;
    drop(signature::claimed(&signature).map_err(Refusal::Stranger)?);
    let length = text(headers, header::CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
    check_length(length.unwrap_or(0))?;
    let late = |_| Refusal::Bad(StatusCode::REQUEST_TIMEOUT, "the body took too long".to_owned());
    let room = Room(caller.clone());
    let body = tokio::time::timeout(READING, read(&room, request.into_body())).await.map_err(late)??;
    gate.key.check(&timestamp, &signature, &body).map_err(Refusal::Stranger)?;
    gate.contact.set((gate.now)());
    caller.raise(Priority::Serving);
    Ok((room, body))
}

fn check_length(length: usize) -> Result<(), Refusal> {
    if length <= EVENT_BYTES_MAX {
        return Ok(());
    }
    let why = format!("the body has {length} bytes, at most {EVENT_BYTES_MAX} are accepted");
    Err(Refusal::Bad(StatusCode::PAYLOAD_TOO_LARGE, why))
}

/// Reads a body. Memory is reserved as data arrives and not by the announced length: the caller is not authenticated
/// yet, and must not block others by announcing much and sending nothing. Each caller's own share is always available.
async fn read(room: &Room, mut body: Body) -> Result<Vec<u8>, Refusal> {
    let (mut bytes, mut taken) = (Vec::new(), 0);
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(piece) = frame.map_err(bad)?.into_data() else { continue };
        let length = bytes.len().saturating_add(piece.len());
        check_length(length)?;
        let wanted = (length / 1_024 + 1).saturating_sub(OWN_KIB);
        if wanted > taken && !room.0.reserve(wanted).await {
            return Err(Refusal::Later("the daemon is overloaded".to_owned()));
        }
        taken = wanted;
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn answer(done: Result<Response, Refusal>) -> Response {
    let (status, why) = match done {
        Ok(response) => return response,
        Err(Refusal::Stranger(why)) => {
            tracing::debug!(%why, "refused a request without a valid signature");
            (StatusCode::UNAUTHORIZED, why.to_string())
        }
        Err(Refusal::Bad(status, why)) => (status, why),
        Err(Refusal::Later(why)) => (StatusCode::SERVICE_UNAVAILABLE, why),
    };
    let mut response = json_text(status, &json!({ "error": why }));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(AGAIN_SECONDS));
    }
    response
}

fn json_text(status: StatusCode, value: &impl Serialize) -> Response {
    let text = serde_json::to_string(value).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}
