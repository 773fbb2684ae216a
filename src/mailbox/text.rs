//! Names and reasons that go into the store: bounded, printable, and names without loss.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Maximum characters of a reason; a parser's error may quote the agent at length.
const REASON_CHARS: usize = 200;

/// Writes a file name as plain text. Bytes outside of printable ASCII, and `%` itself, become `%XX`, so that every name
/// the file system can hold has exactly one such text; names of the contract stay as they are.
pub(super) fn escape(name: &OsStr) -> String {
    let mut text = String::with_capacity(name.len());
    for &byte in name.as_bytes() {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            write!(text, "%{byte:02X}").ok();
        }
    }
    text
}

/// Inverse of [`escape`]; `None` for a text that it never produces.
pub(super) fn unescape(text: &str) -> Option<OsString> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let name = OsString::from_vec(bytes);
    (escape(&name) == text).then_some(name)
}

/// A reason of bounded length without control characters.
pub(super) fn reason(text: &str) -> String {
    shortened(text, REASON_CHARS, |c| if c.is_control() { '\u{fffd}' } else { c })
}

/// A text of at most `max` characters, with `…` where it was cut.
pub(super) fn cut(text: &str, max: usize) -> String {
    shortened(text, max, |c| c)
}

fn shortened(text: &str, max: usize, map: impl Fn(char) -> char) -> String {
    let mut short: String = text.chars().take(max).map(map).collect();
    if text.chars().nth(max).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_text_and_back() {
        for (bytes, text) in [
            (b"4.1.completed.json".as_slice(), "4.1.completed.json"),
            (b"100%", "100%25"),
            (b"\xff\xfe", "%FF%FE"),
            (b"a\nb", "a%0Ab"),
            ("ö".as_bytes(), "%C3%B6"),
        ] {
            let name = OsStr::from_bytes(bytes);
            assert_eq!(escape(name), text);
            assert_eq!(unescape(text).as_deref(), Some(name));
        }
        for text in ["%", "%4", "%zz", "%41", "%ff", "ö", "\n"] {
            assert_eq!(unescape(text), None, "{text:?}");
        }
    }

    #[test]
    fn reasons_are_short_and_printable() {
        assert_eq!(reason("bad\n\0thing"), "bad\u{fffd}\u{fffd}thing");
        assert_eq!(reason(&"é".repeat(10_000)).chars().count(), REASON_CHARS + 1);
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc…");
    }
}
