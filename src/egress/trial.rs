//! The gate's parsers of agents' bytes, without sockets: for the laws in `tests/fuzz/`.

use super::hello;
use super::leak::Search;
use super::plain::Requests;
use super::request::{Head, Wanted};
use crate::model::network::Endpoint;

/// What the first bytes of a TLS client are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstMessage {
    /// The beginning of a first message.
    Unfinished,
    /// Something else.
    Other,
    /// A first message, with the name of the server if it has one.
    Names(Option<String>),
}

/// Reads the first message of a TLS client.
#[must_use]
pub fn first_message(bytes: &[u8]) -> FirstMessage {
    match hello::read(bytes) {
        Ok(None) => FirstMessage::Unfinished,
        Ok(Some(hello)) => FirstMessage::Names(hello.server),
        Err(hello::NotTls) => FirstMessage::Other,
    }
}

/// A request that is understood: where it goes, and the head that is sent there instead of its own.
pub type Understood = (Endpoint, Option<Vec<u8>>);

/// What passes of requests to a host that come in these pieces. `None` if something is refused.
#[must_use]
pub fn passed(to: &Endpoint, pieces: &[&[u8]]) -> Option<Vec<u8>> {
    let mut requests = Requests::new(to.clone(), Search::default());
    let mut passed = Vec::new();
    for piece in pieces {
        passed.extend(requests.pass(piece).ok()?);
    }
    Some(passed)
}

/// Where a program wants to go, and the head that is sent there instead of its own.
///
/// # Errors
/// Why the request is not understood.
pub fn wanted(bytes: &[u8]) -> Result<Option<Understood>, String> {
    let Some(head) = Head::read(bytes).map_err(|why| why.to_string())? else { return Ok(None) };
    match Wanted::of(&head).map_err(|why| why.to_string())? {
        Wanted::Connect(to) => Ok(Some((to, None))),
        Wanted::Request(to, head) => Ok(Some((to, Some(head)))),
    }
}
