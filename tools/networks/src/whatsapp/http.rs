//! The entrance for what WhatsApp reports: HTTP/1.1 on a port of this machine, behind a proxy of the operator's. Every wait
//! and every size has a limit, and a connection carries one request.

mod head;
pub(super) use head::value;

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::run::spawn;
use hearth_bridge::program::{log, now};

use head::{Chunks, Head, Length};

/// Connections at a time; more are closed.
const CONNECTIONS: usize = 32;
/// Time for a whole request, and for its answer.
const REQUEST: Duration = Duration::from_secs(10);
/// Bytes before the body.
const HEAD_BYTES: usize = 16 << 10;
/// Bytes of a body: WhatsApp's have 3 MB at most.
const BODY_BYTES: usize = 4 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// Wait after a connection that could not be accepted.
const AGAIN: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    /// What is behind the question mark.
    pub(super) query: String,
    /// The signature of the body.
    pub(super) signature: Option<String>,
    pub(super) body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) text: String,
}

impl Reply {
    pub(super) const fn status(status: u16) -> Self {
        Self { status, text: String::new() }
    }
}

/// What answers requests.
pub(super) type Answer = dyn Fn(&Request) -> Reply + Send + Sync;

/// Why a request was not read.
#[derive(Debug, PartialEq, Eq)]
enum Unread {
    /// It is answered with a status.
    Refused(u16),
    /// The other side is gone or slow.
    Gone,
}

impl From<io::Error> for Unread {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Opens the port.
pub(super) fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).map_err(|error| {
        format!("{address} cannot be listened on: {error}; stop the program that uses it, or change `listen`")
    })
}

/// Answers requests until the process ends.
pub(super) fn serve(listener: &TcpListener, answer: &Arc<Answer>) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                log(&format!("a connection could not be accepted: {error}"));
                sleep(AGAIN);
                continue;
            }
        };
        let Some(counted) = Counted::new(&open) else { continue };
        let answer = Arc::clone(answer);
        let started = spawn("request", move || {
            attend(stream, &*answer);
            drop(counted);
        });
        if let Err(error) = started {
            log(&format!("a request could not be attended to: {error}"));
        }
    }
}

/// One of the connections that are open.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    /// Counts a connection; none if there are too many.
    fn new(open: &Arc<AtomicUsize>) -> Option<Self> {
        let counted = Self(Arc::clone(open));
        (open.fetch_add(1, Ordering::SeqCst) < CONNECTIONS).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn attend(stream: TcpStream, answer: &Answer) {
    let mut connection = Connection { stream, bytes: Vec::new(), until: now() + REQUEST };
    let reply = match connection.request() {
        Ok(request) => answer(&request),
        Err(Unread::Refused(status)) => Reply::status(status),
        Err(Unread::Gone) => return,
    };
    // The other side may be gone, and asks again then.
    drop(connection.reply(&reply));
}

/// A connection, with the bytes that were read and not used yet.
struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
    until: Duration,
}

impl Connection {
    fn request(&mut self) -> Result<Request, Unread> {
        let Head { mut request, begin, length } = loop {
            match head::read(&self.bytes).map_err(Unread::Refused)? {
                Some(head) => break head,
                None if self.bytes.len() >= HEAD_BYTES => return Err(Unread::Refused(431)),
                None => self.fill()?,
            }
        };
        self.bytes.drain(..begin);
        request.body = match length {
            Length::Bytes(length) if length > BODY_BYTES => return Err(Unread::Refused(413)),
            Length::Bytes(length) => {
                while self.bytes.len() < length {
                    self.fill()?;
                }
                self.bytes.truncate(length);
                std::mem::take(&mut self.bytes)
            }
            Length::Chunked => self.chunks()?,
        };
        Ok(request)
    }

    fn chunks(&mut self) -> Result<Vec<u8>, Unread> {
        let mut chunks = Chunks::default();
        while !chunks.take(&mut self.bytes, BODY_BYTES).map_err(Unread::Refused)? {
            self.fill()?;
        }
        Ok(chunks.body)
    }

    fn fill(&mut self) -> Result<(), Unread> {
        let left = self.until.saturating_sub(now());
        if left.is_zero() {
            return Err(Unread::Gone);
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut buffer = [0; READ_BYTES];
        match self.stream.read(&mut buffer)? {
            0 => Err(Unread::Gone),
            count => {
                self.bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
                Ok(())
            }
        }
    }

    fn reply(&mut self, Reply { status, text }: &Reply) -> io::Result<()> {
        self.stream.set_write_timeout(Some(REQUEST))?;
        let head = format!(
            "HTTP/1.1 {status} \r\ncontent-type: text/plain\r\nx-content-type-options: nosniff\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{text}",
            text.len()
        );
        self.stream.write_all(head.as_bytes())?;
        self.stream.shutdown(Shutdown::Write)
    }
}
