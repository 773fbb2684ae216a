//! Reads what is before the body of a request, bodies in chunks, and values of a query.

use super::Request;

/// Headers of a request.
const HEADERS: usize = 64;
/// Bytes of a line that says how long a chunk is.
const SIZE_BYTES: usize = 64;

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Bytes(usize),
    /// Each chunk says it.
    Chunked,
}

/// What is before the body.
#[derive(Debug)]
pub(super) struct Head {
    /// Without its body.
    pub(super) request: Request,
    /// Where the body begins.
    pub(super) begin: usize,
    pub(super) length: Length,
}

/// Reads a head; none if it is not whole, and otherwise the status with which it is refused.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Head>, u16> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let begin = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(begin)) => begin,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(431),
        Err(_) => return Err(400),
    };
    let (method, target) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        signature: one(parsed.headers, "x-hub-signature-256").unwrap_or_default().map(str::to_owned),
        body: Vec::new(),
    };
    // A proxy could read two of them differently.
    let (length, coding) = (one(parsed.headers, "content-length")?, one(parsed.headers, "transfer-encoding")?);
    let length = match (length, coding) {
        (None, None) => Length::Bytes(0),
        (Some(length), None) if !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) => {
            Length::Bytes(length.parse().map_err(|_| 413_u16)?)
        }
        (None, Some(coding)) if coding.eq_ignore_ascii_case("chunked") => Length::Chunked,
        _ => return Err(400),
    };
    Ok(Some(Head { request, begin, length }))
}

/// The value of a header that may be there once.
fn one<'h>(headers: &[httparse::Header<'h>], name: &str) -> Result<Option<&'h str>, u16> {
    let mut found = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    match (found.next(), found.next()) {
        (None, _) => Ok(None),
        (Some(header), None) => std::str::from_utf8(header.value).map(|value| Some(value.trim())).map_err(|_| 400),
        (Some(_), Some(_)) => Err(400),
    }
}

/// A body that comes in chunks.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    pub(super) body: Vec<u8>,
}

impl Chunks {
    /// Takes the chunks that are whole from what was read; whether the last one came, and otherwise the status with which the
    /// request is refused.
    pub(super) fn take(&mut self, bytes: &mut Vec<u8>, most: usize) -> Result<bool, u16> {
        loop {
            let (begin, size) = match httparse::parse_chunk_size(bytes) {
                Ok(httparse::Status::Complete(found)) => found,
                Ok(httparse::Status::Partial) if bytes.len() < SIZE_BYTES => return Ok(false),
                Ok(httparse::Status::Partial) | Err(_) => return Err(400),
            };
            let size = usize::try_from(size).ok().filter(|size| size.saturating_add(self.body.len()) <= most);
            let end = begin + size.ok_or(413_u16)?;
            if end == begin {
                // What may be behind it is not of interest.
                return Ok(true);
            }
            match bytes.get(end..end + 2) {
                None => return Ok(false),
                Some(b"\r\n") => {}
                Some(_) => return Err(400),
            }
            self.body.extend_from_slice(bytes.get(begin..end).unwrap_or_default());
            bytes.drain(..end + 2);
        }
    }
}

/// A value of a query, decoded.
pub(in crate::whatsapp) fn value(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, text) = pairs.find(|(key, _)| decoded(key).as_deref() == Some(name))?;
    decoded(text)
}

fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let (byte, behind) = match (first, after) {
            (b'%', [high, low, behind @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok().filter(|digits| !digits.starts_with('+'))?;
                (u8::from_str_radix(digits, 16).ok()?, behind)
            }
            (b'%', _) => return None,
            (b'+', _) => (b' ', after),
            (byte, _) => (*byte, after),
        };
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Result<Option<Length>, u16> {
        read(text.as_bytes()).map(|head| head.map(|head| head.length))
    }

    #[test]
    fn heads_are_read_or_refused() {
        let post = |more: &str| of(&format!("POST /a?b=1 HTTP/1.1\r\nhost: x\r\n{more}\r\n"));
        assert_eq!(post("Content-Length: 7\r\n"), Ok(Some(Length::Bytes(7))));
        assert_eq!(post("Transfer-Encoding: Chunked\r\n"), Ok(Some(Length::Chunked)));
        assert_eq!((post(""), of("POST /a HTTP/1.1\r\nhost")), (Ok(Some(Length::Bytes(0))), Ok(None)));
        for (more, status) in [
            ("content-length: 7\r\ncontent-length: 7\r\n", 400),
            ("content-length: 7\r\ntransfer-encoding: chunked\r\n", 400),
            ("content-length: +7\r\n", 400),
            ("content-length: \r\n", 400),
            ("content-length: 99999999999999999999999\r\n", 413),
            ("transfer-encoding: gzip, chunked\r\n", 400),
            ("bad header\r\n", 400),
        ] {
            assert_eq!(post(more), Err(status), "{more}");
        }
        assert_eq!(post(&"a: b\r\n".repeat(65)), Err(431));
        let signed =
            |more: &str| read(format!("POST /p?q=1 HTTP/1.1\r\n{more}\r\n").as_bytes()).unwrap().unwrap().request;
        let once = signed("X-Hub-Signature-256: sha256=a\r\n");
        assert_eq!(
            (once.signature.as_deref(), once.path.as_str(), once.query.as_str()),
            (Some("sha256=a"), "/p", "q=1")
        );
        let twice = signed("X-Hub-Signature-256: sha256=a\r\nx-hub-signature-256: sha256=b\r\n");
        assert_eq!(twice.signature, None, "one too many");
    }

    /// The body of chunks that come in pieces of so many bytes.
    fn body(text: &str, piece: usize) -> Result<Option<String>, u16> {
        let (mut chunks, mut bytes) = (Chunks::default(), Vec::new());
        for part in text.as_bytes().chunks(piece) {
            bytes.extend_from_slice(part);
            if chunks.take(&mut bytes, 20)? {
                return Ok(Some(String::from_utf8(chunks.body).unwrap()));
            }
        }
        Ok(None)
    }

    #[test]
    fn bodies_come_in_chunks() {
        let whole = "4\r\nWiki\r\n6;x=y\r\npedia \r\n0\r\n\r\n";
        for piece in [1, 7, 100] {
            assert_eq!(body(whole, piece), Ok(Some("Wikipedia ".to_owned())));
            assert_eq!(body("4\r\nWiki\r\n6\r\npedi", piece), Ok(None));
            for (text, status) in [
                ("4\r\nWikipedia", 400),
                ("x\r\n", 400),
                ("15\r\n", 413),
                ("ffffffffffffffff\r\n", 413),
                ("fffffffffffffffff\r\n", 400),
                (&format!("a\r\n0123456789\r\nb\r\n{whole}"), 413),
            ] {
                assert_eq!(body(text, piece), Err(status), "{text:?}");
            }
        }
    }

    #[test]
    fn values_of_a_query_are_decoded() {
        let query = "hub.mode=subscribe&hub%2Echallenge=a%20b+c&x=%&y=%zz&z=%+1";
        assert_eq!(value(query, "hub.challenge").as_deref(), Some("a b c"));
        assert_eq!(["x", "y", "z", "w"].map(|name| value(query, name)), [None, None, None, None]);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            text in "(GET|POST) [ -~]{0,30} HTTP/1.1\r\n([ -~]{0,20}\r\n){0,4}",
            chunks in "[0-9a-fx;\r\n]{0,40}",
        ) {
            drop(read(&bytes));
            drop(read(text.as_bytes()));
            drop(decoded(&text));
            if let Ok(Some(body)) = body(&chunks, 3) {
                prop_assert!(body.len() <= 20);
            }
        }
    }
}
