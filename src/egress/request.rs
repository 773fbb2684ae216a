//! The heads of HTTP requests that agents send to the gate. Pure, and stricter than HTTP demands: what two programs could
//! read differently is refused.

use crate::model::network::{BadHost, Endpoint};

/// Longest head.
pub(super) const HEAD_MAX: usize = 64 << 10;

/// Why a head is refused. The texts are for agents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadHead {
    #[error("it is longer than 64 KiB")]
    TooLong,
    #[error("a line does not end with CR and LF")]
    BareLineFeed,
    #[error("it is no HTTP/1.1 request")]
    Line,
    #[error("a header is not in the form `name: value`")]
    Header,
    #[error("the length of the body is given twice, or in a form that servers read differently")]
    Length,
    #[error("there must be one Host header")]
    Host,
    #[error("{0}")]
    Target(#[from] BadHost),
    #[error("only CONNECT, http:// addresses and base URLs of secrets are accepted here")]
    NoProxyRequest,
    #[error("there is no secret with a base URL by this name; the agent's `secrets` list them as NAME.url")]
    NoBaseUrl,
    #[error("CONNECT has no body")]
    ConnectBody,
}

/// How long the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) target: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) framing: Framing,
    /// Its length in bytes.
    pub(super) length: usize,
}

impl Head {
    /// Reads a head, if the bytes hold all of it.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, BadHead> {
        let Some(end) = find_end(bytes)? else {
            return if bytes.len() >= HEAD_MAX { Err(BadHead::TooLong) } else { Ok(None) };
        };
        let text = bytes.get(..end).unwrap_or_default();
        if text.len() > HEAD_MAX {
            return Err(BadHead::TooLong);
        }
        let text = std::str::from_utf8(text).map_err(|_| BadHead::Header)?;
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap_or_default();
        let [method, target, "HTTP/1.1" | "HTTP/1.0"] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(BadHead::Line);
        };
        let upper = |byte: u8| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_');
        let printable = |byte: u8| byte.is_ascii_graphic();
        if method.is_empty() || !method.bytes().all(upper) || target.is_empty() || !target.bytes().all(printable) {
            return Err(BadHead::Line);
        }
        let headers = lines.filter(|line| !line.is_empty()).map(header).collect::<Result<Vec<_>, _>>()?;
        let framing = framing(&headers)?;
        Ok(Some(Self { method: method.to_owned(), target: target.to_owned(), headers, framing, length: end }))
    }

    /// The values of a header.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The one host that the request names. `port` is the one that is meant if it names none.
    pub(super) fn host(&self, port: u16) -> Result<Endpoint, BadHead> {
        let mut hosts = self.values("host");
        match (hosts.next(), hosts.next()) {
            (Some(host), None) => endpoint(host, port),
            _ => Err(BadHead::Host),
        }
    }

    /// The path of an absolute address with `http://`, and where it leads.
    pub(super) fn absolute(&self) -> Option<Result<(Endpoint, &str), BadHead>> {
        let rest = self.target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
        let rest = self.target.get(rest?.len()..).unwrap_or_default();
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        Some(endpoint(authority, 80).map(|to| (to, path)))
    }
}

/// Reads a host with or without a port.
fn endpoint(text: &str, port: u16) -> Result<Endpoint, BadHead> {
    match text.parse() {
        Err(BadHost::NoPort(_)) => Ok(Endpoint { host: text.parse()?, port }),
        read => Ok(read?),
    }
}

/// The length of the head with the empty line that ends it. Every line must end with CR and LF, and there is no other CR
/// or NUL.
fn find_end(bytes: &[u8]) -> Result<Option<usize>, BadHead> {
    let mut line_begins = 0_usize;
    for (at, byte) in bytes.iter().enumerate().take(HEAD_MAX.saturating_add(2)) {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before)).copied();
        match byte {
            b'\n' if before != Some(b'\r') => return Err(BadHead::BareLineFeed),
            b'\n' if at == line_begins.saturating_add(1) => return Ok(Some(at.saturating_add(1))),
            b'\n' => line_begins = at.saturating_add(1),
            0 => return Err(BadHead::Header),
            _ if before == Some(b'\r') => return Err(BadHead::BareLineFeed),
            _ => {}
        }
    }
    Ok(None)
}

fn header(line: &str) -> Result<(String, String), BadHead> {
    let (name, value) = line.split_once(':').ok_or(BadHead::Header)?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let printable = |c: char| c == '\t' || !c.is_control();
    if name.is_empty() || !name.bytes().all(token) || !value.chars().all(printable) {
        return Err(BadHead::Header);
    }
    Ok((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()))
}

fn framing(headers: &[(String, String)]) -> Result<Framing, BadHead> {
    let values = |name: &str| -> Vec<&str> {
        headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    };
    let (lengths, encodings) = (values("content-length"), values("transfer-encoding"));
    match (&lengths[..], &encodings[..]) {
        ([], []) => Ok(Framing::Length(0)),
        ([], [one]) if one.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        ([one], []) if !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_digit()) => {
            one.parse().map(Framing::Length).map_err(|_| BadHead::Length)
        }
        _ => Err(BadHead::Length),
    }
}

/// What an agent's program asks of the gate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Connect(Endpoint),
    /// The answer to one request. These are the bytes to send instead of its head.
    Request(Endpoint, Vec<u8>),
}

