//! A connection to a server, with TLS or without. Every wait has an end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::settings::{Security, Server};

/// How long connecting, a piece of an answer and writing may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Longest line of a server.
const LINE_MAX: usize = 1 << 20;

/// What a server does not do as it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The account is refused.
    #[error("the server does not accept the user or the token: {0}")]
    Credentials(String),
    /// The network fails.
    #[error("{0}")]
    Lost(#[from] io::Error),
    /// It says something else than expected.
    #[error("{0}")]
    Odd(String),
}

impl Trouble {
    /// Nothing came in the time that there was.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::Lost(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }
}

/// Whom TLS trusts.
#[derive(Debug, Clone)]
pub(crate) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// The authorities of the system, or those given in PEM.
    pub(crate) fn of(authorities: Option<&str>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    let certificate = certificate.map_err(|error| format!("`certificates` is no PEM: {error:?}"))?;
                    roots.add(certificate).map_err(|error| format!("`certificates` cannot be used: {error}"))?;
                }
                if roots.is_empty() {
                    return Err("`certificates` has no certificate in PEM".to_owned());
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

pub(crate) struct Connection {
    stream: Stream,
    read: Vec<u8>,
    /// Bytes of `read` that were given away.
    taken: usize,
}

impl Connection {
    pub(crate) fn open(server: &Server, trust: &Trust) -> Result<Self, Trouble> {
        let unreachable = |error: io::Error| Trouble::Odd(format!("{} cannot be reached: {error}", server.host));
        let addresses = (server.host.as_str(), server.port).to_socket_addrs().map_err(unreachable)?;
        let mut last = io::Error::from(ErrorKind::NotFound);
        for address in addresses.take(4) {
            match TcpStream::connect_timeout(&address, PATIENCE / 3) {
                Ok(socket) => {
                    socket.set_nodelay(true)?;
                    socket.set_read_timeout(Some(PATIENCE))?;
                    socket.set_write_timeout(Some(PATIENCE))?;
                    let mut connection = Self { stream: Stream::Plain(socket), read: Vec::new(), taken: 0 };
                    if server.security == Security::Tls {
                        connection = connection.secured(&server.host, trust)?;
                    }
                    return Ok(connection);
                }
                Err(error) => last = error,
            }
        }
        Err(unreachable(last))
    }

    /// Begins TLS. What the server said before is forgotten: an attacker on the way may have said it.
    pub(crate) fn secured(self, host: &str, trust: &Trust) -> Result<Self, Trouble> {
        let Stream::Plain(mut socket) = self.stream else { return Err(Trouble::Odd("TLS was begun twice".to_owned())) };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| Trouble::Odd(error.to_string()))?;
        let client = ClientConnection::new(Arc::clone(&trust.0), name);
        let mut client = client.map_err(|error| Trouble::Odd(error.to_string()))?;
        let failed = |error: io::Error| Trouble::Odd(format!("no TLS with {host}: {error}"));
        while client.is_handshaking() {
            client.complete_io(&mut socket).map_err(failed)?;
        }
        let stream = Stream::Tls(Box::new(StreamOwned::new(client, socket)));
        Ok(Self { stream, read: Vec::new(), taken: 0 })
    }

    /// How long the next reads may take.
    pub(crate) fn wait_at_most(&self, time: Duration) -> Result<(), Trouble> {
        let socket = match &self.stream {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &stream.sock,
        };
        Ok(socket.set_read_timeout(Some(time.max(Duration::from_millis(1))))?)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(bytes)?,
            Stream::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()?;
            }
        }
        Ok(())
    }

    /// A line without its end.
    pub(crate) fn line(&mut self) -> Result<Vec<u8>, Trouble> {
        // Bytes after `taken` that were looked at.
        let mut seen = 0;
        loop {
            let there = self.read.get(self.taken..).unwrap_or_default();
            if let Some(end) = there.iter().skip(seen).position(|byte| *byte == b'\n').map(|at| at + seen) {
                let line = there.get(..end).unwrap_or_default();
                let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
                self.taken += end + 1;
                return Ok(line);
            }
            seen = there.len();
            if seen > LINE_MAX {
                return Err(Trouble::Odd(format!("a line of the server is longer than {LINE_MAX} bytes")));
            }
            self.fill()?;
        }
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Trouble> {
        let mut bytes = Vec::new();
        loop {
            let wanted = count - bytes.len();
            let there = self.read.get(self.taken..).unwrap_or_default();
            let piece = there.get(..wanted.min(there.len())).unwrap_or_default();
            bytes.extend_from_slice(piece);
            self.taken += piece.len();
            if bytes.len() == count {
                return Ok(bytes);
            }
            self.fill()?;
        }
    }

    /// Reads what is there, or waits for something.
    fn fill(&mut self) -> Result<(), Trouble> {
        self.read.drain(..self.taken.min(self.read.len()));
        self.taken = 0;
        let mut bytes = [0; 16 * 1024];
        let count = loop {
            let read = match &mut self.stream {
                Stream::Plain(stream) => stream.read(&mut bytes),
                Stream::Tls(stream) => stream.read(&mut bytes),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if count == 0 {
            return Err(Trouble::Odd("the server closed the connection".to_owned()));
        }
        self.read.extend_from_slice(bytes.get(..count).unwrap_or_default());
        Ok(())
    }
}
