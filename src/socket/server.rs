//! The daemon's side: a task per connection.

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
use crate::seats::{Seat, Seats, Standing};

/// Time a client has for its greeting.
const GREETING: Duration = Duration::from_secs(5);
/// Time a client has to read what was said last.
const FAREWELL: Duration = Duration::from_secs(1);
/// Connections at once.
const CONNECTIONS_MAX: usize = 256;
/// What somebody hears who has to leave before having said anything.
const BUSY: &str = "the daemon has no room for connections that say nothing: try again, and see who opens so many";
/// Lines that may wait for a client to read them.
const WAITING_MAX: usize = 64;

/// What the socket offers: implemented where the daemon is put together.
pub trait Desk: Send + Sync + 'static {
    /// What a client has to know.
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
    /// A line was too long: where the next one begins is not known.
    lost: bool,
}

impl Requests {
    /// The next line. None at the end, or when the connection broke, or after a line that was too long.
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

/// Binds the socket; a socket file that nobody listens on is replaced. The caller holds the store's lock, so that no other
/// daemon of this data directory can be listening.
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

/// A socket that is served.
pub struct Serving {
    accepting: tokio::task::JoinHandle<()>,
    seats: Seats,
}

impl Serving {
    /// Accepts connections from now on. Only inside a tokio runtime.
    pub fn start<D: Desk>(listener: UnixListener, desk: Arc<D>) -> Self {
        let seats = Seats::new(CONNECTIONS_MAX);
        Self { accepting: tokio::spawn(accept(listener, desk, seats.clone())), seats }
    }

    /// Accepts no more and gives the clients there are a moment to get their answers.
    pub async fn close(self) {
        self.accepting.abort();
        // Whoever stays longer hears the end of the connection.
        drop(tokio::time::timeout(FAREWELL, self.seats.emptied()).await);
    }
}

async fn accept<D: Desk>(listener: UnixListener, desk: Arc<D>, seats: Seats) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (desk, seat) = (Arc::clone(&desk), seats.take().await);
                tokio::spawn(async move { welcome(stream, desk, &seat).await });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves a client who greets in time, and with the token.
async fn welcome<D: Desk>(stream: UnixStream, desk: Arc<D>, seat: &Seat) {
    let Ok(uid) = stream.peer_cred().map(|peer| peer.uid()) else { return };
    let (reader, writer) = stream.into_split();
    let mut requests = Requests { lines: BufReader::new(reader), lost: false };
    let (responses, outgoing) = channel(WAITING_MAX);
    let mut sending = tokio::spawn(send_all(writer, outgoing));
    let greeting = tokio::time::timeout(GREETING, requests.line(GREETING_MAX));
    let greeting = tokio::select! {
        // A greeting that is there already counts.
        biased;
        greeting = greeting => judge(greeting.ok().flatten(), desk.token()),
        () = seat.leave() => Err(("busy", BUSY.to_owned())),
    };
    let greeted = greeting.is_ok();
    if greeted {
        seat.place().rises(Standing::Served);
    }
    let first = match greeting {
        Ok(()) => Response::Welcome { version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() },
        Err((code, message)) => Response::Refused { code: code.to_owned(), message, id: None },
    };
    let sent = responses.send(first).await.is_ok();
    if sent && greeted {
        desk.serve(requests, responses, uid).await;
    } else {
        drop(responses);
    }
    // The sender ends when the last response handle is gone and everything is written; a client that does not read does
    // not keep its place.
    if tokio::time::timeout(FAREWELL, &mut sending).await.is_err() {
        sending.abort();
    }
}

/// Whether somebody may speak; else a word for programs, and what to do.
fn judge(greeting: Option<Result<Request, String>>, token: &str) -> Result<(), (&'static str, String)> {
    match greeting {
        Some(Ok(Request::Hello { v: VERSION, token: given })) if same(&given, token) => Ok(()),
        Some(Ok(Request::Hello { v, .. })) if v != VERSION => {
            let message =
                format!("the daemon speaks version {VERSION} of the socket, not {v}: use the same Hearth for both");
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

/// Compares without telling by its duration how much is right.
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
