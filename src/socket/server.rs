//! The daemon's side: a task per connection.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::protocol::{LINE_MAX, Request, Response, VERSION};

/// Time a client has for its greeting.
const GREETING: Duration = Duration::from_secs(5);
/// Connections at once.
const CONNECTIONS_MAX: usize = 256;

/// What the socket offers: implemented where the daemon is put together.
pub trait Desk: Send + Sync + 'static {
    /// What a client has to know.
    fn token(&self) -> &str;

    /// Serves one greeted client until it leaves.
    fn serve(
        self: Arc<Self>,
        requests: Requests,
        responses: UnboundedSender<Response>,
        uid: u32,
    ) -> impl Future<Output = ()> + Send;
}

/// The lines of one client.
pub struct Requests {
    lines: BufReader<OwnedReadHalf>,
}

impl Requests {
    /// The next line. None at the end, or when the connection broke.
    pub async fn next(&mut self) -> Option<Result<Request, String>> {
        let mut line = Vec::new();
        let limit = u64::try_from(LINE_MAX).unwrap_or(u64::MAX);
        let read = (&mut self.lines).take(limit).read_until(b'\n', &mut line).await.ok()?;
        if read == 0 {
            return None;
        }
        if line.last() != Some(&b'\n') && read >= LINE_MAX {
            return Some(Err(format!("a line has more than {LINE_MAX} bytes")));
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
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Accepts connections for ever.
pub async fn listen<D: Desk>(listener: UnixListener, desk: Arc<D>) {
    let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = listener.accept().await;
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match accepted {
            Ok((stream, _)) => {
                let desk = Arc::clone(&desk);
                tokio::spawn(async move {
                    greet(stream, desk).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn greet<D: Desk>(stream: UnixStream, desk: Arc<D>) {
    let Ok(uid) = stream.peer_cred().map(|peer| peer.uid()) else { return };
    let (reader, writer) = stream.into_split();
    let mut requests = Requests { lines: BufReader::new(reader) };
    let (responses, outgoing) = unbounded_channel();
    let sending = tokio::spawn(send_all(writer, outgoing));
    let greeting = tokio::time::timeout(GREETING, requests.next()).await;
    match greeting {
        Ok(Some(Ok(Request::Hello { v: VERSION, token }))) if same(&token, desk.token()) => {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let welcome = Response::Welcome { version, pid: std::process::id() };
            match responses.send(welcome) {
                Ok(()) => desk.serve(requests, responses, uid).await,
                Err(_) => drop(responses),
            }
        }
        Ok(Some(Ok(Request::Hello { v, .. }))) if v != VERSION => {
            let message =
                format!("the daemon speaks version {VERSION} of the socket, not {v}: use the same Hearth for both");
            drop(responses.send(Response::Refused { code: "version".to_owned(), message }));
            drop(responses);
        }
        _ => {
            let message = "the token is wrong or missing: only the user who runs the daemon can talk to it".to_owned();
            drop(responses.send(Response::Refused { code: "token".to_owned(), message }));
            drop(responses);
        }
    }
    // The sender ends when the last response handle is gone and everything is written.
    drop(sending.await);
}

async fn send_all(mut writer: OwnedWriteHalf, mut outgoing: UnboundedReceiver<Response>) {
    while let Some(response) = outgoing.recv().await {
        let Ok(mut line) = serde_json::to_vec(&response) else { continue };
        line.push(b'\n');
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
