//! Searches an answer for a key, across the pieces in which it comes. A server that repeats what it was sent must not
//! give the key to the agent. Pure.
//!
//! An encoded or reversed key is not found: what a server can be asked is the defense, and this is the alarm.

/// Shorter keys could be part of ordinary text.
const SHORTEST: usize = 8;

/// Passes on pieces that have no key in them.
pub(super) struct Scanner {
    needles: Vec<Vec<u8>>,
    /// The end of the last piece, which may be the beginning of a key.
    held: Vec<u8>,
}

/// The answer has a key in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Echo;

impl Scanner {
    pub(super) fn new(keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { needles: keys.into_iter().filter(|key| key.len() >= SHORTEST).collect(), held: Vec::new() }
    }

    /// Whether a text has a key in it.
    pub(super) fn finds(&self, text: &[u8]) -> bool {
        self.needles.iter().any(|needle| find(text, needle))
    }

    /// The part that can be passed on now.
    pub(super) fn pass(&mut self, piece: &[u8]) -> Result<Vec<u8>, Echo> {
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(piece);
        if self.finds(&text) {
            return Err(Echo);
        }
        let held = self.needles.iter().map(|needle| begun(&text, needle)).max().unwrap_or(0);
        self.held = text.split_off(text.len().saturating_sub(held));
        Ok(text)
    }

    /// What is left when the answer has ended.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

fn find(text: &[u8], needle: &[u8]) -> bool {
    let Some(first) = needle.first() else { return false };
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = rest.get(at..).unwrap_or_default();
        if rest.starts_with(needle) {
            return true;
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    false
}

/// Length of the longest end of a text with which a needle begins.
fn begun(text: &[u8], needle: &[u8]) -> usize {
    let longest = needle.len().saturating_sub(1).min(text.len());
    (1..=longest).rev().find(|len| text.ends_with(needle.get(..*len).unwrap_or_default())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "sk-ant-real-key";

    fn scanner() -> Scanner {
        Scanner::new([KEY.as_bytes().to_vec(), b"short".to_vec()])
    }

    fn passed(pieces: &[&[u8]]) -> Result<Vec<u8>, Echo> {
        let mut scanner = scanner();
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(scanner.pass(piece)?);
        }
        all.extend(scanner.rest());
        Ok(all)
    }

    #[test]
    fn a_key_is_found_wherever_it_is_cut() {
        let text = format!("echo: {KEY} and more");
        for at in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(at);
            assert_eq!(passed(&[a, b]), Err(Echo), "{at}");
        }
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(passed(&bytes), Err(Echo));
    }

    #[test]
    fn no_part_of_a_key_leaves_before_the_next_piece() {
        let mut scanner = scanner();
        assert_eq!(scanner.pass(b"text sk-ant-").unwrap(), b"text ");
        assert_eq!(scanner.pass(b"other\n\n").unwrap(), b"sk-ant-other\n\n");
    }

    proptest! {
        #[test]
        fn other_texts_come_out_as_they_went_in(text in "[sk ant\\-realy\n]{0,200}", size in 1_usize..20) {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            let expected = if text.contains(KEY) { Err(Echo) } else { Ok(text.clone().into_bytes()) };
            prop_assert_eq!(passed(&pieces), expected);
        }
    }
}
