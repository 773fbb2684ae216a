//! One request of an agent and its answer: judged, searched, given the value, and passed on as it comes.

use std::io;
use std::pin::pin;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderName, IF_RANGE, RANGE,
    SET_COOKIE, TRANSFER_ENCODING,
};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use futures_util::StreamExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{Sender, channel};

use super::head::Head;
use super::inbound::{BodyState, Inbound, write};
use super::judge::{Injection, judge};
use super::leak::{BodySearch, Mask};
use super::refusal::Refusal;
use super::run::{Freshness, OpenedHost};
use super::socket::{self, Searched};
use super::upstream::{Upstream, body_of};
use crate::gateway::answer::{OF_A_CONNECTION, named_by_connection};

/// How much of a body is searched before anything is sent. A longer one is searched as it passes.
const FIRST: usize = 64 << 10;
/// Tells a program that waits to send its body.
const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Whether another request may follow on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Request,
    /// The connection ends.
    End,
}

/// Why an exchange ended early.
#[derive(Debug)]
pub(super) enum Failed {
    /// Nothing was answered yet.
    Refused(Refusal),
    /// In the middle of the answer. Only breaking the connection says so.
    Broken(Option<Refusal>),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Self {
        Self::Broken(None)
    }
}

/// Both sides of an exchange.
pub(super) struct Sides<'a, R, W> {
    pub(super) inbound: &'a mut Inbound<R>,
    pub(super) writer: &'a mut W,
    pub(super) upstream: &'a mut Upstream,
}

/// What an exchange knows besides its sides.
struct Exchange<'a> {
    host: &'a OpenedHost,
    head: &'a Head,
    injections: Vec<Injection>,
    /// The status of the answer.
    status: &'a mut Option<u16>,
}

/// Carries out one request. `status` becomes that of the host's answer.
pub(super) async fn exchange<R, W>(
    sides: Sides<'_, R, W>,
    host: &OpenedHost,
    head: &Head,
    status: &mut Option<u16>,
) -> Result<Next, Failed>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let known = host.known.now();
    let injections = judge(head, &host.secrets, &known)?;
    let mut state = BodyState::new(head.framing);
    if head.waits && !state.is_over() {
        write(sides.writer, GO_ON).await?;
    }
    let mut search = BodySearch::new(known);
    let mut first = Vec::new();
    while first.len() < FIRST
        && let Some(piece) = sides.inbound.body(&mut state).await?
    {
        first.extend(search.pass(&piece).map_err(Refusal::Leak)?);
    }
    let mut exchange = Exchange { host, head, injections, status };
    if state.is_over() {
        first.extend(search.rest());
        exchange.whole(sides, Bytes::from(first)).await
    } else {
        exchange.in_pieces(sides, Pieces { state, search, first }).await
    }
}

/// A body that is sent as it comes.
struct Pieces {
    state: BodyState,
    search: BodySearch,
    first: Vec<u8>,
}

