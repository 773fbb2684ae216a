//! Connections to hosts to which secrets are bound. TLS ends here, so that the agent's placeholder can be replaced by the
//! value, and nothing else that is a credential passes. A program that takes a base URL needs no TLS: it sends its requests
//! to the proxy of its own network (`base_url.rs`).
//!
//! ```text
//!  agent ── TLS, certificate of the installation's authority ── inbound.rs ─> exchange.rs ── upstream.rs ── TLS ── host
//!                                                               head.rs: one meaning?   │
//!                                                               judge.rs: may it pass?  └─ leak.rs: values overwritten
//!                                                               leak.rs: any secret in it?
//!                                                               socket.rs: the messages of a WebSocket
//! ```

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Resolve;
use super::placeholder::Seed;
use authority::Authority;
use exchange::{Failed, Next, Sides, exchange};
use head::Head;
use inbound::{Inbound, write};
use refusal::Refusal;
use roots::Roots;
pub use run::OpenedHost;
use upstream::Upstream;

mod authority;
mod base_url;
mod binding;
mod exchange;
mod frames;
mod head;
mod inbound;
mod judge;
mod leak;
mod refusal;
pub mod repeating;
mod roots;
mod run;
mod socket;
#[cfg(test)]
pub(crate) mod tests;
pub mod trial;
mod upstream;

pub use authority::AuthorityError;
pub use base_url::{Finding, Forbidden, Way};
pub use binding::{Binding, BoundRun};
pub use leak::{KnownSecrets, Leak, Place};
pub(crate) use leak::{in_address, in_header};
pub use upstream::{Dial, Dialing};

/// How long an agent's program may take to secure its connection.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// Opens connections. One for each daemon.
pub struct Opener {
    directory: PathBuf,
    more: Option<PathBuf>,
    trust: OnceLock<Trust>,
    /// Held while that is made.
    opening: Mutex<()>,
    client: OnceLock<Arc<ClientConfig>>,
    resolve: Resolve,
    known: Arc<KnownSecrets>,
    seed: Seed,
}

/// Whom the two sides of an opened connection trust.
struct Trust {
    roots: Roots,
    authority: Authority,
}

/// Configuration of the opener.
pub struct OpenerSetup<'a> {
    /// Directory of the authority. No agent sees it.
    pub directory: &'a Path,
    /// File with the key from which placeholders are derived.
    pub key: &'a Path,
    /// A file with more trusted certificates, for tests.
    pub more: Option<&'a Path>,
    /// Resolves references to secrets.
    pub resolve: Resolve,
}

/// A request on an opened connection, when it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSeen {
    /// Its method; empty if it was not read.
    pub method: String,
    /// Its path without the query; empty if it was not read, or had a secret in it.
    pub path: String,
    /// Status of the host's answer, if there was one.
    pub status: Option<u16>,
    /// Why it did not pass, in words.
    pub refused: Option<String>,
    /// The value that it had in it.
    pub leak: Option<Leak>,
}

/// Receives requests that have ended. Must not block.
pub type Seen = Arc<dyn Fn(RequestSeen) + Send + Sync>;

/// Why a connection was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its host has no certificate.
    #[error("Hearth has no certificate for it: {0}")]
    Authority(#[from] AuthorityError),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
    /// The program did not accept the certificate, or asked for another host.
    #[error("the program did not accept Hearth's certificate: {0}")]
    NotAccepted(std::io::Error),
    /// It did not begin.
    #[error("the program did not begin to speak TLS in time")]
    Late,
}

impl Opener {
    /// Reads the key of the installation.
    ///
    /// # Errors
    /// [`AuthorityError`] if there is no key.
    pub fn open(setup: OpenerSetup<'_>) -> Result<Self, AuthorityError> {
        let OpenerSetup { directory, key, more, resolve } = setup;
        let seed =
            Seed::of_installation(key).map_err(|source| AuthorityError::File { path: key.to_owned(), source })?;
        let (directory, more) = (directory.to_owned(), more.map(Path::to_owned));
        let (trust, opening, client) = (OnceLock::new(), Mutex::default(), OnceLock::new());
        Ok(Self { directory, more, trust, opening, client, resolve, known: Arc::default(), seed })
    }

