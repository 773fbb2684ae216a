//! A host for the self-test, which repeats the credential that it gets, in every form that is looked for.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::authority::{Authority, AuthorityError};

/// How long it waits for a request.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest head in bytes.
const HEAD_MAX: usize = 16 << 10;

/// The host. It ends with the process.
pub struct RepeatingHost {
    /// Where it is.
    pub address: SocketAddr,
    /// The certificate of its authority.
    pub roots: PathBuf,
    arrived: Arc<Mutex<Vec<String>>>,
}

impl RepeatingHost {
    /// Starts a host of this name, with an authority of its own in a new directory.
    ///
    /// # Errors
    /// [`AuthorityError`] if it has no certificate, or cannot listen.
    pub fn start(name: &str, directory: &Path) -> Result<Self, AuthorityError> {
        let failed = |source| AuthorityError::File { path: directory.to_owned(), source };
        let authority = Authority::open(directory, String::new(), vec![name.to_owned()])?;
        let (config, roots) = (authority.server(name)?, authority.bundle());
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let arrived: Arc<Mutex<Vec<String>>> = Arc::default();
        let record = Arc::clone(&arrived);
        let serve = move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = answer(stream, &config, &record) {
                    tracing::debug!(%error, "a request to the self-test's host broke off");
                }
            }
        };
        std::thread::Builder::new().name("host of the self-test".to_owned()).spawn(serve).map_err(failed)?;
        Ok(Self { address, roots, arrived })
    }

    /// The heads of the requests that arrived, in order.
    #[must_use]
    pub fn arrived(&self) -> Vec<String> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers one request, and closes the connection.
fn answer(stream: TcpStream, config: &Arc<ServerConfig>, record: &Mutex<Vec<String>>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_MAX && stream.read(&mut byte)? == 1 {
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    stream.write_all(text(&head).as_bytes())?;
    record.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    stream.conn.send_close_notify();
    stream.flush()
}

/// What it answers.
fn text(head: &str) -> String {
    let credential = credential(head);
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (first, header, body) = match target.rsplit('/').next().unwrap_or_default() {
        "body" => ("200 OK", String::new(), format!("{credential} and {credential}")),
        "header" => ("200 OK", format!("X-Echo: {credential}\r\n"), String::new()),
        "address" => ("302 Found", format!("Location: https://elsewhere.example/?t={credential}\r\n"), String::new()),
        "encoded" => ("200 OK", String::new(), encoded(credential).join(" ")),
        _ => ("200 OK", String::new(), "hello".to_owned()),
    };
    let length = body.len();
    format!("HTTP/1.1 {first}\r\n{header}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// The credential of a request: what follows the scheme in its header.
pub fn credential(head: &str) -> &str {
    let mut headers = head.lines().filter_map(|line| line.split_once(": "));
    let value = headers.find(|(name, _)| name.eq_ignore_ascii_case("authorization")).map(|(_, value)| value);
    value.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
}

/// A value in forms in which it can be read back.
#[must_use]
pub fn encoded(value: &str) -> [String; 3] {
    let hexadecimal = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
    [STANDARD.encode(value), hexadecimal, percent]
}