/// Headers about the connection to the gate, which are not passed on.
const OF_CONNECTION: [&str; 6] =
    ["connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "upgrade"];

impl Wanted {
    /// Reads what a head asks for.
    pub(super) fn of(head: &Head) -> Result<Self, BadHead> {
        if head.method == "CONNECT" {
            return match head.framing {
                Framing::Length(0) => Ok(Self::Connect(head.target.parse::<Endpoint>()?)),
                Framing::Length(_) | Framing::Chunked => Err(BadHead::ConnectBody),
            };
        }
        let (to, path) = head.absolute().ok_or(BadHead::NoProxyRequest)??;
        if head.host(80)? != to {
            return Err(BadHead::Host);
        }
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        let mut text = format!("{} {slash}{path} HTTP/1.1\r\n", head.method);
        let named: Vec<String> = head
            .values("connection")
            .flat_map(|value| value.split(','))
            .map(|name| name.trim().to_ascii_lowercase())
            .collect();
        // What frames the body stays, whatever is said about it.
        let stays = |name: &str| {
            ["host", "content-length", "transfer-encoding"].contains(&name)
                || !(OF_CONNECTION.contains(&name) || named.iter().any(|known| known == name))
        };
        for (name, value) in head.headers.iter().filter(|(name, _)| stays(name)) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("connection: close\r\n\r\n");
        Ok(Self::Request(to, text.into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Result<Wanted, BadHead> {
        Wanted::of(&Head::read(text.as_bytes())?.unwrap())
    }

    fn to(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    #[test]
    fn what_programs_send_is_understood() {
        for text in ["CONNECT a.org:443 HTTP/1.1\r\nHost: a.org:443\r\n\r\n", "CONNECT A.org.:443 HTTP/1.0\r\n\r\n"] {
            assert_eq!(wanted(text), Ok(Wanted::Connect(to("a.org:443"))), "{text}");
        }
        let text = "GET http://a.org/x?y=1 HTTP/1.1\r\nHost: a.org\r\nProxy-Connection: keep-alive\r\nX: y\r\nConnection: \
                    Keep-Alive, X\r\nAccept: */*\r\n\r\n";
        let sent = b"GET /x?y=1 HTTP/1.1\r\nhost: a.org\r\naccept: */*\r\nconnection: close\r\n\r\n".to_vec();
        assert_eq!(wanted(text), Ok(Wanted::Request(to("a.org:80"), sent)));
        let text = "POST http://a.org:8080?q HTTP/1.1\r\nHost: A.org:8080\r\nContent-Length: 3\r\n\r\n";
        let sent = b"POST /?q HTTP/1.1\r\nhost: A.org:8080\r\ncontent-length: 3\r\nconnection: close\r\n\r\n".to_vec();
        assert_eq!(wanted(text), Ok(Wanted::Request(to("a.org:8080"), sent)));
    }

    #[test]
    fn an_unfinished_head_is_waited_for() {
        let text = b"CONNECT a.org:443 HTTP/1.1\r\nHost: a.org:443\r\n\r\nrest";
        for end in 0..text.len() - 4 {
            assert_eq!(Head::read(&text[..end]), Ok(None), "{end}");
        }
        assert_eq!(Head::read(text).unwrap().unwrap().length, text.len() - 4);
        assert_eq!(Head::read(&vec![b'a'; HEAD_MAX]), Err(BadHead::TooLong));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for text in [
            "CONNECT a.org:443 HTTP/1.1\nHost: a.org\n\n",
            "CONNECT a.org:443 HTTP/1.1\r\nHost: a.org\n\r\n",
            "CONNECT a.org:443 HTTP/1.1\rHost: a.org\r\n\r\n",
            "CONNECT a.org:443 HTTP/1.1\r\nX: a\0b\r\n\r\n",
            "CONNECT a.org:443 HTTP/1.1\r\nX : a\r\n\r\n",
            "CONNECT a.org:443 HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
            "CONNECT a.org:443 HTTP/1.1\r\nno colon\r\n\r\n",
            "CONNECT a.org:443 HTTP/2\r\n\r\n",
            "CONNECT  a.org:443 HTTP/1.1\r\n\r\n",
            "CONNECT a.org HTTP/1.1\r\n\r\n",
            "CONNECT user@a.org:443 HTTP/1.1\r\n\r\n",
            "CONNECT a.org:443/x HTTP/1.1\r\n\r\n",
            "CONNECT a.org:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
            "connect a.org:443 HTTP/1.1\r\n\r\n",
            "GET /path HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET https://a.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nHost: b.org\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\n\r\n",
            "GET http://a.org/ HTTP/1.1\r\nHost: a.org\r\nHost: a.org\r\n\r\n",
            "GET http://user@a.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "GET http://a.org\\x/ HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "POST http://a.org/ HTTP/1.1\r\nHost: a.org\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST http://a.org/ HTTP/1.1\r\nHost: a.org\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
            "POST http://a.org/ HTTP/1.1\r\nHost: a.org\r\nContent-Length: +3\r\n\r\n",
            "POST http://a.org/ HTTP/1.1\r\nHost: a.org\r\nContent-Length: 3, 3\r\n\r\n",
            "POST http://a.org/ HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST http://a.org/ HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: identity\r\n\r\n",
            "POST http://a.org/ HTTP/1.1\r\nHost: a.org\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(wanted(text).is_err(), "{text:?}");
        }
    }

    /// Otherwise a body could hide behind a header that is not passed on.
    #[test]
    fn the_length_of_a_body_is_always_passed_on() {
        let text = "POST http://a.org/ HTTP/1.1\r\nHost: a.org\r\nConnection: content-length, host\r\nContent-Length: 3\r\n\r\n";
        let Ok(Wanted::Request(_, sent)) = wanted(text) else { panic!() };
        assert_eq!(sent, b"POST / HTTP/1.1\r\nhost: a.org\r\ncontent-length: 3\r\nconnection: close\r\n\r\n");
    }
}