    /// The system's certificates and the authority, which is opened when the first agent needs it: a daemon without such
    /// agents starts on a full disk, too.
    fn trust(&self) -> Result<&Trust, AuthorityError> {
        if let Some(trust) = self.trust.get() {
            return Ok(trust);
        }
        let _alone = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trust) = self.trust.get() {
            return Ok(trust);
        }
        let roots = Roots::read(self.more.as_deref());
        let authority = Authority::open(&self.directory, roots.pem(), Vec::new())?;
        Ok(self.trust.get_or_init(|| Trust { roots, authority }))
    }

    /// All values that are searched for in requests.
    #[must_use]
    pub const fn known(&self) -> &Arc<KnownSecrets> {
        &self.known
    }

    /// The file with the certificates that agents trust.
    ///
    /// # Errors
    /// [`AuthorityError`] if there is no authority.
    pub fn bundle(&self) -> Result<PathBuf, AuthorityError> {
        Ok(self.trust()?.authority.bundle())
    }

    /// Serves a connection of an agent to a host until it ends. Each request is reported.
    ///
    /// # Errors
    /// [`OpenError`] if no request could be read.
    pub async fn serve<S>(&self, stream: S, host: &Arc<OpenedHost>, dial: Dial, seen: Seen) -> Result<(), OpenError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let client = self.client()?;
        let acceptor = TlsAcceptor::from(self.trust()?.authority.server(host.name.as_str())?);
        let stream = timeout(HANDSHAKE, acceptor.accept(stream)).await.map_err(|_| OpenError::Late)?;
        let (reader, mut writer) = tokio::io::split(stream.map_err(OpenError::NotAccepted)?);
        let mut inbound = Inbound::new(reader);
        let mut upstream = Upstream::new(host.name.to_string(), client, dial);
        while let Ended::Open = serve_one(&mut inbound, &mut writer, &mut upstream, Served { host, seen: &seen }).await
        {
        }
        // The program may be gone.
        drop(writer.shutdown().await);
        inbound.discard().await;
        Ok(())
    }

    fn client(&self) -> Result<Arc<ClientConfig>, OpenError> {
        if let Some(client) = self.client.get() {
            return Ok(Arc::clone(client));
        }
        let client = self.trust()?.roots.client().map_err(OpenError::Tls)?;
        Ok(Arc::clone(self.client.get_or_init(|| client)))
    }
}

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Another request may come.
    Open,
    Closed,
}

/// For whom a connection is served.
struct Served<'a> {
    host: &'a OpenedHost,
    seen: &'a Seen,
}

/// Serves the next request of a connection.
async fn serve_one<R, W>(inbound: &mut Inbound<R>, writer: &mut W, upstream: &mut Upstream, served: Served<'_>) -> Ended
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let head = match inbound.head().await {
        Ok(Some(head)) => head,
        Ok(None) => return Ended::Closed,
        Err(refusal) => {
            (served.seen)(RequestSeen::of(None, None, Some(&refusal)));
            return refuse(writer, &refusal).await;
        }
    };
    answer_one(inbound, writer, upstream, served, &head).await
}

/// Serves a request whose head was read.
async fn answer_one<R, W>(
    inbound: &mut Inbound<R>,
    writer: &mut W,
    upstream: &mut Upstream,
    served: Served<'_>,
    head: &Head,
) -> Ended
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut status = None;
    let sides = Sides { inbound, writer: &mut *writer, upstream };
    let ended = exchange(sides, served.host, head, &mut status).await;
    let refusal = match &ended {
        Err(Failed::Refused(refusal) | Failed::Broken(Some(refusal))) => Some(refusal),
        _ => None,
    };
    (served.seen)(RequestSeen::of(Some(head), status, refusal));
    match ended {
        Ok(Next::Request) => Ended::Open,
        Ok(Next::End) | Err(Failed::Broken(_)) => Ended::Closed,
        Err(Failed::Refused(refusal)) => refuse(writer, &refusal).await,
    }
}

async fn refuse<W: AsyncWrite + Unpin>(writer: &mut W, refusal: &Refusal) -> Ended {
    // The program may be gone.
    drop(write(writer, &refusal.answer()).await);
    Ended::Closed
}

impl RequestSeen {
    fn of(head: Option<&Head>, status: Option<u16>, refusal: Option<&Refusal>) -> Self {
        let leak = match refusal {
            Some(Refusal::Leak(leak)) => Some(leak.clone()),
            _ => None,
        };
        let is_shown = leak.as_ref().is_none_or(|leak| leak.place != Place::Address);
        Self {
            method: head.map(|head| head.method.to_string()).unwrap_or_default(),
            path: head.filter(|_| is_shown).map(|head| head.path.clone()).unwrap_or_default(),
            status,
            refused: refusal.map(ToString::to_string),
            leak,
        }
    }
}
