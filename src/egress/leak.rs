//! Secrets in requests without TLS. Pure, except for the shared list of values.
//!
//! The payload of a body passes in the pieces that its framing has. What may be the beginning of a value is held back
//! within a piece, and never across the end of one, because the framing promises its length.

use std::sync::Arc;

use super::request::Head;
use crate::gateway::opened::{KnownSecrets, Leak, Place, in_address, in_header};
use crate::model::network::NetRefusal;
use crate::model::secrets::Secrets;

/// Searches the requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Search {
    known: Arc<KnownSecrets>,
    /// The values of the request that passes now.
    values: Arc<Secrets>,
    /// Payload that may be the beginning of a value.
    held: Vec<u8>,
    /// The end of the payload that has passed.
    before: Vec<u8>,
}

impl Search {
    pub(super) fn new(known: &Arc<KnownSecrets>) -> Self {
        Self { known: Arc::clone(known), values: known.now(), ..Self::default() }
    }

    /// Begins a request.
    pub(super) fn head(&mut self, head: &Head) -> Result<(), NetRefusal> {
        self.values = self.known.now();
        self.before.clear();
        in_head(&self.values, head)
    }

    /// The part of a payload that can be passed on now. `is_whole`: its piece of the framing ends here.
    pub(super) fn payload(&mut self, bytes: &[u8], is_whole: bool) -> Result<Vec<u8>, NetRefusal> {
        if self.values.is_empty() {
            return Ok(bytes.to_vec());
        }
        let passed = self.before.len();
        let mut text = std::mem::take(&mut self.before);
        text.append(&mut self.held);
        text.extend_from_slice(bytes);
        if let Some(name) = self.values.find(&text) {
            return Err(refusal(Leak { name: name.to_owned(), place: Place::Body }));
        }
        let begun = if is_whole { 0 } else { self.values.begun(&text) };
        let end = text.len().saturating_sub(begun).max(passed);
        self.held = text.split_off(end);
        let new = text.get(passed..).unwrap_or_default().to_vec();
        self.before = text.split_off(text.len().saturating_sub(self.values.longest()));
        Ok(new)
    }
}

pub(super) fn in_head(values: &Secrets, head: &Head) -> Result<(), NetRefusal> {
    let headers = || head.headers.iter().find_map(|(name, value)| in_header(values, name, value.as_bytes()));
    in_address(values, &head.target).or_else(headers).map_or(Ok(()), |leak| Err(refusal(leak)))
}

fn refusal(leak: Leak) -> NetRefusal {
    NetRefusal::Leak { secret: leak.name, place: leak.place.to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUE: &str = "ghp_theRealToken42";

    fn search() -> Search {
        let known = Arc::<KnownSecrets>::default();
        known.add("github", VALUE.as_bytes());
        Search::new(&known)
    }

    #[test]
    fn a_value_is_found_in_address_headers_and_body() {
        let leak = |place: &str| Err(NetRefusal::Leak { secret: "github".to_owned(), place: place.to_owned() });
        let head = |text: &str| search().head(&Head::read(text.as_bytes()).unwrap().unwrap());
        assert_eq!(head("GET /a?t=ghp_the%52ealToken42 HTTP/1.1\r\n\r\n"), leak("the address"));
        assert_eq!(head(&format!("GET / HTTP/1.1\r\nX-Note: {VALUE}\r\n\r\n")), leak("the header `x-note`"));
        assert_eq!(head("GET / HTTP/1.1\r\nX-Note: ghp_theRealToken4\r\n\r\n"), Ok(()));
        assert_eq!(search().payload(format!("a {VALUE}").as_bytes(), true).map(drop), leak("the body"));
    }

    #[test]
    fn a_value_that_is_cut_by_the_framing_is_found() {
        let mut search = search();
        assert_eq!(search.payload(b"a ghp_the", true).unwrap(), b"a ghp_the", "the framing promised it");
        assert!(search.payload(b"RealToken42", true).is_err());
    }

    #[test]
    fn a_value_that_is_added_later_is_found_in_the_next_request() {
        let known = Arc::<KnownSecrets>::default();
        let mut search = Search::new(&known);
        let head = Head::read(format!("GET /{VALUE} HTTP/1.1\r\n\r\n").as_bytes()).unwrap().unwrap();
        assert_eq!(search.head(&head), Ok(()));
        known.add("github", VALUE.as_bytes());
        assert!(search.head(&head).is_err());
    }

    proptest! {
        #[test]
        fn payloads_pass_unchanged_or_not_at_all(text in "[ghp_theRalTokn42 ]{0,200}", size in 1_usize..20) {
            let mut search = search();
            let mut passed = Vec::new();
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let mut all = Ok(());
            for (at, piece) in pieces.iter().enumerate() {
                match search.payload(piece, at + 1 == pieces.len()) {
                    Ok(bytes) => passed.extend(bytes),
                    Err(why) => all = Err(why),
                }
                if all.is_err() {
                    break;
                }
            }
            prop_assert_eq!(all.is_err(), text.contains(VALUE));
            if all.is_ok() {
                prop_assert_eq!(passed, text.into_bytes());
            }
        }
    }
}
