//! The head of a request, read strictly: what two programs could read differently is refused. Pure.

use axum::http::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, UPGRADE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::refusal::Refusal;
use crate::gateway::answer::named_by_connection;
use crate::model::bound_secret::WEBSOCKET;

/// Maximum length of a head in bytes.
pub(in crate::gateway) const HEAD_MAX: usize = 64 << 10;
/// What ends a head.
const END: &[u8] = b"\r\n\r\n";

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum Framing {
    /// There is none.
    None,
    /// By its length.
    Length(u64),
    /// By its last chunk.
    Chunked,
}

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) struct Head {
    pub(in crate::gateway) method: Method,
    /// Begins with `/`.
    pub(in crate::gateway) path: String,
    pub(in crate::gateway) query: Option<String>,
    pub(in crate::gateway) headers: HeaderMap,
    pub(in crate::gateway) framing: Framing,
    /// Whether the program waits for a sign before it sends the body.
    pub(in crate::gateway) waits: bool,
    /// Whether it asks for a WebSocket.
    pub(in crate::gateway) is_websocket: bool,
}

impl Head {
    /// The path with the query.
    pub(in crate::gateway) fn address(&self) -> String {
        self.query.as_ref().map_or_else(|| self.path.clone(), |query| format!("{}?{query}", self.path))
    }
}

/// The length of the head at the beginning of these bytes. `None`: more bytes are needed.
pub(in crate::gateway) fn length(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let end = bytes.windows(END.len()).position(|window| window == END).map(|at| at.saturating_add(END.len()));
    let head = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    if head.len() > HEAD_MAX {
        return Err(Refusal::LongHead);
    }
    let mut before = 0;
    for byte in head {
        // Some programs take each of the two for the end of a line, others do not.
        if (*byte == b'\n') != (before == b'\r') {
            return Err(Refusal::Form("a line does not end with a carriage return and a line feed"));
        }
        before = *byte;
    }
    Ok(end)
}

/// Reads a head with its end.
pub(in crate::gateway) fn parse(bytes: &[u8]) -> Result<Head, Refusal> {
    let text = bytes.strip_suffix(END).ok_or(Refusal::Form("it has no end"))?;
    let mut lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let (method, path, query) = first_line(lines.next().unwrap_or_default())?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = header(line)?;
        headers.try_append(name, value).map_err(|_| Refusal::LongHead)?;
    }
    let framing = framing(&headers)?;
    let waits = waits(&headers)?;
    let is_websocket = is_websocket(&headers)?;
    if is_websocket && (method != Method::GET || framing != Framing::None || waits) {
        return Err(Refusal::Form("it asks for a WebSocket, and is no GET without a body"));
    }
    Ok(Head { method, path, query, headers, framing, waits, is_websocket })
}

fn is_websocket(headers: &HeaderMap) -> Result<bool, Refusal> {
    let mut upgrades = headers.get_all(UPGRADE).iter();
    let is_named = || named_by_connection(headers).contains(&UPGRADE);
    match (upgrades.next(), upgrades.next()) {
        (None, _) => Ok(false),
        (Some(to), None) if to.as_bytes().eq_ignore_ascii_case(b"websocket") && is_named() => Ok(true),
        _ => Err(Refusal::Form("it asks for another protocol, and only HTTP/1.1 and WebSockets pass")),
    }
}

fn first_line(line: &[u8]) -> Result<(Method, String, Option<String>), Refusal> {
    let wrong = Refusal::Form("its first line is not a method, a path and HTTP/1.1");
    let text = std::str::from_utf8(line).map_err(|_| wrong.clone())?;
    let mut words = text.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1"), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(wrong);
    };
    if !target.starts_with('/') {
        return Err(Refusal::Form("its address is not a path"));
    }
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| wrong.clone())?;
    if [Method::CONNECT, Method::TRACE].contains(&method) || ["TRACK", WEBSOCKET].contains(&method.as_str()) {
        return Err(Refusal::Form("its method never passes"));
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(Refusal::Form("its address has characters that no address has"));
    }
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query.to_owned())));
    Ok((method, path.to_owned(), query))
}

fn header(line: &[u8]) -> Result<(HeaderName, HeaderValue), Refusal> {
    let wrong = Refusal::Form("one of its headers is not a name, a colon and a value");
    let at = line.iter().position(|byte| *byte == b':').ok_or_else(|| wrong.clone())?;
    // A blank before the colon, or at the beginning of the line, is no part of a name.
    let name = HeaderName::from_bytes(line.get(..at).unwrap_or_default()).map_err(|_| wrong.clone())?;
    let value = line.get(at.saturating_add(1)..).unwrap_or_default().trim_ascii();
    Ok((name, HeaderValue::from_bytes(value).map_err(|_| wrong)?))
}

