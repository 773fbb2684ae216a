//! HTTP as far as the stand-in needs it: requests with a length, and one answer for each connection.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

/// What was asked for.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) is_post: bool,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Reads it; none if the connection ends before.
    pub(crate) fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
        reader.read_line(&mut first).ok()?;
        while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let path = first.split([' ', '?']).nth(1)?.to_owned();
        Some(Self { is_post: first.starts_with("POST"), path, body })
    }
}

/// Answers it. Nothing means that there is nothing of this name.
pub(crate) fn answer(mut stream: &TcpStream, body: Option<&[u8]>) {
    let (status, body) = body.map_or(("404 Not Found", &[][..]), |body| ("200 OK", body));
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // The other side may be gone.
    drop(stream.write_all(&[head.as_bytes(), body].concat()));
}
