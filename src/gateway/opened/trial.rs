//! What is read and decided on opened connections, without sockets: for the laws in `tests/fuzz/`.

pub use super::frames::Sender;
use super::frames::{BadFrame, Frames};
use super::head::{self, Chunks};
use super::judge::{HostSecret, judge};
use super::leak::{BodySearch, Mask};
use crate::model::bound_secret::{BadSecret, RequestPattern, SecretHeader};
use crate::model::secrets::Secrets;

/// What an agent has instead of the value, in the requests of [`judged`].
pub const PLACEHOLDER: &str = "hearth-token-0f0f0f0f";
/// A value that Hearth knows.
pub const VALUE: &str = "ghp_theRealToken42";

/// A request that may pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// Its first line and its headers, as they were read.
    pub head: Vec<u8>,
    /// The headers that get values.
    pub injected: Vec<String>,
}

/// Judges the request at the beginning of these bytes, for a host with one secret in `Authorization`. `None`: more bytes
/// are needed.
///
/// # Errors
/// Why it is refused.
pub fn judged(bytes: &[u8]) -> Result<Option<Passed>, String> {
    let words = |refusal: super::refusal::Refusal| refusal.to_string();
    let Some(length) = head::length(bytes).map_err(words)? else { return Ok(None) };
    let head = head::parse(bytes.get(..length).unwrap_or_default()).map_err(words)?;
    let secret = secret().map_err(|error| error.to_string())?;
    let injections = judge(&head, &[secret], &known()).map_err(words)?;
    let injected = injections.iter().filter_map(|one| Some(one.header(VALUE.as_bytes())?.0.to_string())).collect();
    let mut text = format!("{} {} HTTP/1.1\r\n", head.method, head.address()).into_bytes();
    for (name, value) in &head.headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    Ok(Some(Passed { head: text, injected }))
}

fn secret() -> Result<HostSecret, BadSecret> {
    let header: SecretHeader = "Authorization: Bearer {}".parse()?;
    let requests: Vec<RequestPattern> = vec!["* /open/**".parse()?];
    Ok(HostSecret { name: "token".to_owned(), header, requests, placeholder: PLACEHOLDER.to_owned() })
}

fn known() -> Secrets {
    let mut known = Secrets::default();
    known.add("token", VALUE.as_bytes());
    known
}

/// A body, and what follows it.
pub type Unchunked = (Vec<u8>, Vec<u8>);

/// The body in chunks that come in these pieces, and what follows it. `None` if it does not end.
///
/// # Errors
/// Why it is refused.
pub fn unchunked(pieces: &[&[u8]]) -> Result<Option<Unchunked>, String> {
    let (mut state, mut buffer, mut body) = (Chunks::Size, Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Some(bytes) = state.next(&mut buffer).map_err(|refusal| refusal.to_string())? {
            body.extend(bytes);
        }
    }
    Ok((state == Chunks::Done).then_some((body, buffer)))
}

/// The messages of a WebSocket that comes in these pieces, as they are sent on.
///
/// # Errors
/// Why one is refused.
pub fn sent_on(sender: Sender, pieces: &[&[u8]]) -> Result<Vec<u8>, String> {
    let (mut frames, mut sent) = (Frames::new(sender), Vec::new());
    let words = |bad| match bad {
        BadFrame::Form => "malformed".to_owned(),
        BadFrame::TooLong => "too long".to_owned(),
    };
    for piece in pieces {
        frames.push(piece);
        while let Some(message) = frames.next().map_err(words)? {
            sent.extend(message.written());
        }
    }
    Ok(sent)
}

/// What passes of a body of an agent that comes in these pieces. `None` if it has the value in it.
#[must_use]
pub fn searched(pieces: &[&[u8]]) -> Option<Vec<u8>> {
    let mut search = BodySearch::new(std::sync::Arc::new(known()));
    let mut passed = Vec::new();
    for piece in pieces {
        passed.extend(search.pass(piece).ok()?);
    }
    passed.extend(search.rest());
    Some(passed)
}

/// An answer that comes in these pieces, with the value overwritten.
#[must_use]
pub fn masked(pieces: &[&[u8]]) -> Vec<u8> {
    let mut mask = Mask::new([VALUE.as_bytes()]);
    let mut passed: Vec<u8> = pieces.iter().flat_map(|piece| mask.pass(piece)).collect();
    passed.extend(mask.rest());
    passed
}