/// A body has one length, or it has chunks.
fn framing(headers: &HeaderMap) -> Result<Framing, Refusal> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    match (lengths.next(), lengths.next(), encodings.next(), encodings.next()) {
        (None, None, None, None) => Ok(Framing::None),
        (Some(length), None, None, None) => {
            let text = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let length = text.and_then(|text| text.parse().ok());
            length.map(Framing::Length).ok_or(Refusal::Form("the length of its body is not a number"))
        }
        (None, None, Some(encoding), None) if encoding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked)
        }
        (None, None, Some(_), None) => Err(Refusal::Form("its body is encoded in another way than in chunks")),
        _ => Err(Refusal::Form("its body has more than one length")),
    }
}

fn waits(headers: &HeaderMap) -> Result<bool, Refusal> {
    let mut expected = headers.get_all(EXPECT).iter();
    match (expected.next(), expected.next()) {
        (None, _) => Ok(false),
        (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"100-continue") => Ok(true),
        _ => Err(Refusal::Form("it expects what Hearth does not do")),
    }
}

/// Where a body in chunks is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum Chunks {
    /// At the size of a chunk.
    Size,
    /// Within a chunk, with so many bytes left.
    Data(u64),
    /// At the line end after a chunk.
    LineEnd,
    /// At the line end after the last chunk.
    Last,
    /// After the body.
    Done,
}

impl Chunks {
    /// Takes the next bytes of the body from the beginning of `buffer`. `None`: more bytes are needed, or it is done.
    pub(in crate::gateway) fn next(&mut self, buffer: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Refusal> {
        let wrong = || Refusal::Form("its body has a chunk that can be read in two ways");
        loop {
            match *self {
                Self::Done => return Ok(None),
                Self::Size => {
                    let Some(size) = size(buffer).map_err(|()| wrong())? else { return Ok(None) };
                    buffer.drain(..size.line);
                    *self = if size.bytes == 0 { Self::Last } else { Self::Data(size.bytes) };
                }
                Self::Data(left) => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                    if length == 0 {
                        return Ok(None);
                    }
                    let left = left.saturating_sub(u64::try_from(length).unwrap_or(u64::MAX));
                    *self = if left == 0 { Self::LineEnd } else { Self::Data(left) };
                    return Ok(Some(buffer.drain(..length).collect()));
                }
                Self::LineEnd | Self::Last => {
                    match buffer.as_slice() {
                        [] | [b'\r'] => return Ok(None),
                        [b'\r', b'\n', ..] => {}
                        // Trailers could be headers that were not judged.
                        _ => return Err(wrong()),
                    }
                    buffer.drain(..2);
                    *self = if *self == Self::Last { Self::Done } else { Self::Size };
                }
            }
        }
    }
}

struct Size {
    bytes: u64,
    /// Length of its line.
    line: usize,
}

