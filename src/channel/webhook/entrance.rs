//! The listening socket of webhook channels and of Hearth's other HTTP servers. It limits connections in number and
//! time; when a new one arrives, the most idle one is closed.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

use crate::connections::{self, Connection, ConnectionHandle, ConnectionLimit, Priority};

/// Maximum number of connections, if the file descriptor limit allows it.
const CALLERS_MAX: usize = 128;
/// Each socket gets a quarter of the descriptors available for connections.
const PARTS: u64 = 4;
/// Pause after a connection could not be accepted.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// Limit of bodies in memory, in KiB.
const ROOM_KIB: usize = 64 * 1_024;
/// Part of that limit reserved for each caller, enough for most messages, so that other callers cannot block them.
/// Longer bodies use the shared rest, at the expense of callers with less data.
pub(super) const OWN_KIB: usize = 128;
/// Time limit for one request, counted from the last answer, even if data trickles in.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that an unauthenticated caller must send from time to time to be preferred over silent ones.
const MUCH: usize = 16 * 1_024;
/// How often to try an address that is in use: the previous listener may be about to close.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A listening socket.
pub struct Entrance {
    listener: TcpListener,
    limit: ConnectionLimit,
}

impl Entrance {
    /// Listens. If the address is in use, waits a moment for the other listener to close.
    ///
    /// # Errors
    /// If listening fails.
    pub async fn open(address: SocketAddr) -> std::io::Result<Self> {
        let mut looks = 0;
        loop {
            match Self::open_now(address).await {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && looks < LOOKS => looks += 1,
                opened => return opened,
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Listens, or fails at once.
    ///
    /// # Errors
    /// If listening fails.
    pub async fn open_now(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let callers = connections::within_descriptors(CALLERS_MAX, PARTS);
        Ok(Self { listener, limit: ConnectionLimit::with_budget(callers, ROOM_KIB - CALLERS_MAX * OWN_KIB) })
    }

    /// Like [`Self::open_now`], for another number of callers, without a budget for their bodies.
    ///
    /// # Errors
    /// If listening fails.
    pub async fn open_for(address: SocketAddr, callers: usize) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, limit: ConnectionLimit::new(connections::within_descriptors(callers, PARTS)) })
    }

    /// The local address.
    ///
    /// # Errors
    /// If the system does not return it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Listener for Entrance {
    type Io = Caller;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match TcpListener::accept(&self.listener).await {
                Ok((stream, address)) => {
                    let connection = self.limit.acquire().await;
                    return (Caller { stream, patience: patience(), brought: 0, connection }, address);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    if connections::out_of_descriptors(&error) {
                        self.limit.evict_idle();
                    }
                    tokio::time::sleep(BETWEEN_TRIES).await;
                }
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.address()
    }
}

pub struct Caller {
    stream: TcpStream,
    patience: Pin<Box<Sleep>>,
    /// Bytes received since they last reached the minimum, or since the last answer.
    brought: usize,
    connection: Connection,
}

fn patience() -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(PATIENCE))
}

impl Caller {
    /// The limit's view of the connection.
    #[must_use]
    pub fn handle(&self) -> ConnectionHandle {
        self.connection.handle()
    }

    /// Ready when the connection has to close: its time is up, or another caller gets its slot.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Error> {
        if self.patience.as_mut().poll(cx).is_ready() {
            return Poll::Ready(std::io::ErrorKind::TimedOut.into());
        }
        self.connection.poll_evicted(cx).map(|()| std::io::ErrorKind::ConnectionAborted.into())
    }
}

impl Connected<IncomingStream<'_, Entrance>> for ConnectionHandle {
    fn connect_info(stream: IncomingStream<'_, Entrance>) -> Self {
        stream.io().connection.handle()
    }
}

impl AsyncRead for Caller {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if let Poll::Ready(gone) = self.poll_gone(cx) {
            return Poll::Ready(Err(gone));
        }
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        self.brought = self.brought.saturating_add(into.filled().len().saturating_sub(before));
        if self.brought >= MUCH {
            self.brought = 0;
            self.connection.handle().raise(Priority::Uploading);
        }
        read
    }
}

impl AsyncWrite for Caller {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.patience = patience();
            self.brought = 0;
            self.connection.handle().answered();
        } else if let Poll::Ready(gone) = self.poll_gone(cx) {
            return Poll::Ready(Err(gone));
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A connected client, and the server's side of its connection.
    async fn called() -> (TcpStream, Caller) {
        let mut entrance = Entrance::open(([127, 0, 0, 1], 0).into()).await.unwrap();
        let stays = TcpStream::connect(entrance.address().unwrap()).await.unwrap();
        (stays, Listener::accept(&mut entrance).await.0)
    }

    /// A time limit that has already passed.
    async fn over() -> Pin<Box<Sleep>> {
        let mut patience = Box::pin(tokio::time::sleep(Duration::ZERO));
        patience.as_mut().await;
        patience
    }

    #[tokio::test]
    async fn whoever_dawdles_is_cut_off() {
        let (mut stays, mut caller) = called().await;
        stays.write_all(b"POST").await.unwrap();
        caller.patience = over().await;
        let read = caller.read_u8().await;
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::TimedOut, "although there is something to read");
    }

    #[tokio::test]
    async fn whoever_is_idle_for_longest_goes_when_somebody_else_comes() {
        let mut entrance = Entrance::open(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = entrance.address().unwrap();
        let (mut stay, mut callers) = (Vec::new(), Vec::new());
        for _ in 0..CALLERS_MAX {
            stay.push(TcpStream::connect(address).await.unwrap());
            callers.push(Listener::accept(&mut entrance).await.0);
        }
        callers[0].write_all(b"HTTP").await.unwrap();
        stay[1].write_all(&[b'x'; MUCH]).await.unwrap();
        callers[1].read_exact(&mut [0; MUCH]).await.unwrap();
        callers[2].connection.handle().raise(Priority::Serving);
        stay[3].write_all(b"POST").await.unwrap();
        assert_eq!(callers[3].read_u8().await.unwrap(), b'P');
        let _comes = TcpStream::connect(address).await.unwrap();
        let going = async {
            let gone = callers[3].read_u8().await;
            assert_eq!(
                gone.unwrap_err().kind(),
                std::io::ErrorKind::ConnectionAborted,
                "although there is more to read"
            );
            drop(callers.remove(3));
        };
        let ((_comes, _), ()) = tokio::join!(Listener::accept(&mut entrance), going);
    }

    #[tokio::test]
    async fn an_answer_gives_time_for_the_next_request() {
        let (mut stays, mut caller) = called().await;
        stays.write_all(b"POST").await.unwrap();
        caller.patience = over().await;
        caller.write_all(b"HTTP").await.unwrap();
        assert_eq!(caller.read_u8().await.unwrap(), b'P');
        assert!(caller.patience.deadline() > tokio::time::Instant::now() + PATIENCE / 2);
    }
}
