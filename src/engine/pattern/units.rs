//! UTF-16 code units as characters, and sets of them.
//!
//! The compiler knows characters only. A half of a surrogate pair stands as a character of plane 16: no text has one of
//! its own there, because everything beyond U+FFFF is taken apart into its halves.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What a half is above its value.
const HALVES: u32 = 0x10_0000;
/// The parts of the code units, and how far their characters are above them.
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

/// A text with one character per code unit.
pub(super) fn spread(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| c.len_utf16() == 1) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.encode_utf16().map(|unit| character(u32::from(unit))).collect())
}

/// The character that stands for a code unit.
pub(super) fn character(unit: u32) -> char {
    let half = || char::from_u32(HALVES + unit);
    char::from_u32(unit).or_else(half).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The code unit that a character stands for.
pub(super) fn unit(character: char) -> u32 {
    let value = u32::from(character);
    if value > LAST { value - HALVES } else { value }
}

/// Whether a code unit is a half of a character.
pub(super) fn is_half(unit: u32) -> bool {
    (0xD800..=0xDFFF).contains(&unit)
}

/// A set of code units: ranges with both ends, in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Units(Vec<(u32, u32)>);

impl Units {
    /// What `.` matches.
    pub(super) fn dot() -> Self {
        Self(LINE_ENDS.to_vec()).others()
    }

    /// What `\d` and its like match; none if the letter stands for no set.
    pub(super) fn named(letter: char) -> Option<Self> {
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
    pub(super) fn add(&mut self, first: u32, last: u32) {
        self.0.push((first, last));
    }

    /// Adds all of another set.
    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// All other code units.
    pub(super) fn others(mut self) -> Self {
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

    /// Appends the set as a class of the compiler's syntax, every character by its number.
    pub(super) fn write(&self, out: &mut String) {
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
