//! Service notifications (`sd_notify`): reports the daemon's state to the service manager, one datagram per change.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::config::env;
use crate::model::time::{Awake, Millis};

/// Interval of watchdog messages. The service manager's timeout is minutes.
const ALIVE: Millis = Millis::seconds(15);

/// State that is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The daemon serves requests.
    Ready,
    /// The daemon is stopping.
    Stopping,
    /// A status text for people.
    Words(String),
}

impl State {
    fn text(&self) -> String {
        match self {
            Self::Ready => "READY=1\nSTATUS=serving".to_owned(),
            Self::Stopping => "STOPPING=1\nSTATUS=stopping".to_owned(),
            Self::Words(words) => format!("STATUS={}", words.replace('\n', " ")),
        }
    }
}

/// Sends notifications to the service manager, if there is one.
#[derive(Debug)]
pub(super) struct Announcer {
    to: Option<PathBuf>,
    /// When the last watchdog message was sent.
    alive: Mutex<Option<Awake>>,
}

impl Announcer {
    /// Uses the notification socket of the service manager that started this process, if it provides one.
    pub(super) fn of_the_system() -> Self {
        Self::to(env::notify_socket())
    }

    fn to(to: Option<PathBuf>) -> Self {
        Self { to, alive: Mutex::default() }
    }

    pub(super) fn tell(&self, state: &State) {
        self.send(&state.text());
    }

    /// Reports that the engine works, at most once per [`ALIVE`].
    pub(super) fn alive(&self, now: Awake) {
        if self.to.is_none() {
            return;
        }
        let mut last = self.alive.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if last.is_none_or(|last| now.since(last) >= ALIVE) {
            *last = Some(now);
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, text: &str) {
        let Some(to) = &self.to else { return };
        if let Err(error) = send(to, text.as_bytes()) {
            tracing::debug!(%error, "cannot report the daemon's state to systemd");
        }
    }
}

fn send(to: &Path, text: &[u8]) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // A service manager that does not read must not block the daemon.
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = to.as_os_str().as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt as _;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return socket.send_to_addr(text, &address).map(drop);
    }
    socket.send_to(text, to).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives_and_signs_of_life_are_rare() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let hear = || {
            let mut text = [0; 100];
            socket.recv(&mut text).ok().map(|length| String::from_utf8_lossy(&text[..length]).into_owned())
        };
        let announcer = Announcer::to(Some(path));
        announcer.tell(&State::Ready);
        assert_eq!(hear().as_deref(), Some("READY=1\nSTATUS=serving"));
        announcer.tell(&State::Words("waiting for\n2 turns".into()));
        assert_eq!(hear().as_deref(), Some("STATUS=waiting for 2 turns"));
        let at = |seconds| Awake::new(1, Millis::seconds(seconds).get());
        for (seconds, heard) in [(1, true), (2, false), (15, false), (16, true)] {
            announcer.alive(at(seconds));
            assert_eq!(hear().is_some(), heard, "{seconds}");
        }
        drop(socket);
        announcer.tell(&State::Stopping);
        Announcer::to(None).tell(&State::Stopping);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_abstract_name_is_an_address() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("hearth-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        send(Path::new(&format!("@{name}")), b"hello").unwrap();
        let mut text = [0; 10];
        assert_eq!(socket.recv(&mut text).unwrap(), 5);
    }
}
