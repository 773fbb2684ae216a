//! Checks that every HTTP request of a connection without TLS is for the host that was judged. Pure.
//!
//! Heads are checked and bodies are counted; both pass as they came.

use super::leak::Search;
use super::request::{Framing, Head};
use crate::model::network::{Endpoint, NetRefusal};

/// Longest line of a chunk's size, and longest trailer.
const LINE_MAX: usize = 16 << 10;
/// Bytes that may wait for the answer to a request for another protocol.
const HELD_MAX: usize = 64 << 10;

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Requests {
    host: Endpoint,
    state: State,
    /// Bytes that cannot be judged yet.
    held: Vec<u8>,
    /// Whether a request has passed.
    pub(super) has_passed: bool,
    search: Search,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Body(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer,
    /// A request for another protocol has passed, and is not answered yet.
    Asked,
    /// Everything passes: the server speaks another protocol.
    Other,
    /// Nothing more passes.
    Over,
}

impl Requests {
    /// Checks all requests.
    pub(super) fn new(host: Endpoint, search: Search) -> Self {
        Self { host, state: State::Head, held: Vec::new(), has_passed: false, search }
    }

    /// Lets the body of one request pass whose head was checked, and nothing more.
    pub(super) fn body_of(host: Endpoint, framing: Framing, search: Search) -> BodyOnly {
        let mut requests = Self::new(host, search);
        requests.state = after_head(framing);
        BodyOnly(requests)
    }

    /// The first bytes of the answer to a request for another protocol.
    pub(super) fn answered(&mut self, first: &[u8]) {
        if self.state == State::Asked {
            let is_agreed = first.get(8..12).is_some_and(|status| status == b" 101") && first.starts_with(b"HTTP/1.1");
            self.state = if is_agreed { State::Other } else { State::Over };
        }
    }

    /// What may pass, now that these bytes have come.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Result<Vec<u8>, NetRefusal> {
        self.held.extend_from_slice(bytes);
        let mut passed = Vec::new();
        loop {
            let before = (self.state, self.held.len());
            self.step(&mut passed)?;
            if (self.state, self.held.len()) == before {
                return Ok(passed);
            }
        }
    }

    fn step(&mut self, passed: &mut Vec<u8>) -> Result<(), NetRefusal> {
        match self.state {
            State::Head if self.held.is_empty() => {}
            State::Head => {
                if let Some(head) = Head::read(&self.held).map_err(|_| NetRefusal::NotForThisHost)? {
                    self.state = self.next(&head)?;
                    self.search.head(&head)?;
                    self.has_passed = true;
                    self.forward(head.length, passed);
                }
            }
            State::Body(left) => {
                let left = self.forward_payload(left, passed)?;
                self.state = if left == 0 { State::Head } else { State::Body(left) };
            }
            State::Chunk(left) => {
                let left = self.forward_payload(left, passed)?;
                self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
            }
            State::ChunkEnd => {
                if let Some(line) = self.line()? {
                    let length = if line.is_empty() { 2 } else { return Err(NetRefusal::NotForThisHost) };
                    self.state = State::ChunkSize;
                    self.forward(length, passed);
                }
            }
            State::ChunkSize => {
                if let Some((size, length)) = self.line()?.map(|line| (chunk_size(line), line.len())) {
                    let size = size.ok_or(NetRefusal::NotForThisHost)?;
                    self.state = if size == 0 { State::Trailer } else { State::Chunk(size) };
                    self.forward(length.saturating_add(2), passed);
                }
            }
            State::Trailer => {
                if let Some(length) = self.line()?.map(<[u8]>::len) {
                    self.state = if length == 0 { State::Head } else { State::Trailer };
                    self.forward(length.saturating_add(2), passed);
                }
            }
            State::Asked if self.held.len() > HELD_MAX => return Err(NetRefusal::NotForThisHost),
            State::Asked => {}
            State::Other => passed.append(&mut self.held),
            State::Over => self.held.clear(),
        }
        Ok(())
    }

    /// Checks a head.
    fn next(&self, head: &Head) -> Result<State, NetRefusal> {
        let refused = Err(NetRefusal::NotForThisHost);
        let host = head.host(80).map_err(|_| NetRefusal::NotForThisHost)?;
        let is_path = head.target.starts_with('/') || head.target == "*";
        let fits = is_path || head.absolute().is_some_and(|read| read.is_ok_and(|(to, _)| to == self.host));
        if head.method == "CONNECT" || host != self.host || !fits {
            return refused;
        }
        let mut upgrades = head.values("upgrade");
        match (upgrades.next(), upgrades.next()) {
            (None, _) => Ok(after_head(head.framing)),
            // Only the answer to the first request is surely the first one.
            (Some(to), None)
                if to.eq_ignore_ascii_case("websocket") && !self.has_passed && head.framing == Framing::Length(0) =>
            {
                Ok(State::Asked)
            }
            _ => refused,
        }
    }

    /// The next line without its end, if it is there.
    fn line(&self) -> Result<Option<&[u8]>, NetRefusal> {
        let end = self.held.iter().position(|byte| *byte == b'\n');
        match end {
            None if self.held.len() > LINE_MAX => Err(NetRefusal::NotForThisHost),
            Some(end) if end > LINE_MAX => Err(NetRefusal::NotForThisHost),
            None => Ok(None),
            Some(end) => {
                let line = self.held.get(..end).and_then(|line| line.strip_suffix(b"\r"));
                let line = line.filter(|line| !line.contains(&b'\r') && !line.contains(&0));
                line.map(Some).ok_or(NetRefusal::NotForThisHost)
            }
        }
    }

    fn forward(&mut self, length: usize, passed: &mut Vec<u8>) {
        passed.extend(self.held.drain(..length.min(self.held.len())));
    }

    /// Forwards at most so many bytes of a payload, and returns how many are left.
    fn forward_payload(&mut self, left: u64, passed: &mut Vec<u8>) -> Result<u64, NetRefusal> {
        let there = u64::try_from(self.held.len()).unwrap_or(u64::MAX).min(left);
        let mut bytes = Vec::new();
        self.forward(usize::try_from(there).unwrap_or(usize::MAX), &mut bytes);
        let left = left.saturating_sub(there);
        passed.append(&mut self.search.payload(&bytes, left == 0)?);
        Ok(left)
    }
}

