//! Daemon side of the socket: one task per connection.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::protocol::{GREETING_MAX, LINE_MAX, Request, Response, VERSION};
use crate::connections::{self, Connection, ConnectionLimit, Priority};

/// Time limit for a client's greeting.
const GREETING: Duration = Duration::from_secs(5);
/// Time a client has to read the last responses.
const FAREWELL: Duration = Duration::from_secs(1);
/// Concurrent connections, if the limit of open files allows.
const CONNECTIONS_MAX: usize = 256;
/// The socket gets half of the descriptors for connections, because attached terminals keep theirs.
const PARTS: u64 = 2;
/// Sent to a client that is disconnected, before its greeting, to make room.
const BUSY: &str = "too many connections without a greeting: retry, and check which program opens so many";
/// Lines that may wait for a client to read them.
const WAITING_MAX: usize = 64;

/// Interface of the socket to the daemon, which implements it.
pub trait Handler: Send + Sync + 'static {
    /// The token that a client has to send.
    fn token(&self) -> &str;

    /// Serves one greeted client until it leaves.
    fn serve(
        self: Arc<Self>,
        requests: Requests,
        responses: Sender<Response>,
        uid: u32,
    ) -> impl Future<Output = ()> + Send;
}

/// The lines of one client.
pub struct Requests {
    lines: BufReader<OwnedReadHalf>,
    /// A line was too long, so the start of the next one is unknown.
    lost: bool,
}

impl Requests {
    /// The next line. None at the end of the stream, after a connection error, or after a line that was too long.
    pub async fn next(&mut self) -> Option<Result<Request, String>> {
        self.line(LINE_MAX).await
    }

    async fn line(&mut self, max: usize) -> Option<Result<Request, String>> {
        if self.lost {
            return None;
        }
        let mut line = Vec::new();
        let limit = u64::try_from(max).unwrap_or(u64::MAX);
        let read = (&mut self.lines).take(limit).read_until(b'\n', &mut line).await.ok()?;
        if read == 0 {
            return None;
        }
        if line.last() != Some(&b'\n') && read >= max {
            self.lost = true;
            return Some(Err(format!("a line has more than {max} bytes")));
        }
        Some(serde_json::from_slice(&line).map_err(|error| format!("not a line of the protocol: {error}")))
    }
}

/// Binds the socket and replaces a leftover socket file. The caller holds the store's lock, so no other daemon of this
/// data directory can be listening.
///
/// # Errors
/// When the socket cannot be bound.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    crate::crash::point("socket-bind");
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    crate::crash::point("socket-mode");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// A running socket server.
pub struct Serving {
    accepting: tokio::task::JoinHandle<()>,
    limit: ConnectionLimit,
}

impl Serving {
    /// Starts accepting connections. Requires a tokio runtime.
    pub fn start<D: Handler>(listener: UnixListener, handler: Arc<D>) -> Self {
        let limit = ConnectionLimit::new(connections::within_descriptors(CONNECTIONS_MAX, PARTS));
        Self { accepting: tokio::spawn(accept(listener, handler, limit.clone())), limit }
    }

    /// Accepts connections on another listener. Established connections stay open. Requires a tokio runtime.
    pub fn listen_at<D: Handler>(&mut self, listener: UnixListener, handler: Arc<D>) {
        self.accepting.abort();
        self.accepting = tokio::spawn(accept(listener, handler, self.limit.clone()));
    }

    /// Stops accepting, and gives connected clients a moment to read their responses.
    pub async fn close(self) {
        self.accepting.abort();
        // Clients that stay longer are disconnected.
        drop(tokio::time::timeout(FAREWELL, self.limit.drained()).await);
    }
}

async fn accept<D: Handler>(listener: UnixListener, handler: Arc<D>, limit: ConnectionLimit) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (handler, connection) = (Arc::clone(&handler), limit.acquire().await);
                tokio::spawn(async move { welcome(stream, handler, &connection).await });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                if connections::out_of_descriptors(&error) {
                    limit.evict_idle();
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves a client that greets in time and with the right token.
async fn welcome<D: Handler>(stream: UnixStream, handler: Arc<D>, connection: &Connection) {
    let Ok(uid) = stream.peer_cred().map(|peer| peer.uid()) else { return };
    let (reader, writer) = stream.into_split();
    let mut requests = Requests { lines: BufReader::new(reader), lost: false };
    let (responses, outgoing) = channel(WAITING_MAX);
    let mut sending = tokio::spawn(send_all(writer, outgoing));
    let greeting = tokio::time::timeout(GREETING, requests.line(GREETING_MAX));
    let greeting = tokio::select! {
        // A greeting that has already arrived takes precedence.
        biased;
        greeting = greeting => judge(greeting.ok().flatten(), handler.token()),
        () = connection.evicted() => Err(("busy", BUSY.to_owned())),
    };
    let greeted = greeting.is_ok();
    if greeted {
        connection.handle().raise(Priority::Serving);
    }
    let first = match greeting {
        Ok(()) => Response::Welcome { version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() },
        Err((code, message)) => Response::refused(code, message),
    };
    let sent = responses.send(first).await.is_ok();
    if sent && greeted {
        handler.serve(requests, responses, uid).await;
    } else {
        drop(responses);
    }
    // The sender ends when the last response handle is dropped and everything is written. A client that does not read
    // is disconnected.
    if tokio::time::timeout(FAREWELL, &mut sending).await.is_err() {
        sending.abort();
    }
}

/// Checks the greeting. The error is a code for programs and a message for people.
fn judge(greeting: Option<Result<Request, String>>, token: &str) -> Result<(), (&'static str, String)> {
    match greeting {
        Some(Ok(Request::Hello { v: VERSION, token: given })) if same(&given, token) => Ok(()),
        Some(Ok(Request::Hello { v, .. })) if v != VERSION => {
            let message = format!(
                "the daemon uses version {VERSION} of the socket protocol, not {v}: use the same version of \
                 Hearth for both"
            );
            Err(("version", message))
        }
        _ => {
            let message = "the token is wrong or missing: only the user who runs the daemon can talk to it";
            Err(("token", message.to_owned()))
        }
    }
}

async fn send_all(mut writer: OwnedWriteHalf, mut outgoing: Receiver<Response>) {
    while let Some(response) = outgoing.recv().await {
        let Ok(mut line) = serde_json::to_vec(&response) else { continue };
        line.push(b'\n');
        crate::crash::point("answer");
        if writer.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Compares in a time that does not depend on how many characters match.
fn same(given: &str, expected: &str) -> bool {
    let (given, expected) = (given.trim_end().as_bytes(), expected.as_bytes());
    let differences = given.iter().zip(expected).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == expected.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn tokens_are_equal_or_not() {
        assert!(same("abc\n", "abc"));
        for given in ["", "ab", "abd", "abcd"] {
            assert!(!same(given, "abc"), "{given}");
        }
    }
}
