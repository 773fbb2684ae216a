//! Where the gateway listens for one incarnation: a Unix socket in a directory of its own, or a loopback port.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

use crate::agent_socket;
use crate::connections::{self, Connection, ConnectionHandle, ConnectionLimit};
use crate::model::gateway::SOCKET;

/// Maximum number of connections of an incarnation, if the file descriptor limit allows it. A new one then evicts an
/// idle one.
const CONNECTIONS_MAX: usize = 256;
/// Each incarnation gets an eighth of the descriptors available for connections.
const PARTS: u64 = 8;
/// Pause after a connection could not be accepted.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Both directions of a connection.
trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// A listening socket.
enum Socket {
    Unix(UnixListener),
    Port(TcpListener),
}

/// The listener of one incarnation.
pub(super) struct AgentListener {
    socket: Socket,
    limit: ConnectionLimit,
    ended: watch::Receiver<bool>,
}

impl AgentListener {
    /// Listens in a directory, which is created if it is missing and belongs to `owner` alone. A daemon that was
    /// restarted finds the directory where a container still sees it. Call it within the async runtime.
    pub(super) fn in_directory(directory: &Path, owner: Option<u32>, ended: watch::Receiver<bool>) -> io::Result<Self> {
        let listener = agent_socket::listen(directory, SOCKET, owner)?;
        Ok(Self::of(Socket::Unix(UnixListener::from_std(listener)?), ended))
    }

    /// Listens on a free loopback port, which is returned. Call it within the async runtime.
    pub(super) fn on_port(ended: watch::Receiver<bool>) -> io::Result<(Self, u16)> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok((Self::of(Socket::Port(TcpListener::from_std(listener)?), ended), port))
    }

    fn of(socket: Socket, ended: watch::Receiver<bool>) -> Self {
        let limit = ConnectionLimit::new(connections::within_descriptors(CONNECTIONS_MAX, PARTS));
        Self { socket, limit, ended }
    }

    async fn stream(&self) -> io::Result<Box<dyn Duplex>> {
        match &self.socket {
            Socket::Unix(listener) => Ok(Box::new(listener.accept().await?.0)),
            Socket::Port(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// Waits until the incarnation has ended.
pub(super) async fn ended(mut ended: watch::Receiver<bool>) {
    // A sender that is gone has ended, too.
    drop(ended.wait_for(|ended| *ended).await);
}

impl Listener for AgentListener {
    type Io = Caller;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.stream().await {
                Ok(stream) => {
                    let connection = self.limit.acquire().await;
                    let ended: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(ended(self.ended.clone()));
                    return (Caller { stream, connection, ended }, ());
                }
                Err(error) => {
                    tracing::warn!(%error, "the model gateway cannot accept a connection");
                    if connections::out_of_descriptors(&error) {
                        self.limit.evict_idle();
                    }
                    tokio::time::sleep(BETWEEN_TRIES).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(())
    }
}

/// One connection. It breaks when the incarnation has ended, or another connection gets its slot.
pub(super) struct Caller {
    stream: Box<dyn Duplex>,
    connection: Connection,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Caller {
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let gone = self.ended.as_mut().poll(cx).is_ready() || self.connection.poll_evicted(cx).is_ready();
        if gone { Poll::Ready(io::ErrorKind::ConnectionAborted.into()) } else { Poll::Pending }
    }
}

impl Connected<IncomingStream<'_, AgentListener>> for ConnectionHandle {
    fn connect_info(stream: IncomingStream<'_, AgentListener>) -> Self {
        stream.io().connection.handle()
    }
}

impl AsyncRead for Caller {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(gone) = self.poll_gone(cx) {
            return Poll::Ready(Err(gone));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Caller {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Poll::Ready(gone) = self.poll_gone(cx) {
            return Poll::Ready(Err(gone));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Removes a directory with its socket. What cannot be removed is harmless: the placeholder is void.
pub(super) fn remove(directory: &Path) {
    agent_socket::remove(directory, &[SOCKET]);
}