impl Exchange<'_> {
    /// Sends a request whose body is known. If the host refuses the value, it is read again: it may have been replaced.
    async fn whole<R, W>(&mut self, sides: Sides<'_, R, W>, body: Bytes) -> Result<Next, Failed>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let (headers, mut values) = self.headers(Freshness::Known).await?;
        let mut response = sides.upstream.send(self.request(headers, Body::from(body.clone()))).await?;
        if response.status() == StatusCode::UNAUTHORIZED && !self.injections.is_empty() {
            let fresh = self.headers(Freshness::Fresh).await;
            if let Ok((headers, again)) = fresh
                && again != values
            {
                sides.upstream.cut();
                response = sides.upstream.send(self.request(headers, Body::from(body))).await?;
                values.extend(again);
            } else {
                self.warn_of_refusal();
            }
        }
        let next = if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.pass_socket(response, sides.inbound, sides.writer, values).await
        } else {
            self.pass(response, sides.writer, values).await
        };
        if !matches!(next, Ok(Next::Request)) {
            sides.upstream.cut();
        }
        next
    }

    /// Sends a request while its body comes.
    async fn in_pieces<R, W>(&mut self, sides: Sides<'_, R, W>, pieces: Pieces) -> Result<Next, Failed>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let Sides { inbound, writer, upstream } = sides;
        let (headers, values) = self.headers(Freshness::Known).await?;
        let (sender, receiver) = channel(1);
        let request = self.request(headers, body_of(receiver));
        let mut pump = pin!(pump(inbound, pieces, sender));
        let mut sent = false;
        let response = {
            let mut answer = pin!(upstream.send(request));
            loop {
                tokio::select! {
                    biased;
                    pumped = &mut pump, if !sent => match pumped {
                        Ok(()) => sent = true,
                        // Nothing that was searched and found has been sent. Dropping the request breaks it.
                        Err(refusal) => return Err(refusal.into()),
                    },
                    answer = &mut answer => break answer,
                }
            }
        };
        let Ok(response) = response else {
            upstream.cut();
            return response.map(|_| Next::End).map_err(Failed::Refused);
        };
        let next = {
            let mut passing = pin!(self.pass(response, writer, values));
            loop {
                tokio::select! {
                    biased;
                    pumped = &mut pump, if !sent => match pumped {
                        Ok(()) => sent = true,
                        Err(refusal) => break Err(Failed::Broken(Some(refusal))),
                    },
                    passed = &mut passing => break passed,
                }
            }
        };
        match next {
            Ok(Next::Request) if sent => Ok(Next::Request),
            Ok(_) => {
                upstream.cut();
                Ok(Next::End)
            }
            Err(failed) => {
                upstream.cut();
                Err(failed)
            }
        }
    }

    fn request(&self, headers: HeaderMap, body: Body) -> Request<Body> {
        let mut request = Request::new(body);
        *request.method_mut() = self.head.method.clone();
        // The address was read by the same rules.
        *request.uri_mut() = self.head.address().parse().unwrap_or_default();
        *request.headers_mut() = headers;
        request
    }

    /// The request's headers with the secrets inserted, and the secrets' values.
    async fn headers(&self, freshness: Freshness) -> Result<(HeaderMap, Vec<Vec<u8>>), Refusal> {
        let mut headers = self.kept();
        let mut values = Vec::new();
        for injection in &self.injections {
            let value = self.host.value(&injection.secret, freshness).await?;
            let wrong = || Refusal::NoValue {
                name: injection.secret.clone(),
                why: "its value has characters that no header has".to_owned(),
            };
            let (name, text) = injection.header(&value).ok_or_else(wrong)?;
            headers.insert(name, text);
            values.push(value);
        }
        Ok((headers, values))
    }

    /// The headers that are passed on. The host, and how answers are encoded, is not for the program to say.
    fn kept(&self) -> HeaderMap {
        let given = &self.head.headers;
        let named = named_by_connection(given);
        let dropped = |name: &HeaderName| {
            OF_A_CONNECTION.contains(&name.as_str())
                || [HOST, ACCEPT_ENCODING, EXPECT, RANGE, IF_RANGE].contains(name)
                || (named.contains(name) && name != CONTENT_LENGTH)
        };
        let kept = given.iter().filter(|(name, _)| !dropped(name));
        let mut headers: HeaderMap = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Ok(host) = HeaderValue::from_str(&self.host.authority()) {
            headers.insert(HOST, host);
        }
        if self.head.is_websocket {
            socket::ask(&mut headers);
        }
        headers
    }

    /// Passes a WebSocket on.
    async fn pass_socket<R, W>(
        &mut self,
        response: Response<Incoming>,
        inbound: &mut Inbound<R>,
        writer: &mut W,
        values: Vec<Vec<u8>>,
    ) -> Result<Next, Failed>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        *self.status = Some(response.status().as_u16());
        let mask = Mask::new(values.iter().map(Vec::as_slice));
        let mut searched = Searched { known: self.host.known.now(), mask };
        let ended = socket::pass(inbound, writer, self.head, response, &mut searched).await;
        if searched.mask.found {
            self.host.echoed(&self.injections);
        }
        ended
    }

    /// Passes the answer on.
    async fn pass<W>(
        &mut self,
        response: Response<Incoming>,
        writer: &mut W,
        values: Vec<Vec<u8>>,
    ) -> Result<Next, Failed>
    where
        W: AsyncWrite + Unpin,
    {
        *self.status = Some(response.status().as_u16());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Refusal::Server("it changes to another protocol").into());
        }
        let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !response.headers().get_all(CONTENT_ENCODING).iter().all(plain) {
            return Err(Refusal::Server("it compresses its answer although it was told not to").into());
        }
        let mut mask = Mask::new(values.iter().map(Vec::as_slice));
        let answer = answer(&response, &self.head.method, &mut mask);
        write(writer, &answer.head).await?;
        let mut pieces = Body::new(response.into_body()).into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| Failed::Broken(None))?;
            answer.write(writer, &mask.pass(&piece)).await?;
        }
        answer.write(writer, &mask.rest()).await?;
        answer.end(writer).await?;
        if mask.found {
            self.host.echoed(&self.injections);
        }
        Ok(Next::Request)
    }

    fn warn_of_refusal(&self) {
        let secrets: Vec<&str> = self.injections.iter().map(|injection| injection.secret.as_str()).collect();
        tracing::warn!(host = %self.host.name, ?secrets, "a host refuses the value of a bound secret");
    }
}

