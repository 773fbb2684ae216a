//! The host's side of an opened connection: dialed by the gate, verified, kept while the agent's connection lasts.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::refusal::Refusal;

/// How long securing a connection may take.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// Connects to the host, at an address that was judged. The error is for people.
pub type Dial = Arc<dyn Fn() -> Dialing + Send + Sync>;
/// A connection that is being made.
pub type Dialing = Pin<Box<dyn Future<Output = Result<TcpStream, String>> + Send>>;

/// The way to one host.
pub(super) struct Upstream {
    host: String,
    client: Arc<ClientConfig>,
    dial: Dial,
    connection: Option<Connection>,
}

/// A connection. It ends when this is dropped.
struct Connection {
    sender: SendRequest<Body>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Upstream {
    pub(super) const fn new(host: String, client: Arc<ClientConfig>, dial: Dial) -> Self {
        Self { host, client, dial, connection: None }
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, Refusal> {
        let connection = self.connection().await?;
        let sent = connection.sender.send_request(request).await;
        sent.map_err(|error| {
            self.connection = None;
            Refusal::Unreached(words(&error))
        })
    }

    /// Ends the connection: an answer was not read to its end, or a request not sent to its end.
    pub(super) fn cut(&mut self) {
        self.connection = None;
    }

    async fn connection(&mut self) -> Result<&mut Connection, Refusal> {
        let ready = match &mut self.connection {
            Some(connection) => connection.sender.ready().await.is_ok(),
            None => false,
        };
        if !ready {
            self.connection = None;
            let made = timeout(HANDSHAKE, self.connect()).await;
            self.connection =
                Some(made.unwrap_or_else(|_| Err(Refusal::Unreached("it does not answer in time".to_owned())))?);
        }
        self.connection.as_mut().ok_or_else(|| Refusal::Unreached("the connection ended".to_owned()))
    }

    async fn connect(&self) -> Result<Connection, Refusal> {
        let stream = (self.dial)().await.map_err(Refusal::Unreached)?;
        // Only latency is at stake.
        drop(stream.set_nodelay(true));
        let name = ServerName::try_from(self.host.clone()).map_err(|error| Refusal::Unreached(words(&error)))?;
        let secured = TlsConnector::from(Arc::clone(&self.client)).connect(name, stream).await;
        let secured = secured.map_err(|error| {
            Refusal::Unreached(format!("no secure connection (TLS) could be made: {}", words(&error)))
        })?;
        let (sender, connection) =
            handshake(TokioIo::new(secured)).await.map_err(|error| Refusal::Unreached(words(&error)))?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(error = words(&error), "a connection to a host with a bound secret broke");
            }
        });
        Ok(Connection { sender, task })
    }
}

/// The connection on which an answer came that changes the protocol. None if it has ended.
pub(super) async fn upgraded(response: Response<Incoming>) -> Option<TokioIo<Upgraded>> {
    hyper::upgrade::on(response).await.ok().map(TokioIo::new)
}

/// A body from the pieces that arrive. An error in it breaks the request.
pub(super) fn body_of(pieces: Receiver<io::Result<Bytes>>) -> Body {
    Body::from_stream(futures_util::stream::unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        Some((piece, pieces))
    }))
}

/// An error with its causes.
pub(super) fn words(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
