//! Strings, as UTF-16 units or as Unicode.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::hash::Hash;
use std::os::unix::ffi::OsStrExt as _;

/// How texts and names are stored and written. [`Text`] keeps unpaired surrogates and is written as ASCII. [`String`]
/// replaces them and is written as UTF-8.
pub trait TextForm: Debug + Default + Clone + Eq + Ord + Hash + for<'a> From<&'a str> {
    /// Appends Unicode.
    fn push(&mut self, text: &str);

    /// Appends an unpaired surrogate.
    fn push_half(&mut self, half: u16);

    /// Appends this text to `out`, in quotation marks.
    fn write(&self, out: &mut String);
}

/// A text in its escaped form: ASCII, with everything else escaped in a unique way. Two texts are equal exactly if
/// their escaped forms are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Text(String);

impl Text {
    /// A text of Unicode.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self::of_units(text.encode_utf16())
    }

    /// A name or value from the operating system. Bytes that are not UTF-8 become the low surrogates U+DC80 to U+DCFF,
    /// which no Unicode text contains.
    #[must_use]
    pub fn of_system(text: &OsStr) -> Self {
        Self::of_units(text.as_bytes().utf8_chunks().flat_map(|chunk| {
            let strange = chunk.invalid().iter().map(|byte| 0xdc00 + u16::from(*byte));
            chunk.valid().encode_utf16().chain(strange)
        }))
    }

    fn of_units(units: impl Iterator<Item = u16>) -> Self {
        let mut escaped = String::new();
        units.for_each(|unit| escape(unit, &mut escaped));
        Self(escaped)
    }

    /// The escaped form, without quotation marks.
    #[must_use]
    pub fn as_escaped(&self) -> &str {
        &self.0
    }

    /// For people: unpaired surrogates become U+FFFD.
    #[must_use]
    pub fn shown(&self) -> String {
        String::from_utf16_lossy(&units(&self.0))
    }
}

impl TextForm for Text {
    fn push(&mut self, text: &str) {
        text.encode_utf16().for_each(|unit| escape(unit, &mut self.0));
    }

    fn push_half(&mut self, half: u16) {
        escape(half, &mut self.0);
    }

    fn write(&self, out: &mut String) {
        out.push('"');
        out.push_str(&self.0);
        out.push('"');
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        let is_plain = other.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'));
        if is_plain { self.0 == other } else { *self == Self::new(other) }
    }
}

impl TextForm for String {
    fn push(&mut self, text: &str) {
        self.push_str(text);
    }

    fn push_half(&mut self, _half: u16) {
        Self::push(self, char::REPLACEMENT_CHARACTER);
    }

    fn write(&self, out: &mut String) {
        out.push('"');
        for c in self.chars() {
            match short_escape_of(u32::from(c)) {
                Some(short) => out.push_str(short),
                None if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                None => out.push(c),
            }
        }
        out.push('"');
    }
}

/// Escapes one UTF-16 unit as ASCII.
fn escape(unit: u16, out: &mut String) {
    match (short_escape_of(u32::from(unit)), u8::try_from(unit)) {
        (Some(short), _) => out.push_str(short),
        (None, Ok(plain @ b' '..=b'~')) => out.push(char::from(plain)),
        (None, _) => out.push_str(&format!("\\u{unit:04x}")),
    }
}

/// The two-character escape of a character, if there is one.
const fn short_escape_of(code: u32) -> Option<&'static str> {
    Some(match code {
        0x22 => "\\\"",
        0x5c => "\\\\",
        0x0a => "\\n",
        0x0d => "\\r",
        0x09 => "\\t",
        0x08 => "\\b",
        0x0c => "\\f",
        _ => return None,
    })
}

/// The character of a two-character escape.
pub(crate) const fn short_escape(letter: char) -> Option<char> {
    Some(match letter {
        '"' | '\\' | '/' => letter,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        _ => return None,
    })
}

/// The UTF-16 units of an escaped text.
fn units(escaped: &str) -> Vec<u16> {
    let mut units = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(next) = rest.chars().next() {
        let (unit, length) = match (next, rest.chars().nth(1)) {
            ('\\', Some('u')) => (rest.get(2..6).and_then(|digits| u16::from_str_radix(digits, 16).ok()), 6),
            ('\\', Some(letter)) => (short_escape(letter).and_then(|c| u16::try_from(u32::from(c)).ok()), 2),
            (plain, _) => (u16::try_from(u32::from(plain)).ok(), plain.len_utf8()),
        };
        units.extend(unit);
        rest = rest.get(length..).unwrap_or_default();
    }
    units
}
