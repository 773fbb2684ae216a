//! Asks the daemon for a connection by name, and reads its answer.

use std::io::{self, Read, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use super::copy::unless_blocked;

/// Longest answer.
const ANSWER_MAX: usize = 8 << 10;
/// How an answer begins that opens a connection.
const OPENED: &[u8] = b"HTTP/1.1 200 ";
/// The fatal TLS alert `access_denied`, for programs that speak TLS.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
/// First byte of a TLS handshake.
const HANDSHAKE: u8 = 22;

/// A request for a connection by name.
#[derive(Debug)]
pub(super) struct Opening {
    request: Vec<u8>,
    sent: usize,
    answer: Vec<u8>,
    port: u16,
}

/// How far a request is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is not answered.
    Waiting,
    /// The daemon is gone, or says something unexpected.
    Broken,
    /// The connection is open. These bytes came already.
    Opened(Vec<u8>),
    /// There is no connection. The program gets these bytes.
    Refused(Vec<u8>),
}

impl Opening {
    pub(super) fn new(name: &str, port: u16) -> Self {
        let request = format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n").into_bytes();
        Self { request, sent: 0, answer: Vec::new(), port }
    }

    pub(super) fn restart(&mut self) {
        self.sent = 0;
        self.answer.clear();
    }

    pub(super) fn is_unsent(&self) -> bool {
        self.sent < self.request.len()
    }

    /// Goes on as far as the daemon lets it.
    pub(super) fn go_on(&mut self, mut daemon: &UnixStream, program: &TcpStream) -> Progress {
        while let Some(rest) = self.request.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match daemon.write(rest) {
                Ok(bytes) if bytes > 0 => self.sent = self.sent.saturating_add(bytes),
                Ok(_) => return Progress::Broken,
                Err(error) => return unless_blocked(error).map_or(Progress::Broken, |()| Progress::Waiting),
            }
        }
        let mut buffer = [0; 1024];
        loop {
            let (read, has_ended) = match daemon.read(&mut buffer) {
                Ok(read) => (read, read == 0),
                Err(error) => match unless_blocked(error) {
                    Ok(()) => return Progress::Waiting,
                    // After an answer, it is the end like any other.
                    Err(_) => (0, true),
                },
            };
            self.answer.extend_from_slice(buffer.get(..read).unwrap_or_default());
            if let Some(progress) = self.judge(has_ended, program) {
                return progress;
            }
        }
    }

    fn judge(&mut self, has_ended: bool, program: &TcpStream) -> Option<Progress> {
        let head = self.answer.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at.saturating_add(4));
        let is_opened = self.answer.starts_with(OPENED);
        match head {
            Some(end) if is_opened => Some(Progress::Opened(self.answer.split_off(end))),
            // The words of a refusal end with the connection.
            Some(_) if has_ended => Some(Progress::Refused(self.told(first_byte(program)))),
            _ if has_ended || self.answer.len() > ANSWER_MAX => Some(Progress::Broken),
            _ => None,
        }
    }

    /// A refusal in the form that the program understands.
    fn told(&mut self, first: Option<u8>) -> Vec<u8> {
        match (first, self.port) {
            (Some(HANDSHAKE), _) | (None, 443 | 465 | 993 | 8443) => ALERT.to_vec(),
            (Some(b'A'..=b'Z'), _) | (None, 80 | 8080) => std::mem::take(&mut self.answer),
            _ => Vec::new(),
        }
    }
}

/// The first byte that a program sent, if it sent one.
fn first_byte(program: &TcpStream) -> Option<u8> {
    let mut first = [0; 1];
    match program.peek(&mut first) {
        Ok(1) => Some(u8::from_be_bytes(first)),
        Ok(_) | Err(_) => None,
    }
}

/// Reads an answer to its end, for a program that waits for it.
pub(super) fn is_opened(mut stream: impl Read) -> io::Result<Result<(), String>> {
    let mut answer = Vec::new();
    let mut byte = [0; 1];
    while !answer.ends_with(b"\r\n\r\n") && answer.len() < ANSWER_MAX {
        if stream.read(&mut byte)? == 0 {
            break;
        }
        answer.extend_from_slice(&byte);
    }
    if answer.starts_with(OPENED) {
        return Ok(Ok(()));
    }
    stream.take(1024).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    Ok(Err(text.lines().last().unwrap_or_default().to_owned()))
}
