//! Secret values given to an agent, and the search for them in its output. They live in memory only: they are never
//! serialised, and their `Debug` form shows only how many there are.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Minimum length in bytes. Shorter values are too likely to be part of ordinary text.
pub const SHORTEST: usize = 12;

/// Length in bytes from which a part of a value at the edge of a text is removed.
const PART: usize = 4;

/// Secrets of one incarnation, each in all encodings that are searched for.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Longest first, so that a shorter match never hides a longer one.
    needles: Vec<Needle>,
    /// Bit set of the first two bytes of all needles.
    begins: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq)]
struct Needle {
    name: String,
    bytes: Vec<u8>,
}

impl Secrets {
    /// Adds a value under the name of its variable.
    pub fn add(&mut self, name: &str, value: &[u8]) {
        let value = value.trim_ascii();
        if value.len() < SHORTEST {
            return;
        }
        self.needles.extend(forms(value).into_iter().map(|bytes| Needle { name: name.to_owned(), bytes }));
        self.needles.sort_by(|a, b| b.bytes.len().cmp(&a.bytes.len()).then_with(|| a.bytes.cmp(&b.bytes)));
        self.needles.dedup_by(|a, b| a.bytes == b.bytes);
        self.begins = vec![0; 1 << 10];
        for needle in &self.needles {
            let (word, bit) = place(&needle.bytes);
            if let Some(word) = self.begins.get_mut(word) {
                *word |= bit;
            }
        }
    }

    /// Whether there is nothing to search for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.needles.is_empty()
    }

    /// Length of the longest encoding in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.needles.first().map_or(0, |needle| needle.bytes.len())
    }

    /// Replaces each secret value with `[secret NAME]` and adds the names of those found to `found`.
    #[must_use]
    pub fn clean<'t>(&self, text: &'t str, found: &mut BTreeSet<String>) -> Cow<'t, str> {
        let (mut clean, mut from, mut at) = (String::new(), 0, 0);
        while let Some((begin, needle)) = self.next(text.as_bytes(), at) {
            clean.push_str(text.get(from..text.floor_char_boundary(begin)).unwrap_or_default());
            clean.push_str(&format!("[secret {}]", needle.name));
            found.insert(needle.name.clone());
            at = text.ceil_char_boundary(begin.saturating_add(needle.bytes.len()));
            from = at;
        }
        match from {
            0 if clean.is_empty() => Cow::Borrowed(text),
            _ => Cow::Owned(clean + text.get(from..).unwrap_or_default()),
        }
    }

    /// A text that was cut out of a longer one, without what may be a part of a value at its beginning and its end.
    #[must_use]
    pub fn within<'t>(&self, text: &'t str) -> &'t str {
        let (mut begin, mut end) = (0, text.len());
        for Needle { bytes, .. } in &self.needles {
            let parts = (PART..bytes.len()).rev();
            let ends = parts.clone().find(|len| text.as_bytes().ends_with(bytes.get(..*len).unwrap_or_default()));
            let begins = parts.into_iter().find(|len| {
                text.as_bytes().starts_with(bytes.get(bytes.len().saturating_sub(*len)..).unwrap_or_default())
            });
            begin = begin.max(begins.unwrap_or(0));
            end = end.min(text.len().saturating_sub(ends.unwrap_or(0)));
        }
        text.get(text.ceil_char_boundary(begin)..text.floor_char_boundary(end)).unwrap_or_default()
    }

    /// Name of the first secret whose value occurs in these bytes.
    #[must_use]
    pub fn find(&self, bytes: &[u8]) -> Option<&str> {
        self.next(bytes, 0).map(|(_, needle)| needle.name.as_str())
    }

    /// Where the next secret value begins from `at` on, and its length.
    #[must_use]
    pub fn find_from(&self, bytes: &[u8], at: usize) -> Option<(usize, usize)> {
        self.next(bytes, at).map(|(begin, needle)| (begin, needle.bytes.len()))
    }

    /// The name under which a value was added.
    #[must_use]
    pub fn name_of(&self, value: &[u8]) -> Option<&str> {
        let value = value.trim_ascii();
        self.needles.iter().find(|needle| needle.bytes == value).map(|needle| needle.name.as_str())
    }

    /// Length of the longest end of a text with which a value begins, without being whole.
    #[must_use]
    pub fn begun(&self, text: &[u8]) -> usize {
        let ends = |bytes: &[u8], length: usize| text.ends_with(bytes.get(..length).unwrap_or_default());
        let longest = |bytes: &[u8]| (1..bytes.len().min(text.len() + 1)).rev().find(|length| ends(bytes, *length));
        self.needles.iter().filter_map(|needle| longest(&needle.bytes)).max().unwrap_or(0)
    }

    fn next(&self, bytes: &[u8], at: usize) -> Option<(usize, &Needle)> {
        if self.needles.is_empty() {
            return None;
        }
        let last = bytes.len().saturating_sub(1);
        (at..last).find_map(|begin| {
            let rest = bytes.get(begin..)?;
            let (word, bit) = place(rest);
            if self.begins.get(word).is_none_or(|word| word & bit == 0) {
                return None;
            }
            self.needles.iter().find(|needle| rest.starts_with(&needle.bytes)).map(|needle| (begin, needle))
        })
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: BTreeSet<&str> = self.needles.iter().map(|needle| needle.name.as_str()).collect();
        write!(f, "{} secrets", names.len())
    }
}