/// Reads the line with the size of a chunk: hexadecimal digits, and nothing else. `None`: more bytes are needed.
fn size(buffer: &[u8]) -> Result<Option<Size>, ()> {
    let digits = buffer.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    match (digits, buffer.get(digits..).unwrap_or_default()) {
        (17.., _) => Err(()),
        (_, [] | [b'\r']) => Ok(None),
        (1.., [b'\r', b'\n', ..]) => {
            let text = buffer.get(..digits).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
            let bytes = u64::from_str_radix(text, 16).map_err(|_| ())?;
            Ok(Some(Size { bytes, line: digits.saturating_add(2) }))
        }
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Head, Refusal> {
        match length(text.as_bytes())? {
            Some(length) => parse(&text.as_bytes()[..length]),
            None => Err(Refusal::Late),
        }
    }

    #[test]
    fn an_ordinary_head() {
        let head =
            read("POST /a/b?c=d HTTP/1.1\r\nHost: a.example\r\nX-A:  b \t\r\nContent-Length: 5\r\n\r\nhello").unwrap();
        assert_eq!((head.method.as_str(), head.path.as_str(), head.query.as_deref()), ("POST", "/a/b", Some("c=d")));
        assert_eq!((head.headers["x-a"].as_bytes(), head.framing, head.waits), (&b"b"[..], Framing::Length(5), false));
        assert_eq!(head.address(), "/a/b?c=d");
        assert_eq!(read("GET / HTTP/1.1\r\n\r\n").unwrap().framing, Framing::None);
        let chunked = read("PUT / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\nExpect: 100-Continue\r\n\r\n").unwrap();
        assert_eq!((chunked.framing, chunked.waits), (Framing::Chunked, true));
        assert!(!chunked.is_websocket);
        let socket = read("GET / HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n").unwrap();
        assert!(socket.is_websocket);
    }

    #[test]
    fn more_bytes_are_waited_for_up_to_a_bound() {
        for text in ["", "G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nA: b\r", "GET / HTTP/1.1\r\nA: b\r\n\r"] {
            assert_eq!(length(text.as_bytes()), Ok(None), "{text:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(HEAD_MAX));
        assert_eq!(length(long.as_bytes()), Err(Refusal::LongHead));
        assert_eq!(length(format!("{long}\r\n\r\n").as_bytes()), Err(Refusal::LongHead));
    }

    #[test]
    fn what_two_programs_could_read_differently_is_refused() {
        for text in [
            // Line ends.
            "GET / HTTP/1.1\nA: b\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\n\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\n\r\n",
            // First lines.
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1 \r\n\r\n",
            " GET / HTTP/1.1\r\n\r\n",
            "GET\t/\tHTTP/1.1\r\n\r\n",
            "GET /\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
            "G(T / HTTP/1.1\r\n\r\n",
            "GET https://a.example/ HTTP/1.1\r\n\r\n",
            "GET a.example/ HTTP/1.1\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\n\r\n",
            "CONNECT a.example:443 HTTP/1.1\r\n\r\n",
            "CONNECT / HTTP/1.1\r\n\r\n",
            "TRACE / HTTP/1.1\r\n\r\n",
            "TRACK / HTTP/1.1\r\n\r\n",
            "GET /a#b HTTP/1.1\r\n\r\n",
            "GET /\u{fc} HTTP/1.1\r\n\r\n",
            "GET /\0 HTTP/1.1\r\n\r\n",
            // Headers.
            "GET / HTTP/1.1\r\nA : b\r\n\r\n",
            "GET / HTTP/1.1\r\n A: b\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nA\r\n\r\n",
            "GET / HTTP/1.1\r\n: b\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\0\r\n\r\n",
            // Lengths.
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: \r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 0x5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: \x0bchunked\r\n\r\n",
            // Other protocols.
            "GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
            "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket, h2c\r\n\r\n",
            "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n",
            "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            "WEBSOCKET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n",
            "POST / HTTP/1.1\r\nExpect: something\r\n\r\n",
        ] {
            assert!(matches!(read(text), Err(Refusal::Form(_))), "{text:?}: {:?}", read(text));
        }
    }

    fn chunks(pieces: &[&[u8]]) -> Result<(Vec<u8>, Chunks, Vec<u8>), Refusal> {
        let (mut state, mut buffer, mut body) = (Chunks::Size, Vec::new(), Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            while let Some(bytes) = state.next(&mut buffer)? {
                body.extend(bytes);
            }
        }
        Ok((body, state, buffer))
    }

    #[test]
    fn chunks_are_joined_wherever_they_are_cut() {
        let text = b"5\r\nhello\r\n00a\r\n, everyone\r\n0\r\n\r\nGET /";
        for at in 0..=text.len() {
            let (one, other) = text.split_at(at);
            let (body, state, left) = chunks(&[one, other]).unwrap();
            assert_eq!(
                (body.as_slice(), state, left.as_slice()),
                (&b"hello, everyone"[..], Chunks::Done, &b"GET /"[..]),
                "{at}"
            );
        }
    }

    #[test]
    fn chunks_that_can_be_read_in_two_ways_are_refused() {
        for text in [
            "5\nhello\r\n",
            "5;a=b\r\nhello\r\n",
            "5 \r\nhello\r\n",
            "\r\nhello",
            "0x5\r\nhello\r\n",
            "+5\r\nhello\r\n",
            "5\r\nhelloX",
            "5\r\nhello\n0\r\n\r\n",
            "00000000000000005\r\n",
            "0\r\nA: b\r\n\r\n",
            "-1\r\n",
            "ffffffffffffffffff\r\n",
        ] {
            assert!(chunks(&[text.as_bytes()]).is_err(), "{text:?}");
        }
    }

    proptest! {
        /// A head that passes reads the same when it is written again, and no byte of it separates lines.
        #[test]
        fn heads_that_pass_mean_one_thing(text in "(GET|POST) /[a-z%./?]{0,8} HTTP/1.1\r\n([A-Z: a-z,\r\n\t]{0,30}\r\n)?\r\n") {
            if let Ok(head) = read(&text) {
                let mut again = format!("{} {} HTTP/1.1\r\n", head.method, head.address());
                for (name, value) in &head.headers {
                    again.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
                }
                again.push_str("\r\n");
                prop_assert_eq!(read(&again), Ok(head));
            }
        }
    }
}
