//! Splits long texts for networks that limit the length of a message.

/// The unit in which a network measures length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Characters: Unicode scalar values.
    Chars,
    /// UTF-16 code units, of which a character above U+FFFF has two.
    Utf16,
}

impl Unit {
    fn of(self, c: char) -> usize {
        match self {
            Self::Chars => 1,
            Self::Utf16 => c.len_utf16(),
        }
    }
}

/// Cuts a text into pieces of at most `limit` units each: after the last paragraph that ends in the piece, else after a
/// line, else after a word, else between two characters. Only white space at the cuts is lost. A text that fits is
/// unchanged. No piece is empty, so an empty text has none.
///
/// A single character that is longer than the limit is still a piece.
#[must_use]
pub fn split(text: &str, limit: usize, unit: Unit) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(most) = fitting(rest, limit, unit) {
        let cut = cut(rest, most);
        let (piece, after) = rest.split_at_checked(cut).unwrap_or((rest, ""));
        pieces.push(piece.trim_end());
        rest = after.trim_start();
    }
    pieces.push(rest);
    pieces.into_iter().filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
}

/// How many bytes of a text fit, at least one character; `None` if the whole text fits.
fn fitting(text: &str, limit: usize, unit: Unit) -> Option<usize> {
    let mut units = 0;
    let over = text.char_indices().find(|(_, c)| {
        units += unit.of(*c);
        units > limit
    });
    let first = text.chars().next()?.len_utf8();
    over.map(|(at, _)| at.max(first)).filter(|at| *at < text.len())
}

/// Where to cut a text of which only the first `most` bytes fit. The cut may be after white space beyond them, because
/// that is lost anyway. It is never at the beginning.
fn cut(text: &str, most: usize) -> usize {
    ["\n\n", "\n", " "]
        .iter()
        .find_map(|end| {
            let last = (most + end.len()).min(text.len());
            text.get(..text.floor_char_boundary(last))?.rfind(end).filter(|at| *at > 0)
        })
        .unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn length(text: &str, unit: Unit) -> usize {
        text.chars().map(|c| unit.of(c)).sum()
    }

    #[test]
    fn texts_are_cut_where_they_pause() {
        let a100 = "a".repeat(100);
        let paragraphs = "The first paragraph is here.\n\nThe second one is here too.";
        for (text, limit, expected) in [
            ("short text", 100, vec!["short text"]),
            (" kept as it is \n", 100, vec![" kept as it is \n"]),
            ("", 10, vec![]),
            (" \n\n ", 2, vec![]),
            (paragraphs, 40, vec!["The first paragraph is here.", "The second one is here too."]),
            (
                "alpha\nbravo\ncharlie\ndelta\necho\nfoxtrot",
                15,
                vec!["alpha\nbravo", "charlie\ndelta", "echo\nfoxtrot"],
            ),
            ("one two three", 7, vec!["one two", "three"]),
            ("one two\n\nthree", 7, vec!["one two", "three"]),
            ("a b\nc d\n\ne", 8, vec!["a b\nc d", "e"]),
            ("a b c\n\n\n\n  d", 6, vec!["a b c", "d"]),
            ("  indented", 5, vec!["inden", "ted"]),
            (&a100, 30, vec![&a100[..30], &a100[..30], &a100[..30], &a100[..10]]),
            ("ééé", 2, vec!["éé", "é"]),
            ("ab", 0, vec!["a", "b"]),
        ] {
            assert_eq!(split(text, limit, Unit::Chars), expected, "{text:?} at {limit}");
        }
    }

    #[test]
    fn a_character_is_never_cut() {
        assert_eq!(split("😀😀😀", 2, Unit::Chars), ["😀😀", "😀"]);
        assert_eq!(split("😀😀😀", 3, Unit::Utf16), ["😀", "😀", "😀"]);
        assert_eq!(split("a😀b", 2, Unit::Utf16), ["a", "😀", "b"]);
        assert_eq!(split("😀b", 1, Unit::Utf16), ["😀", "b"], "longer than the limit, and a piece all the same");
        assert_eq!(split("a😀", 1, Unit::Chars), ["a", "😀"]);
    }

    proptest! {
        #[test]
        fn pieces_fit_and_nothing_but_white_space_is_lost(
            text in "[a-c\u{e9}😀𐐀 \n\n\t\u{3000}]{0,120}",
            limit in 2..40_usize,
            unit in prop_oneof![Just(Unit::Chars), Just(Unit::Utf16)],
        ) {
            let pieces = split(&text, limit, unit);
            let mut rest = text.as_str();
            for (at, piece) in pieces.iter().enumerate() {
                prop_assert!(length(piece, unit) <= limit && !piece.is_empty());
                let found = rest.find(piece.as_str());
                prop_assert!(found.is_some_and(|found| rest[..found].trim().is_empty()), "{at}: {piece:?} in {rest:?}");
                rest = &rest[found.unwrap() + piece.len()..];
            }
            prop_assert!(rest.trim().is_empty(), "{rest:?}");
            if length(&text, unit) <= limit && !text.is_empty() {
                prop_assert_eq!(pieces, vec![text]);
            }
        }
    }
}