/// Word index and bit mask for the first two bytes.
fn place(bytes: &[u8]) -> (usize, u64) {
    let pair = bytes.first_chunk::<2>().map_or(0, |pair| u16::from_be_bytes(*pair));
    (usize::from(pair >> 6), 1 << (pair & 63))
}

/// All encodings of a value: plain, base64, hexadecimal, percent-encoded.
fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let hex = |digits: &[u8; 16], before: &str| {
        let one = |byte: &u8| [before.as_bytes(), &[digit(digits, byte >> 4), digit(digits, byte & 15)]].concat();
        value.iter().flat_map(one).collect::<Vec<u8>>()
    };
    let escaped = |digits: &[u8; 16]| {
        let one = |byte: &u8| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => vec![*byte],
            other => vec![b'%', digit(digits, other >> 4), digit(digits, other & 15)],
        };
        value.iter().flat_map(one).collect::<Vec<u8>>()
    };
    let (lower, upper) = (b"0123456789abcdef", b"0123456789ABCDEF");
    let mut forms = vec![value.to_vec(), hex(lower, ""), hex(upper, ""), hex(lower, "%"), hex(upper, "%")];
    forms.extend([escaped(lower), escaped(upper)]);
    for alphabet in [STANDARD, URL_SAFE] {
        forms.extend((0..3).map(|before| base64(alphabet, before, value)));
    }
    forms
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The base64 characters that encode a value after `before` other bytes, independent of the bytes around it.
fn base64(alphabet: &[u8; 64], before: usize, value: &[u8]) -> Vec<u8> {
    let bytes = [vec![0; before], value.to_vec()].concat();
    let bits = |from: usize| {
        // Six bits lie in two bytes at most.
        let pair = [bytes.get(from / 8).copied(), bytes.get(from / 8 + 1).copied()].map(Option::unwrap_or_default);
        let shift = 10_usize.saturating_sub(from % 8);
        usize::from(u16::from_be_bytes(pair) >> shift) & 63
    };
    let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    (first..end).map(|at| alphabet.get(bits(at * 6)).copied().unwrap_or_default()).collect()
}

