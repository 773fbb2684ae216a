//! UTF-16 code units represented as characters, and sets of them.
//!
//! The regex compiler only knows characters, so half of a surrogate pair is represented by a character of plane 16. No
//! text contains such a character itself, because all characters above U+FFFF are split into halves.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Offset of the characters that represent surrogate halves.
const HALVES: u32 = 0x10_0000;

/// The ranges of code units, with the offset of their characters.
const PARTS: [(u32, u32, u32); 3] = [(0, 0xD7FF, 0), (0xD800, 0xDFFF, HALVES), (0xE000, 0xFFFF, 0)];

/// The last code unit.
const LAST: u32 = 0xFFFF;

/// JavaScript's line terminators.
const LINE_ENDS: [(u32, u32); 3] = [(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)];

const DIGITS: [(u32, u32); 1] = [(0x30, 0x39)];

const WORDS: [(u32, u32); 4] = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];

/// JavaScript's white space and line terminators.
const SPACES: [(u32, u32); 10] = [
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
];

/// Converts a text to one character per code unit.
pub(crate) fn spread(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| c.len_utf16() == 1) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.encode_utf16().map(|unit| character(u32::from(unit))).collect())
}

/// The character that represents a code unit.
pub(crate) fn character(unit: u32) -> char {
    let half = || char::from_u32(HALVES + unit);
    char::from_u32(unit).or_else(half).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The code unit that a character represents.
pub(crate) fn unit(character: char) -> u32 {
    let value = u32::from(character);
    if value > LAST { value - HALVES } else { value }
}

/// Whether a code unit is half of a surrogate pair.
pub(crate) fn is_half(unit: u32) -> bool {
    (0xD800..=0xDFFF).contains(&unit)
}

/// A set of code units: inclusive ranges in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Units(Vec<(u32, u32)>);

impl Units {
    /// What `.` matches.
    pub(crate) fn dot() -> Self {
        Self(LINE_ENDS.to_vec()).others()
    }

    /// The set of `\d` and the like; none if the letter names no set.
    pub(crate) fn named(letter: char) -> Option<Self> {
        match letter {
            'd' => Some(Self(DIGITS.to_vec())),
            'D' => Some(Self(DIGITS.to_vec()).others()),
            'w' => Some(Self(WORDS.to_vec())),
            'W' => Some(Self(WORDS.to_vec()).others()),
            's' => Some(Self(SPACES.to_vec())),
            'S' => Some(Self(SPACES.to_vec()).others()),
            _ => None,
        }
    }

    /// Adds a range.
    pub(crate) fn add(&mut self, first: u32, last: u32) {
        self.0.push((first, last));
    }

    /// Adds another set.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The complement.
    pub(crate) fn others(mut self) -> Self {
        self.0.sort_unstable();
        let mut others = Vec::new();
        let mut next = 0;
        for (first, last) in self.0 {
            if first > next {
                others.push((next, first - 1));
            }
            next = next.max(last + 1);
        }
        if next <= LAST {
            others.push((next, LAST));
        }
        Self(others)
    }

    /// Appends the set as a class in the compiler's syntax, with every character as a number.
    pub(crate) fn write(&self, out: &mut String) {
        let start = out.len();
        for (first, last) in &self.0 {
            for (from, to, above) in PARTS {
                let (first, last) = (from.max(*first), to.min(*last));
                if first <= last {
                    write!(out, "\\x{{{:X}}}-\\x{{{:X}}}", first + above, last + above).ok();
                }
            }
        }
        out.insert_str(start, if out.len() == start { "[^\\x{0}-\\x{10FFFF}" } else { "[" });
        out.push(']');
    }
}