/// Sends a body while it comes.
async fn pump<R>(inbound: &mut Inbound<R>, pieces: Pieces, sender: Sender<io::Result<Bytes>>) -> Result<(), Refusal>
where
    R: AsyncRead + Unpin,
{
    let Pieces { mut state, mut search, first } = pieces;
    // The host may have answered without reading further. The rest is not needed then.
    if sender.send(Ok(Bytes::from(first))).await.is_err() {
        return std::future::pending().await;
    }
    loop {
        let piece = match inbound.body(&mut state).await {
            Ok(Some(piece)) => search.pass(&piece).map_err(Refusal::Leak),
            Ok(None) => {
                let rest = search.rest();
                if !rest.is_empty() {
                    drop(sender.send(Ok(Bytes::from(rest))).await);
                }
                return Ok(());
            }
            Err(refusal) => Err(refusal),
        };
        match piece {
            Ok(piece) if piece.is_empty() => {}
            Ok(piece) => {
                if sender.send(Ok(Bytes::from(piece))).await.is_err() {
                    return std::future::pending().await;
                }
            }
            Err(refusal) => {
                // Otherwise the host would take what it has for the whole body.
                drop(sender.send(Err(io::ErrorKind::InvalidData.into())).await);
                return Err(refusal);
            }
        }
    }
}

/// The answer as the agent gets it.
struct Answer {
    head: Vec<u8>,
    /// Whether its body has chunks.
    chunked: bool,
    /// Whether it has a body.
    has_body: bool,
}

fn answer(response: &Response<Incoming>, method: &Method, mask: &mut Mask) -> Answer {
    let status = response.status();
    let has_body = *method != Method::HEAD
        && !status.is_informational()
        && ![StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    let chunked = has_body && response.body().size_hint().exact().is_none();
    let mut head =
        format!("HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or_default()).into_bytes();
    let named = named_by_connection(response.headers());
    for (name, value) in response.headers() {
        let dropped = OF_A_CONNECTION.contains(&name.as_str())
            || [CONNECTION, TRANSFER_ENCODING, SET_COOKIE].contains(name)
            || name == "alt-svc"
            || (name == CONTENT_LENGTH && chunked)
            || (named.contains(name) && name != CONTENT_LENGTH);
        if !dropped {
            head.extend([name.as_str().as_bytes(), b": ", &mask.header(value.as_bytes()), b"\r\n"].concat());
        }
    }
    if chunked {
        head.extend(b"transfer-encoding: chunked\r\n");
    } else if has_body && !response.headers().contains_key(CONTENT_LENGTH) {
        head.extend(b"content-length: 0\r\n");
    }
    head.extend(b"\r\n");
    Answer { head, chunked, has_body }
}

impl Answer {
    async fn write<W: AsyncWrite + Unpin>(&self, writer: &mut W, bytes: &[u8]) -> io::Result<()> {
        match (bytes.is_empty() || !self.has_body, self.chunked) {
            (true, _) => Ok(()),
            (false, false) => write(writer, bytes).await,
            (false, true) => {
                let size = format!("{:x}\r\n", bytes.len());
                write(writer, &[size.as_bytes(), bytes, b"\r\n"].concat()).await
            }
        }
    }

    async fn end<W: AsyncWrite + Unpin>(&self, writer: &mut W) -> io::Result<()> {
        if self.chunked { write(writer, b"0\r\n\r\n").await } else { Ok(()) }
    }
}
