//! Terms of an index: words, and marks that are no words of a text.

use std::borrow::Cow;

/// Words of at least this many characters are also found by a part of them.
pub const LONG: usize = 12;

/// Longest word, in characters. Longer ones are no words of any language.
const WORD_MAX: usize = 64;

/// Words of this many characters that mix letters and digits look like keys of services, and are left out.
const KEY_MIN: usize = 20;

/// Begins the terms of long words, so that they lie together.
pub const LONG_MARK: char = '\u{2}';

/// The mark of messages with files.
pub const HAS_FILE: &str = "\u{1}f";

/// The mark of what agents said.
pub const BY_AGENT: &str = "\u{1}a";

/// Begins the marks of senders.
const WHO: &str = "\u{1}w";

/// The term of a folded word; none if it is left out.
#[must_use]
pub fn term(word: Cow<'_, str>) -> Option<Cow<'_, str>> {
    if word.is_empty() || is_left_out(&word) {
        return None;
    }
    // Most words are short, and bytes are counted faster than characters.
    let is_long = word.len() >= LONG && word.chars().count() >= LONG;
    Some(if is_long { format!("{LONG_MARK}{word}").into() } else { word })
}

/// Whether a word is not indexed and not shown in excerpts: it looks like a key or a token.
#[must_use]
pub fn is_left_out(word: &str) -> bool {
    if word.len() < KEY_MIN {
        return false;
    }
    let length = word.chars().count();
    let digits = word.chars().filter(|c| c.is_numeric()).count();
    length > WORD_MAX || (length >= KEY_MIN && digits > 0 && digits < length)
}

/// The mark of a sender by a word of their name or id.
#[must_use]
pub fn who(word: &str) -> String {
    format!("{WHO}{word}")
}

/// The word of a term, if it is one.
#[must_use]
pub fn word(term: &str) -> Option<&str> {
    match term.chars().next() {
        Some(LONG_MARK) => term.strip_prefix(LONG_MARK),
        Some('\u{1}') | None => None,
        Some(_) => Some(term),
    }
}
