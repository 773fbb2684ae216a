//! JSON as text: inspects or changes a payload that is otherwise kept as it is.
//!
//! Every function scans the text once without recursion, and leaves text that is not JSON unharmed.

use std::borrow::Cow;

/// Maximum nesting of arrays and objects.
pub(super) fn depth(text: &str) -> usize {
    let (mut now, mut deepest) = (0_usize, 0_usize);
    for (byte, outside) in marked(text) {
        match byte {
            b'{' | b'[' if outside => now += 1,
            b'}' | b']' if outside => now = now.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(now);
    }
    deepest
}

/// Number of bytes outside of strings of at least `long` bytes.
pub(super) fn without_long_strings(text: &str, long: usize) -> usize {
    let (mut rest, mut string) = (0_usize, 0_usize);
    for (_, outside) in marked(text) {
        if !outside {
            string += 1;
            continue;
        }
        rest += 1 + if string < long { string } else { 0 };
        string = 0;
    }
    rest + if string < long { string } else { 0 }
}

/// Removes the white space between tokens. Unlike a parser, it keeps the spelling of numbers.
pub(super) fn compact(text: &str) -> String {
    let mut inside = Inside::default();
    text.chars().filter(|&c| inside.step(c) || !matches!(c, ' ' | '\t' | '\n' | '\r')).collect()
}

/// Replaces each unpaired, escaped surrogate with `\ufffd`.
///
/// JavaScript writes such surrogates when an emoji was cut in two. They match JSON's grammar but are not text in any
/// encoding, so that later readers would reject the whole message.
pub(super) fn whole_characters(text: &str) -> Cow<'_, str> {
    let mut repaired = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        let (length, broken) = match surrogate(escape) {
            None => (escape.chars().take(2).map(char::len_utf8).sum(), false),
            Some(Half::Low) => (6, true),
            Some(Half::High) => match escape.get(6..).and_then(surrogate) {
                Some(Half::Low) => (12, false),
                _ => (6, true),
            },
        };
        let (escape, after) = escape.split_at(length);
        repaired.push_str(before);
        repaired.push_str(if broken { "\\ufffd" } else { escape });
        rest = after;
    }
    repaired.push_str(rest);
    if repaired == text { Cow::Borrowed(text) } else { Cow::Owned(repaired) }
}

enum Half {
    High,
    Low,
}

/// Which half of a surrogate pair an escape at the beginning of the text is.
fn surrogate(text: &str) -> Option<Half> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u32::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::High),
        0xdc00..=0xdfff => Some(Half::Low),
        _ => None,
    }
}

/// The bytes of a JSON text, each with whether it is outside of strings.
fn marked(text: &str) -> impl Iterator<Item = (u8, bool)> {
    let mut inside = Inside::default();
    text.bytes().map(move |byte| (byte, !inside.step(char::from(byte))))
}

/// Scans a JSON text and tracks what is inside of a string.
#[derive(Default)]
struct Inside {
    string: bool,
    escape: bool,
}

impl Inside {
    /// Consumes the next character. Returns true if it is part of a string (quotes count as inside).
    fn step(&mut self, c: char) -> bool {
        let was = self.string;
        match c {
            _ if self.escape => self.escape = false,
            '\\' if was => self.escape = true,
            '"' => self.string = !was,
            _ => {}
        }
        was || self.string
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_strings_do_not_nest() {
        for (text, levels) in
            [("1", 0), ("{}", 1), ("[[],{}]", 2), (r#"{"a":"[[[["}"#, 1), (r#"["\"[[",[]]"#, 2), (r#"["\\",[[]]]"#, 3)]
        {
            assert_eq!(depth(text), levels, "{text}");
        }
        assert_eq!(depth(&"[".repeat(100_000)), 100_000);
        assert_eq!(depth("]]]}{"), 1);
    }

    #[test]
    fn numbers_and_strings_stay_as_they_are() {
        let loose = "{ \"a b\" : [ 1.0 ,\n\t1e400 , 12345678901234567890123 ] , \"\\\" \" : \" \\\\\" }";
        assert_eq!(compact(loose), "{\"a b\":[1.0,1e400,12345678901234567890123],\"\\\" \":\" \\\\\"}");
    }

    #[test]
    fn halves_of_characters_are_replaced() {
        for (text, repaired) in [
            (r#""plain""#, r#""plain""#),
            (r#""\ud83e\udd9e""#, r#""\ud83e\udd9e""#),
            (r#""\ud83e""#, r#""\ufffd""#),
            (r#""\udd9e\ud83e""#, r#""\ufffd\ufffd""#),
            (r#""\uD83E\uD83E\uDD9E""#, r#""\ufffd\uD83E\uDD9E""#),
            (r#""\\ud83e""#, r#""\\ud83e""#),
            (r#""\\\ud83e x""#, r#""\\\ufffd x""#),
            (r#""\ud83e\n""#, r#""\ufffd\n""#),
            (r"\", r"\"),
            (r"\u", r"\u"),
            (r"\ud8", r"\ud8"),
            ("\\ä\\uä123", "\\ä\\uä123"),
        ] {
            assert_eq!(whole_characters(text), repaired, "{text}");
        }
    }
}
