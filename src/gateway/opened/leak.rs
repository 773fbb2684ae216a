//! Secrets in requests and answers. Pure, except for the shared list of values.
//!
//! A request must not carry any value that Hearth knows: the agent was given a placeholder instead. An answer must not
//! repeat the value that its request was given.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use crate::model::secrets::Secrets;

/// Stands for a byte of a value in an answer, so that lengths stay the same.
const INSTEAD: u8 = b'*';

/// All values that the gateway knows, with their names. Values are never removed: a replaced one is still a secret.
#[derive(Debug, Default)]
pub struct KnownSecrets(RwLock<Arc<Secrets>>);

impl KnownSecrets {
    /// Adds a value. A short one is not searched for: see [`crate::model::secrets::SHORTEST`].
    pub fn add(&self, name: &str, value: &[u8]) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.name_of(value).is_none() {
            Arc::make_mut(&mut known).add(name, value);
        }
    }

    /// The values known now.
    #[must_use]
    pub fn now(&self) -> Arc<Secrets> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where a value was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the path or the query.
    Address,
    /// In the header of this name.
    Header(String),
    Body,
    /// In a message of a WebSocket.
    Message,
}

/// A value in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// The secret's name.
    pub name: String,
    /// Where it was.
    pub place: Place,
}

/// Searches the address of a request, also as a server decodes it.
pub(crate) fn in_address(known: &Secrets, address: &str) -> Option<Leak> {
    let leak = |name: &str| Leak { name: name.to_owned(), place: Place::Address };
    known.find(address.as_bytes()).or_else(|| known.find(&decoded(address))).map(leak)
}

/// Searches one header.
pub(crate) fn in_header(known: &Secrets, name: &str, value: &[u8]) -> Option<Leak> {
    let found = known.find(value).or_else(|| known.find(name.as_bytes()));
    found.map(|secret| Leak { name: secret.to_owned(), place: Place::Header(name.to_owned()) })
}

/// A text with its percent-encoded bytes decoded, and with spaces instead of `+`.
pub(in crate::gateway) fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    bytes
}

/// Searches a body across the pieces in which it comes. What may be the beginning of a value is held back.
pub(in crate::gateway) struct BodySearch {
    known: Arc<Secrets>,
    held: Vec<u8>,
}

impl BodySearch {
    pub(in crate::gateway) const fn new(known: Arc<Secrets>) -> Self {
        Self { known, held: Vec::new() }
    }

    /// The part that can be passed on now.
    pub(in crate::gateway) fn pass(&mut self, piece: &[u8]) -> Result<Vec<u8>, Leak> {
        let mut text = joined(&mut self.held, piece);
        if let Some(name) = self.known.find(&text) {
            return Err(Leak { name: name.to_owned(), place: Place::Body });
        }
        self.held = text.split_off(text.len().saturating_sub(self.known.begun(&text)));
        Ok(text)
    }

    /// What is left when the body has ended.
    pub(in crate::gateway) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// Overwrites values in an answer, across the pieces in which it comes.
pub(in crate::gateway) struct Mask {
    values: Secrets,
    held: Vec<u8>,
    /// Whether there was a value.
    pub(in crate::gateway) found: bool,
}

impl Mask {
    /// Overwrites these values in every form in which they are searched for.
    pub(in crate::gateway) fn new<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Self {
        let mut secrets = Secrets::default();
        values.into_iter().for_each(|value| secrets.add("value", value));
        Self { values: secrets, held: Vec::new(), found: false }
    }

    /// A header's value.
    pub(in crate::gateway) fn header<'t>(&mut self, value: &'t [u8]) -> Cow<'t, [u8]> {
        if self.values.find(value).is_none() {
            return Cow::Borrowed(value);
        }
        let mut text = value.to_vec();
        self.overwrite(&mut text);
        Cow::Owned(text)
    }

    /// The part of a body that can be passed on now.
    pub(in crate::gateway) fn pass(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut text = joined(&mut self.held, piece);
        self.overwrite(&mut text);
        self.held = text.split_off(text.len().saturating_sub(self.values.begun(&text)));
        text
    }

    /// What is left when the body has ended.
    pub(in crate::gateway) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn overwrite(&mut self, text: &mut [u8]) {
        let mut from = 0;
        while let Some((at, length)) = self.values.find_from(text, from) {
            from = at.saturating_add(length);
            self.found = true;
            if let Some(value) = text.get_mut(at..from) {
                value.fill(INSTEAD);
            }
        }
    }
}