fn digit(digits: &[u8; 16], half: u8) -> u8 {
    digits.get(usize::from(half)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "sk-ant/+?a b=\u{fc}";

    fn secrets() -> Secrets {
        let mut secrets = Secrets::default();
        secrets.add("KEY", format!("{VALUE}\n").as_bytes());
        secrets
    }

    fn cleaned(text: &str) -> String {
        secrets().clean(text, &mut BTreeSet::new()).into_owned()
    }

    /// Three bytes at a time, as RFC 4648 says it.
    fn encoded(alphabet: &[u8; 64], bytes: &[u8]) -> String {
        let four = |three: &[u8]| {
            let number = (0..3).fold(0_usize, |number, at| (number << 8) | usize::from(*three.get(at).unwrap_or(&0)));
            let letters = [18, 12, 6, 0].map(|shift| char::from(alphabet[(number >> shift) & 63]));
            letters
                .into_iter()
                .take(three.len() + 1)
                .chain(std::iter::repeat_n('=', 3 - three.len()))
                .collect::<String>()
        };
        bytes.chunks(3).map(four).collect()
    }

    #[test]
    fn parts_of_a_value_at_the_edges_of_a_text_are_cut() {
        let secrets = secrets();
        let value = VALUE.as_bytes();
        for len in 0..=VALUE.len() {
            if VALUE.is_char_boundary(len) {
                let (head, tail) = VALUE.split_at(len);
                let text = format!("{tail} and {head}");
                let within = secrets.within(&text);
                assert!(within.contains(" and "), "{text:?}: {within:?}");
                assert!(
                    value.windows(PART).all(|part| !within.as_bytes().windows(PART).any(|it| it == part))
                        || len == 0
                        || len == VALUE.len(),
                    "{within:?}"
                );
            }
        }
        assert_eq!(secrets.within("no secrets"), "no secrets");
        assert_eq!(secrets.within("sk-a"), "");
        assert_eq!(Secrets::default().within("sk-ant"), "sk-ant");
    }

    #[test]
    fn a_value_is_found_in_every_form() {
        let hex: String = VALUE.bytes().map(|byte| format!("{byte:02x}")).collect();
        let percent: String = VALUE.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let url = "sk-ant%2F%2B%3Fa%20b%3D%C3%BC";
        for text in [VALUE, &hex, &hex.to_uppercase(), &percent, &percent.to_lowercase(), url, &url.to_lowercase()] {
            assert_eq!(cleaned(&format!("a {text} b {text}")), "a [secret KEY] b [secret KEY]", "{text}");
            assert_eq!(secrets().find(format!("{{{text}}}").as_bytes()), Some("KEY"));
        }
        assert_eq!(encoded(STANDARD, b"Man, M"), "TWFuLCBN");
        assert_eq!(encoded(STANDARD, b"Ma"), "TWE=");
        for before in 0..9 {
            for after in 0..4 {
                let bytes = [&vec![b'x'; before], VALUE.as_bytes(), &vec![0xff; after]].concat();
                for text in [encoded(STANDARD, &bytes), encoded(URL_SAFE, &bytes)] {
                    let clean = cleaned(&text);
                    assert!(clean.contains("[secret KEY]"), "{before} {after}: {clean}");
                    // What is left are the neighbours and bits that stand for less than a byte.
                    assert!(clean.len() <= "[secret KEY]".len() + before * 2 + after * 2 + 6, "{clean}");
                }
            }
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in ["", "s", "sk-ant", "sk-ant/+?a b", "an ordinary text \u{1f980}"] {
            let mut found = BTreeSet::new();
            assert!(matches!(secrets().clean(text, &mut found), Cow::Borrowed(same) if same == text));
            assert!(found.is_empty() && secrets().find(text.as_bytes()).is_none());
        }
        let mut short = Secrets::default();
        short.add("PIN", b"12345678901");
        assert!(short.is_empty());
        assert!(Secrets::default().find(b"anything").is_none());
    }

    #[test]
    fn the_longest_counts_and_nothing_is_shown() {
        let mut secrets = secrets();
        secrets.add("LONG", format!("{VALUE}-and-more").as_bytes());
        let mut found = BTreeSet::new();
        assert_eq!(secrets.clean(&format!("{VALUE}-and-more, {VALUE}"), &mut found), "[secret LONG], [secret KEY]");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["KEY", "LONG"]);
        assert_eq!(format!("{secrets:?}"), "2 secrets");
    }
}
