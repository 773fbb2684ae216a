//! The connection to a broker.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::Settings;
use super::packet::{self, Connect, Message, Packet};
use crate::program::now;

/// How long connecting, an answer and writing may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Seconds after which the bridge asks whether the broker is still there.
const KEEP_ALIVE: u16 = 20;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("the broker does not accept the token or the user")]
    Credentials,
    #[error("{0}")]
    Other(String),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Other(format!("the broker cannot be reached: {error}"))
    }
}

pub(super) struct Broker {
    socket: TcpStream,
    bytes: Vec<u8>,
    /// When the broker last said anything.
    heard: Duration,
    /// Where the state of the bridge is told.
    status: String,
    /// When it was asked and has not answered.
    asked: Option<Duration>,
    last: u16,
}

impl Broker {
    /// Connects, keeps its session, and asks for what people write.
    pub(super) fn connect(settings: &Settings, password: Option<&str>) -> Result<Self, Refused> {
        let mut addresses = settings.server.to_socket_addrs()?;
        let address = addresses.next().ok_or_else(|| Refused::Other("the broker has no address".to_owned()))?;
        let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let status = format!("{}/status", settings.prefix);
        let mut broker = Self { socket, bytes: Vec::new(), heard: now(), status: status.clone(), asked: None, last: 0 };
        broker.write(&packet::connect(&Connect {
            client: &settings.client,
            user: settings.user.as_deref(),
            password,
            will: (&status, "offline"),
            keep_alive: 2 * KEEP_ALIVE,
        }))?;
        match broker.answer()? {
            Packet::ConnAck(0) => {}
            Packet::ConnAck(4 | 5) => return Err(Refused::Credentials),
            Packet::ConnAck(code) => return Err(Refused::Other(format!("the broker refuses the connection ({code})"))),
            _ => return Err(Refused::Other("the broker did not answer as one".to_owned())),
        }
        broker.write(&packet::subscribe(&format!("{}/+/in", settings.prefix)))?;
        let id = broker.number();
        broker.write(&packet::published(&Message { topic: &status, payload: b"online", id, retain: true }))?;
        Ok(broker)
    }

    /// The first packet.
    fn answer(&mut self) -> Result<Packet, Refused> {
        loop {
            if let Some((packet, length)) = packet::read(&self.bytes).map_err(|bad| Refused::Other(bad.to_string()))? {
                self.bytes.drain(..length);
                return Ok(packet);
            }
            if self.fill()? == 0 {
                return Err(Refused::Other("the broker closed the connection".to_owned()));
            }
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16 * 1024];
        let count = self.socket.read(&mut bytes)?;
        self.bytes.extend_from_slice(bytes.get(..count).unwrap_or_default());
        (self.heard, self.asked) = (now(), None);
        Ok(count)
    }

    /// What the broker sent. The socket has something.
    pub(super) fn read(&mut self) -> Result<Vec<Packet>, String> {
        match self.fill() {
            Ok(0) => return Err("the broker closed the connection".to_owned()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("the connection to the broker was lost: {error}")),
        }
        let mut packets = Vec::new();
        while let Some((packet, length)) = packet::read(&self.bytes).map_err(|bad| bad.to_string())? {
            self.bytes.drain(..length);
            if packet == Packet::SubAck(false) {
                return Err("the broker does not let the bridge read what people write".to_owned());
            }
            packets.push(packet);
        }
        Ok(packets)
    }

    pub(super) fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        self.socket.write_all(packet)
    }

    /// Asks a silent broker whether it is there, and notices one that is not.
    pub(super) fn keep_alive(&mut self) -> Result<(), String> {
        let keep_alive = Duration::from_secs(KEEP_ALIVE.into());
        match self.asked {
            Some(asked) if now() >= asked + keep_alive => Err("the broker does not answer any more".to_owned()),
            None if now() >= self.heard + keep_alive => {
                self.asked = Some(now());
                self.write(&packet::ping()).map_err(|error| format!("the connection to the broker was lost: {error}"))
            }
            _ => Ok(()),
        }
    }

    /// A number for a packet that no other one under way has.
    pub(super) fn free(&mut self, is_used: impl Fn(u16) -> bool) -> Option<u16> {
        (0..1_024).map(|_| self.number()).find(|id| !is_used(*id))
    }

    fn number(&mut self) -> u16 {
        // 0 is not allowed, and 1 and 2 are for the start.
        self.last = if self.last < 2 || self.last == u16::MAX { 2 } else { self.last + 1 };
        self.last
    }

    /// Says goodbye, after which the broker does not report the bridge as gone; so the bridge does it first.
    pub(super) fn disconnect(&mut self) {
        let id = self.number();
        let gone = packet::published(&Message { topic: &self.status, payload: b"offline", id, retain: true });
        // A broken connection has the same effect.
        drop(self.write(&[gone, packet::disconnect()].concat()));
    }
}

impl AsFd for Broker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