/// Held bytes and those that follow them.
fn joined(held: &mut Vec<u8>, piece: &[u8]) -> Vec<u8> {
    let mut text = std::mem::take(held);
    text.extend_from_slice(piece);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUE: &str = "ghp_theRealToken42";
    const BASE64: &str = "Z2hwX3RoZVJlYWxUb2tlbjQy";

    fn known() -> Arc<Secrets> {
        let known = KnownSecrets::default();
        known.add("github", VALUE.as_bytes());
        known.add("other", VALUE.as_bytes());
        known.now()
    }

    fn passed(pieces: &[&[u8]]) -> Result<Vec<u8>, Leak> {
        let mut search = BodySearch::new(known());
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(search.pass(piece)?);
        }
        all.extend(search.rest());
        Ok(all)
    }

    fn masked(pieces: &[&[u8]]) -> Vec<u8> {
        let mut mask = Mask::new([VALUE.as_bytes()]);
        let mut all: Vec<u8> = pieces.iter().flat_map(|piece| mask.pass(piece)).collect();
        all.extend(mask.rest());
        all
    }

    #[test]
    fn a_value_in_an_address_is_found_however_it_is_encoded() {
        let found = |address: &str| in_address(&known(), address).map(|leak| (leak.name, leak.place));
        let leak = Some(("github".to_owned(), Place::Address));
        let percent: String = VALUE.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for text in [VALUE, &percent, "ghp_the%52eal%54oken42", BASE64] {
            assert_eq!(found(&format!("/a?q={text}")), leak, "{text}");
            assert_eq!(found(&format!("/{text}/b")), leak, "{text}");
        }
        assert_eq!(found("/a?q=ghp_theRealToken4&x=2"), None);
        assert_eq!(found("/%zz%2"), None);
    }

    #[test]
    fn a_value_in_a_header_is_found() {
        let place = Place::Header("user-agent".to_owned());
        let found = in_header(&known(), "user-agent", format!("x {VALUE}").as_bytes());
        assert_eq!(found, Some(Leak { name: "github".to_owned(), place }));
        assert!(in_header(&known(), "x-ghp_therealtoken42", b"a").is_none(), "names are in lower case");
        assert!(in_header(&known(), "authorization", format!("Basic {BASE64}").as_bytes()).is_some());
        assert!(in_header(&known(), "accept", b"*/*").is_none());
    }

    #[test]
    fn a_value_in_a_body_is_found_wherever_it_is_cut() {
        for value in [VALUE, BASE64] {
            let text = format!("token={value}&more");
            for at in 0..=text.len() {
                let (one, other) = text.as_bytes().split_at(at);
                let leak = passed(&[one, other]).unwrap_err();
                assert_eq!((leak.name.as_str(), leak.place), ("github", Place::Body), "{at}");
                let answer = masked(&[one, other]);
                assert_eq!(answer, format!("token={}&more", "*".repeat(value.len())).into_bytes(), "{at}");
            }
        }
    }

    #[test]
    fn no_part_of_a_value_leaves_before_the_next_piece() {
        let mut search = BodySearch::new(known());
        assert_eq!(search.pass(b"text ghp_the").unwrap(), b"text ");
        assert_eq!(search.pass(b" rest").unwrap(), b"ghp_the rest");
        let mut mask = Mask::new([VALUE.as_bytes()]);
        assert_eq!(mask.pass(b"text ghp_the"), b"text ");
        assert_eq!(mask.pass(b"RealToken42!"), format!("{}!", "*".repeat(VALUE.len())).into_bytes());
        assert!(mask.found);
    }

    #[test]
    fn two_values_are_both_overwritten() {
        let text = format!("{VALUE}{VALUE}, {BASE64}");
        assert!(masked(&[text.as_bytes()]).iter().all(|byte| b"*, ".contains(byte)));
        let mut mask = Mask::new([VALUE.as_bytes()]);
        assert_eq!(
            &*mask.header(format!("/next?t={VALUE}").as_bytes()),
            format!("/next?t={}", "*".repeat(18)).as_bytes()
        );
        assert!(matches!(mask.header(b"plain"), Cow::Borrowed(b"plain")));
    }

    proptest! {
        #[test]
        fn other_texts_come_out_as_they_went_in(text in "[ghp_theRalTokn42 ]{0,200}", size in 1_usize..20) {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            if text.contains(VALUE) {
                prop_assert!(passed(&pieces).is_err());
            } else {
                prop_assert_eq!(passed(&pieces), Ok(text.clone().into_bytes()));
                prop_assert_eq!(masked(&pieces), text.into_bytes());
            }
        }
    }
}