/// The body of one request, after which nothing passes.
#[derive(Debug)]
pub(super) struct BodyOnly(Requests);

impl BodyOnly {
    /// What may pass, now that these bytes have come.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Result<Vec<u8>, NetRefusal> {
        let requests = &mut self.0;
        requests.held.extend_from_slice(bytes);
        let mut passed = Vec::new();
        loop {
            if requests.state == State::Head {
                requests.state = State::Over;
            }
            let before = (requests.state, requests.held.len());
            requests.step(&mut passed)?;
            if (requests.state, requests.held.len()) == before {
                return Ok(passed);
            }
        }
    }
}

const fn after_head(framing: Framing) -> State {
    match framing {
        Framing::Length(0) => State::Head,
        Framing::Length(length) => State::Body(length),
        Framing::Chunked => State::ChunkSize,
    }
}

/// The size in a line before a chunk, which may have extensions.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (size, rest) = line.split_at_checked(digits)?;
    let is_plain = rest.is_empty() || rest.trim_ascii_start().first() == Some(&b';');
    let size = std::str::from_utf8(size).ok().filter(|size| (1..=15).contains(&size.len()) && is_plain)?;
    u64::from_str_radix(size, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Requests {
        Requests::new("a.org:80".parse().unwrap(), Search::default())
    }

    /// What passes of a text that comes byte by byte.
    fn bytewise(text: &str) -> Result<String, NetRefusal> {
        let mut requests = requests();
        let mut passed = Vec::new();
        for byte in text.as_bytes() {
            passed.extend(requests.pass(&[*byte])?);
        }
        Ok(String::from_utf8(passed).unwrap())
    }

    fn at_once(text: &str) -> Result<String, NetRefusal> {
        requests().pass(text.as_bytes()).map(|passed| String::from_utf8(passed).unwrap())
    }

    #[test]
    fn requests_for_the_host_pass_as_they_are() {
        for text in [
            "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: A.org:80\r\n\r\nGET /x HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a.org\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: x\r\n\r\n\
             GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
        ] {
            assert_eq!(at_once(text).as_deref(), Ok(text));
            assert_eq!(bytewise(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_request_for_another_host_does_not_pass_wherever_it_is() {
        let evil = "GET / HTTP/1.1\r\nHost: b.org\r\n\r\n";
        for before in [
            "",
            "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a.org\r\nContent-Length: 5\r\n\r\nhello",
            "POST / HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ] {
            let text = format!("{before}{evil}");
            assert_eq!(at_once(&text), Err(NetRefusal::NotForThisHost), "{text}");
            assert_eq!(bytewise(&text), Err(NetRefusal::NotForThisHost), "{text}");
        }
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.org:8080\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.org\r\nHost: b.org\r\n\r\n",
            "GET http://b.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET / HTTP/1.1\nHost: a.org\n\n",
            "CONNECT a.org:80 HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a.org\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello",
            "POST / HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n",
            "POST / HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\n",
            "POST / HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\n",
            "POST / HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
            "GET / HTTP/1.1\r\nHost: a.org\r\nUpgrade: h2c\r\n\r\n",
        ] {
            assert_eq!(at_once(text), Err(NetRefusal::NotForThisHost), "{text}");
        }
    }

    #[test]
    fn another_protocol_passes_only_when_the_server_agrees() {
        let asking = "GET / HTTP/1.1\r\nHost: a.org\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";
        let evil = b"GET / HTTP/1.1\r\nHost: b.org\r\n\r\n";
        for (answer, passes) in [
            (&b"HTTP/1.1 101 Switching Protocols\r\n"[..], true),
            (b"HTTP/1.1 200 OK\r\n", false),
            (b"HTTP/1.1 100 Continue\r\n", false),
            (b"HT", false),
        ] {
            let mut requests = requests();
            assert_eq!(requests.pass(asking.as_bytes()).unwrap(), asking.as_bytes());
            assert_eq!(requests.pass(evil).unwrap(), b"", "it waits");
            requests.answered(answer);
            assert_eq!(requests.pass(b"more").unwrap().len(), if passes { evil.len() + 4 } else { 0 });
        }
        let second = format!("GET / HTTP/1.1\r\nHost: a.org\r\n\r\n{asking}");
        assert_eq!(at_once(&second), Err(NetRefusal::NotForThisHost));
    }

    #[test]
    fn after_the_body_of_one_request_nothing_passes() {
        for (framing, body) in
            [(Framing::Length(5), "hello"), (Framing::Length(0), ""), (Framing::Chunked, "5\r\nhello\r\n0\r\n\r\n")]
        {
            let mut only = Requests::body_of("a.org:80".parse().unwrap(), framing, Search::default());
            let text = format!("{body}GET / HTTP/1.1\r\nHost: a.org\r\n\r\n");
            assert_eq!(String::from_utf8(only.pass(text.as_bytes()).unwrap()).unwrap(), body);
            assert_eq!(only.pass(b"more").unwrap(), b"");
        }
    }
}
