//! Copies a connection in both directions, and checks that it goes to the host that was judged.

use std::io;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio::sync::Notify;

use super::answer::{ALERT, refused};
use super::copy::{copy, read_some, write_all};
use super::hello;
use super::leak::Search;
use super::plain::{BodyOnly, Requests};
use super::request::Framing;
use super::serve::Seen;
use crate::gateway::opened::KnownSecrets;
use crate::model::network::{Endpoint, Host, NetRefusal, NetVerdict};

/// What may pass from an agent to a server.
#[derive(Debug)]
pub(super) enum Passing {
    /// Bytes. `tls`: they have to begin like TLS. If they do, the handshake has to name the host.
    Bytes { tls: bool },
    /// HTTP requests for the host.
    Requests(Mutex<Requests>),
    /// The body of one request.
    Body(BodyOnly),
}

impl Passing {
    /// What may pass in a connection that the program asked for.
    pub(super) fn of_tunnel(to: &Endpoint, known: &Arc<KnownSecrets>) -> Self {
        match to.port {
            80 => Self::Requests(Mutex::new(Requests::new(to.clone(), Search::new(known)))),
            port => Self::Bytes { tls: port == 443 },
        }
    }

    /// What may pass after the head of a request.
    pub(super) fn of_request(to: &Endpoint, framing: Framing, known: &Arc<KnownSecrets>) -> Self {
        Self::Body(Requests::body_of(to.clone(), framing, Search::new(known)))
    }
}

/// Why the direction to the server ended before its time.
enum Stopped {
    Refused(NetRefusal),
    Broken,
}

impl From<io::Error> for Stopped {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl From<NetRefusal> for Stopped {
    fn from(refusal: NetRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Copies until the server has ended. Returns why the connection was refused in the end, if it was.
pub(super) async fn relay(
    seen: &Seen,
    agent: UnixStream,
    upstream: TcpStream,
    rest: Vec<u8>,
    passing: Passing,
) -> Option<NetRefusal> {
    let (from_agent, to_agent) = agent.into_split();
    let (from_server, to_server) = upstream.into_split();
    let up = Up { seen, from: from_agent, to: to_server, rest };
    let refusal = match passing {
        Passing::Bytes { tls } => {
            let down = copy(&from_server, &to_agent, &seen.down, |_| {});
            both(down, up.bytes(tls)).await
        }
        Passing::Body(body) => {
            let down = copy(&from_server, &to_agent, &seen.down, |_| {});
            both(down, up.body(body)).await
        }
        Passing::Requests(requests) => {
            let answered = Notify::new();
            let down = copy(&from_server, &to_agent, &seen.down, |first| {
                lock(&requests).answered(first);
                answered.notify_one();
            });
            both(down, up.requests(&requests, &answered)).await
        }
    };
    let refusal = refusal?;
    // In the middle of an answer, further bytes would be taken for a part of it.
    if seen.down.load(Ordering::Relaxed) == 0 {
        let words = match refusal {
            NetRefusal::OtherServerName => ALERT.to_vec(),
            _ => refused(seen.endpoint(), &NetVerdict::Refused(refusal.clone())),
        };
        // A program that is gone hears nothing.
        drop(write_all(&to_agent, &words, &seen.down).await);
    }
    Some(refusal)
}

/// Runs both directions until the server has ended, or the other direction was refused.
async fn both(
    down: impl Future<Output = io::Result<()>>,
    up: impl Future<Output = Result<(), Stopped>>,
) -> Option<NetRefusal> {
    let (mut down, mut up) = (pin!(down), pin!(up));
    let up = tokio::select! {
        _ = &mut down => return None,
        up = &mut up => up,
    };
    match up {
        Ok(()) => {
            // How it ends makes no difference.
            drop(down.await);
            None
        }
        Err(Stopped::Refused(refusal)) => Some(refusal),
        Err(Stopped::Broken) => None,
    }
}

/// The direction from an agent to a server. When it is over, the server is told so.
struct Up<'s> {
    seen: &'s Seen,
    from: unix::OwnedReadHalf,
    to: tcp::OwnedWriteHalf,
    /// Bytes that have come already.
    rest: Vec<u8>,
}

impl Up<'_> {
    async fn bytes(self, tls: bool) -> Result<(), Stopped> {
        let Self { seen, from, to, rest: mut held } = self;
        if held.is_empty() {
            held = read_some(&from).await?;
        }
        if tls || hello::is_begun(&held) {
            let hello = loop {
                if let Some(hello) = hello::read(&held).map_err(|_| NetRefusal::NotTls)? {
                    break hello;
                }
                let more = read_some(&from).await?;
                if more.is_empty() {
                    return Ok(());
                }
                held.extend(more);
            };
            check_server(hello.server.as_deref(), &seen.endpoint().host)?;
        }
        write_all(&to, &held, &seen.up).await?;
        drop(held);
        Ok(copy(&from, &to, &seen.up, |_| {}).await?)
    }

    async fn requests(self, requests: &Mutex<Requests>, answered: &Notify) -> Result<(), Stopped> {
        let mut bytes = self.rest;
        loop {
            let passed = lock(requests).pass(&bytes)?;
            write_all(&self.to, &passed, &self.seen.up).await?;
            bytes = tokio::select! {
                more = read_some(&self.from) => more?,
                () = answered.notified() => {
                    bytes.clear();
                    continue;
                }
            };
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    async fn body(self, mut body: BodyOnly) -> Result<(), Stopped> {
        let mut bytes = self.rest;
        loop {
            let passed = body.pass(&bytes)?;
            write_all(&self.to, &passed, &self.seen.up).await?;
            bytes = read_some(&self.from).await?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Whether a TLS client means the host that was judged.
fn check_server(named: Option<&str>, host: &Host) -> Result<(), NetRefusal> {
    let fits = match (named, host) {
        (Some(named), Host::Name(name)) => named.eq_ignore_ascii_case(name.as_str()),
        (None, Host::Address(_)) => true,
        (None, Host::Name(_)) | (Some(_), Host::Address(_)) => false,
    };
    if fits { Ok(()) } else { Err(NetRefusal::OtherServerName) }
}

fn lock(requests: &Mutex<Requests>) -> MutexGuard<'_, Requests> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}
