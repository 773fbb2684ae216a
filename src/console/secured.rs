//! Connections of browsers, with TLS or without.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::channel::webhook::{Caller, Entrance};
use crate::connections::ConnectionHandle;

/// The listening socket.
pub(super) struct SecuredEntrance {
    entrance: Entrance,
    tls: Option<TlsAcceptor>,
}

impl SecuredEntrance {
    pub(super) fn new(entrance: Entrance, tls: Option<Arc<ServerConfig>>) -> Self {
        Self { entrance, tls: tls.map(TlsAcceptor::from) }
    }
}

impl Listener for SecuredEntrance {
    type Io = Secured;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (caller, address) = Listener::accept(&mut self.entrance).await;
        let handle = caller.handle();
        let stream = match &self.tls {
            // A browser that takes its time with the handshake keeps no other one waiting: it goes on when the request is
            // read.
            Some(tls) => Stream::Handshake(Box::new(tls.accept(caller))),
            None => Stream::Plain(caller),
        };
        (Secured { handle, stream }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.entrance.address()
    }
}

pub(super) struct Secured {
    handle: ConnectionHandle,
    stream: Stream,
}

enum Stream {
    Plain(Caller),
    Handshake(Box<Accept<Caller>>),
    Open(Box<TlsStream<Caller>>),
    /// The handshake failed.
    Closed,
}

/// Where a request comes from.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) connection: ConnectionHandle,
    pub(super) address: IpAddr,
}

impl Connected<IncomingStream<'_, SecuredEntrance>> for Peer {
    fn connect_info(stream: IncomingStream<'_, SecuredEntrance>) -> Self {
        Self { connection: stream.io().handle.clone(), address: stream.remote_addr().ip() }
    }
}

/// A stream on which bytes can be read and written.
enum Ready<'a> {
    Plain(Pin<&'a mut Caller>),
    Open(Pin<&'a mut TlsStream<Caller>>),
}

impl Secured {
    /// Goes on with the handshake.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        if let Stream::Handshake(accept) = &mut self.stream {
            match Pin::new(accept).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(stream)) => self.stream = Stream::Open(Box::new(stream)),
                Poll::Ready(Err(error)) => {
                    self.stream = Stream::Closed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        match &mut self.stream {
            Stream::Plain(caller) => Poll::Ready(Ok(Ready::Plain(Pin::new(caller)))),
            Stream::Open(stream) => Poll::Ready(Ok(Ready::Open(Pin::new(stream.as_mut())))),
            Stream::Handshake(_) | Stream::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for Secured {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.poll_ready(cx) {
            Poll::Ready(Ok(Ready::Plain(stream))) => stream.poll_read(cx, into),
            Poll::Ready(Ok(Ready::Open(stream))) => stream.poll_read(cx, into),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.poll_ready(cx) {
            Poll::Ready(Ok(Ready::Plain(stream))) => stream.poll_write(cx, bytes),
            Poll::Ready(Ok(Ready::Open(stream))) => stream.poll_write(cx, bytes),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.poll_ready(cx) {
            Poll::Ready(Ok(Ready::Plain(stream))) => stream.poll_flush(cx),
            Poll::Ready(Ok(Ready::Open(stream))) => stream.poll_flush(cx),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection that never finished its handshake is only closed.
        match &mut self.stream {
            Stream::Plain(caller) => Pin::new(caller).poll_shutdown(cx),
            Stream::Open(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            Stream::Handshake(_) | Stream::Closed => Poll::Ready(Ok(())),
        }
    }
}
