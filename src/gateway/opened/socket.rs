//! WebSockets with hosts to which secrets are bound. The request that begins one was judged as every request; after that,
//! each message is searched before it passes on.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CONNECTION, HeaderName, SET_COOKIE, UPGRADE};
use axum::http::{HeaderValue, Response};
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use super::exchange::{Failed, Next};
use super::frames::{BadFrame, Frames, Kind, Message, Sender};
use super::head::Head;
use super::inbound::{Inbound, write};
use super::leak::{Leak, Mask, Place};
use super::refusal::Refusal;
use super::upstream::upgraded;
use crate::gateway::answer::{OF_A_CONNECTION, named_by_connection};
use crate::model::secrets::Secrets;

/// Says what may be done to messages. Nothing is: a compressed message could not be searched.
pub(super) const EXTENSIONS: &str = "sec-websocket-extensions";
/// How much is read at once.
const PIECE: usize = 16 << 10;
/// How long a side may take to agree to the end.
const CLOSING: Duration = Duration::from_secs(10);
/// The codes with which a WebSocket ends, for a message that must not pass, one that is malformed, and one that is too long.
const POLICY: u16 = 1008;
const MALFORMED: u16 = 1002;
const TOO_LONG: u16 = 1009;

/// What messages are searched for.
pub(super) struct Searched {
    /// What no message of the agent may have in it.
    pub(super) known: Arc<Secrets>,
    /// What is overwritten in messages of the host.
    pub(super) mask: Mask,
}

/// Adds the headers that ask for a WebSocket, without extensions.
pub(super) fn ask(headers: &mut axum::http::HeaderMap) {
    headers.remove(EXTENSIONS);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// Checks that the host accepted the upgrade to WebSocket, and without extensions.
fn check_answer(head: &Head, response: &Response<Incoming>) -> Result<(), Refusal> {
    let mut upgrades = response.headers().get_all(UPGRADE).iter();
    let agreed = match (upgrades.next(), upgrades.next()) {
        (Some(to), None) => to.as_bytes().eq_ignore_ascii_case(b"websocket"),
        _ => false,
    };
    if !head.is_websocket || !agreed {
        return Err(Refusal::Server("it changes to another protocol"));
    }
    if response.headers().contains_key(EXTENSIONS) {
        return Err(Refusal::Server("it changes the messages of the WebSocket in a way that was not asked for"));
    }
    Ok(())
}

/// Passes a WebSocket on until one side ends it. Returns why a message was refused, if one was.
pub(super) async fn pass<R, W>(
    inbound: &mut Inbound<R>,
    writer: &mut W,
    head: &Head,
    response: Response<Incoming>,
    searched: &mut Searched,
) -> Result<Next, Failed>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    check_answer(head, &response)?;
    let answer = answer(&response, &mut searched.mask);
    let host = upgraded(response).await.ok_or(Refusal::Server("it ended the WebSocket at once"))?;
    let (mut from_host, mut to_host) = tokio::io::split(host);
    write(writer, &answer).await?;
    let (Searched { known, mask }, mut frames) = (searched, Frames::new(Sender::Program));
    frames.push(&inbound.take());
    let ended = {
        let up = async {
            loop {
                if send_on(&mut frames, &mut to_host, |message| clean(known, message)).await? == Sent::Close {
                    return Ok(());
                }
                frames.push(&some(inbound.read_on().await?)?);
            }
        };
        let down = async {
            let mut frames = Frames::new(Sender::Host);
            let mut piece = vec![0; PIECE];
            loop {
                if send_on(&mut frames, writer, |message| Ok(masked(mask, message))).await? == Sent::Close {
                    return Ok(());
                }
                let read = from_host.read(&mut piece).await?;
                frames.push(some(piece.get(..read).unwrap_or_default())?);
            }
        };
        both(up, down).await
    };
    // Either side may be gone.
    drop(to_host.shutdown().await);
    let Err(Stopped::Refused { code, refusal }) = ended else { return Ok(Next::End) };
    drop(write(writer, &Message::close(code, &refusal.to_string()).written()).await);
    Err(Failed::Broken(Some(refusal)))
}

/// Runs both directions. When one side has ended the WebSocket, the other one has a moment to agree.
async fn both(
    up: impl Future<Output = Result<(), Stopped>>,
    down: impl Future<Output = Result<(), Stopped>>,
) -> Result<(), Stopped> {
    let (mut up, mut down) = (pin!(up), pin!(down));
    let agreed = tokio::select! {
        up = &mut up => {
            up?;
            timeout(CLOSING, down).await
        }
        down = &mut down => {
            down?;
            timeout(CLOSING, up).await
        }
    };
    agreed.unwrap_or(Ok(()))
}

/// Bytes that have come. None at the end of a connection.
fn some<B: AsRef<[u8]>>(bytes: B) -> Result<B, Stopped> {
    if bytes.as_ref().is_empty() { Err(Stopped::Broken) } else { Ok(bytes) }
}

/// Why a WebSocket ends before its time.
enum Stopped {
    /// A message does not pass.
    Refused { code: u16, refusal: Refusal },
    /// A side is gone.
    Broken,
}

impl From<io::Error> for Stopped {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl From<BadFrame> for Stopped {
    fn from(bad: BadFrame) -> Self {
        match bad {
            BadFrame::Form => Self::refused(MALFORMED, Refusal::Form("a message of the WebSocket is malformed")),
            BadFrame::TooLong => {
                Self::refused(TOO_LONG, Refusal::Form("a message of the WebSocket is longer than 1 MiB"))
            }
        }
    }
}

impl Stopped {
    const fn refused(code: u16, refusal: Refusal) -> Self {
        Self::Refused { code, refusal }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Some,
    /// The end of the WebSocket, among others.
    Close,
}

/// Sends the messages on that have come whole.
async fn send_on<W: AsyncWrite + Unpin>(
    frames: &mut Frames,
    writer: &mut W,
    mut judge: impl FnMut(Message) -> Result<Message, Stopped>,
) -> Result<Sent, Stopped> {
    while let Some(message) = frames.next()? {
        let message = judge(message)?;
        let kind = message.kind;
        write(writer, &message.written()).await?;
        if kind == Kind::Close {
            return Ok(Sent::Close);
        }
    }
    Ok(Sent::Some)
}

fn clean(known: &Secrets, message: Message) -> Result<Message, Stopped> {
    match known.find(&message.payload) {
        Some(name) => {
            let leak = Leak { name: name.to_owned(), place: Place::Message };
            Err(Stopped::refused(POLICY, Refusal::Leak(leak)))
        }
        None => Ok(message),
    }
}

fn masked(mask: &mut Mask, mut message: Message) -> Message {
    message.payload = mask.header(&message.payload).into_owned();
    message
}

/// The head of the answer as the agent gets it.
fn answer(response: &Response<Incoming>, mask: &mut Mask) -> Vec<u8> {
    let mut head = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n".to_vec();
    let named = named_by_connection(response.headers());
    let dropped = |name: &HeaderName| {
        OF_A_CONNECTION.contains(&name.as_str())
            || *name == SET_COOKIE
            || name == "content-length"
            || named.contains(name)
    };
    for (name, value) in response.headers().iter().filter(|(name, _)| !dropped(name)) {
        head.extend([name.as_str().as_bytes(), b": ", &mask.header(value.as_bytes()), b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    head
}
