//! A connection over WebSocket. Every wait has an end, and messages have a limit.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tungstenite::client::client_with_config;
use tungstenite::http::Uri;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

/// How long connecting, the handshake and writing may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// Shortest wait, because none would be for ever.
const SHORTEST: Duration = Duration::from_millis(1);
/// Bytes of the largest message.
const MESSAGE_BYTES: usize = 16 << 20;
const BUFFER_BYTES: usize = 16 << 10;

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(buffer),
            Self::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// The connection does not work, or not any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Broken(String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// Nothing within the time.
    Silence,
    /// A sign of life without content.
    Sign,
    Text(String),
    /// The server ended the connection.
    Closed {
        code: Option<u16>,
        why: String,
    },
}

pub(crate) struct Socket(WebSocket<Stream>);

impl Socket {
    /// Connects to an address `wss://…`, or `ws://` on this machine.
    pub(crate) fn open(url: &str) -> Result<Self, Broken> {
        let broken = |why: &dyn ToString| Broken(why.to_string());
        let uri: Uri = url.parse().map_err(|error| Broken(format!("its address is none: {error}")))?;
        let host = uri.host().ok_or_else(|| broken(&"its address has no host"))?;
        let is_secure = match uri.scheme_str() {
            Some("wss") => true,
            Some("ws") if ["127.0.0.1", "localhost"].contains(&host) => false,
            _ => return Err(broken(&"its address is not one of a secure WebSocket")),
        };
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let socket = connect(host, port).map_err(|error| broken(&error))?;
        let stream = if is_secure {
            let name = ServerName::try_from(host.to_owned()).map_err(|error| broken(&error))?;
            let client = ClientConnection::new(trust()?, name).map_err(|error| broken(&error))?;
            Stream::Tls(Box::new(StreamOwned::new(client, socket)))
        } else {
            Stream::Plain(socket)
        };
        let config =
            WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES)).max_frame_size(Some(MESSAGE_BYTES));
        let config = config.read_buffer_size(BUFFER_BYTES).write_buffer_size(0).max_write_buffer_size(MESSAGE_BYTES);
        let (socket, _) = client_with_config(uri, stream, Some(config)).map_err(|error| broken(&error))?;
        Ok(Self(socket))
    }

    /// Waits for the next message, at most so long.
    pub(crate) fn read(&mut self, within: Duration) -> Result<Incoming, Broken> {
        let socket = self.0.get_ref().socket();
        socket.set_read_timeout(Some(within.max(SHORTEST))).map_err(|error| Broken(error.to_string()))?;
        match self.0.read() {
            Ok(Message::Text(text)) => Ok(Incoming::Text(text.as_str().to_owned())),
            Ok(Message::Binary(_)) => Err(Broken("it sends bytes instead of text".to_owned())),
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => Ok(Incoming::Sign),
            Ok(Message::Close(frame)) => {
                let code = frame.as_ref().map(|frame| u16::from(frame.code));
                let why: String =
                    frame.map(|frame| frame.reason.as_str().chars().take(300).collect()).unwrap_or_default();
                Ok(Incoming::Closed { code, why })
            }
            Err(Error::Io(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(Incoming::Silence)
            }
            Err(Error::Io(error)) if error.kind() == ErrorKind::Interrupted => Ok(Incoming::Silence),
            Err(Error::ConnectionClosed) => Ok(Incoming::Closed { code: None, why: String::new() }),
            Err(error) => Err(Broken(error.to_string())),
        }
    }

    /// Sends a text.
    pub(crate) fn send(&mut self, text: String) -> Result<(), Broken> {
        self.0.send(Message::text(text)).map_err(|error| Broken(error.to_string()))
    }

    /// Ends the connection.
    pub(crate) fn close(mut self, code: u16) {
        // It ends in any case.
        drop(self.0.close(Some(CloseFrame { code: CloseCode::from(code), reason: "".into() })));
        drop(self.0.flush());
    }
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "its name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(socket) => {
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                socket.set_nodelay(true)?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The authorities of this system.
fn trust() -> Result<Arc<ClientConfig>, Broken> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Broken(error.to_string()))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
