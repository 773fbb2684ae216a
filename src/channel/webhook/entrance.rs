//! The socket that a webhook channel listens on, and whatever else answers over HTTP: a bounded number of callers, none of
//! which may dawdle.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Callers at once; more wait for their turn to be let in.
const CALLERS_MAX: usize = 128;
/// Time a caller has for one request, from its last answer on, whether it says nothing or very little at a time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Looks at an address that is in use: whoever listened there before may be about to go.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A listening socket.
pub struct Entrance {
    listener: TcpListener,
    seats: Arc<Semaphore>,
}

impl Entrance {
    /// Listens; waits for a moment for somebody else to stop.
    ///
    /// # Errors
    /// Those of listening.
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
    /// Those of listening.
    pub async fn open_now(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, seats: Arc::new(Semaphore::new(CALLERS_MAX)) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Those of asking the system.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Listener for Entrance {
    type Io = Caller;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // Nobody closes the semaphore.
        let seat = Arc::clone(&self.seats).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (Caller { stream, patience: patience(), _seat: seat }, address)
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.address()
    }
}

/// One connection.
pub struct Caller {
    stream: TcpStream,
    patience: Pin<Box<Sleep>>,
    _seat: Option<OwnedSemaphorePermit>,
}

fn patience() -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(PATIENCE))
}

impl AsyncRead for Caller {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if self.patience.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Caller {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.patience = patience();
        } else if self.patience.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
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

    /// A caller who stays, and what the host has of it.
    async fn called() -> (TcpStream, Caller) {
        let mut entrance = Entrance::open(([127, 0, 0, 1], 0).into()).await.unwrap();
        let stays = TcpStream::connect(entrance.address().unwrap()).await.unwrap();
        (stays, Listener::accept(&mut entrance).await.0)
    }

    /// No patience any more.
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
    async fn an_answer_gives_time_for_the_next_request() {
        let (mut stays, mut caller) = called().await;
        stays.write_all(b"POST").await.unwrap();
        caller.patience = over().await;
        caller.write_all(b"HTTP").await.unwrap();
        assert_eq!(caller.read_u8().await.unwrap(), b'P');
        assert!(caller.patience.deadline() > tokio::time::Instant::now() + PATIENCE / 2);
    }
}
