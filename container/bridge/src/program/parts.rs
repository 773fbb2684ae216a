//! Splits a long text into messages. A code block that is split goes on as one in the next message.

/// In what a network counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of UTF-8.
    Bytes,
    /// Unicode characters.
    Chars,
    /// UTF-16 code units.
    Utf16,
}

impl Unit {
    /// The length of a text.
    #[must_use]
    pub fn count(self, text: &str) -> usize {
        match self {
            Self::Bytes => text.len(),
            Self::Chars => text.chars().count(),
            Self::Utf16 => text.encode_utf16().count(),
        }
    }

    fn of(self, char: char) -> usize {
        match self {
            Self::Bytes => char.len_utf8(),
            Self::Chars => 1,
            Self::Utf16 => char.len_utf16(),
        }
    }
}

/// How long messages of a network may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Length limit of a message; well above 200.
    pub most: usize,
    /// In what it is counted.
    pub unit: Unit,
    /// Most messages of a text.
    pub parts: usize,
}

/// Length of the ends of a split code block, in any unit.
const FENCE: usize = 64;

impl Measure {
    /// The parts of a text, or nothing if it is too long.
    #[must_use]
    pub fn parts(self, text: &str) -> Option<Vec<String>> {
        let mut parts = Vec::new();
        let (mut part, mut length) = (String::new(), 0);
        // The line that began the code block in which the current line is.
        let mut fence: Option<&str> = None;
        for line in text.split_inclusive('\n') {
            for piece in self.pieces(line) {
                let more = self.unit.count(piece);
                if length + more + FENCE > self.most {
                    let next = fence.map_or_else(String::new, |fence| format!("{fence}\n"));
                    length = self.unit.count(&next);
                    let mut full = std::mem::replace(&mut part, next);
                    if fence.is_some() {
                        full.push_str(if full.ends_with('\n') { "```" } else { "\n```" });
                    }
                    parts.push(full);
                }
                part.push_str(piece);
                length += more;
            }
            let trimmed = line.trim_end();
            fence = match fence {
                Some(_) if trimmed.trim() == "```" => None,
                None if trimmed.starts_with("```") && trimmed.len() < FENCE / 2 => Some(trimmed),
                same => same,
            };
        }
        if !part.trim().is_empty() || parts.is_empty() {
            parts.push(part);
        }
        parts.retain(|part| !part.trim().is_empty());
        (parts.len() <= self.parts).then_some(parts)
    }

    /// A line in pieces that fit, split after spaces if there are any.
    fn pieces(self, line: &str) -> Vec<&str> {
        let most = self.most.saturating_sub(2 * FENCE).max(2);
        let (mut pieces, mut rest) = (Vec::new(), line);
        while let Some(end) = self.end(rest, most) {
            let head = rest.get(..end).unwrap_or_default();
            let space = head.rfind(' ').map(|at| at + 1).filter(|at| *at > end / 2);
            let Some((piece, after)) = rest.split_at_checked(space.unwrap_or(end)) else { break };
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        pieces
    }

    /// Where a text has to be split so that its beginning has at most this length; nothing if it fits.
    fn end(self, text: &str, most: usize) -> Option<usize> {
        let mut length = 0;
        text.char_indices().find_map(|(at, char)| {
            length += self.unit.of(char);
            (length > most).then_some(at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: Measure = Measure { most: 12_000, unit: Unit::Bytes, parts: 20 };
    const UTF16: Measure = Measure { most: 2_000, unit: Unit::Utf16, parts: 25 };

    #[test]
    fn a_code_block_goes_on_in_the_next_message() {
        let text = format!("before\n```rust\n{}```\nafter", "a line of code\n".repeat(1_200));
        let parts = BYTES.parts(&text).unwrap();
        assert_eq!(parts.len(), 2);
        assert!(parts[0].starts_with("before\n```rust\n") && parts[0].ends_with("code\n```"), "{}", parts[0]);
        assert!(parts[1].starts_with("```rust\na line") && parts[1].ends_with("```\nafter"), "{}", parts[1]);
    }

    #[test]
    fn what_is_too_long_is_not_split() {
        assert_eq!(BYTES.parts(""), Some(Vec::new()));
        assert_eq!(BYTES.parts("a\n"), Some(vec!["a\n".to_owned()]));
        assert_eq!(BYTES.parts(&"x".repeat(12_000 * 21)), None);
    }

    proptest! {
        #[test]
        fn parts_fit_and_nothing_is_lost(lines in prop::collection::vec(("[a 🦀é]{0,20}", 0..900_usize), 0..6)) {
            let text: String = lines.iter().map(|(line, count)| format!("{}\n", line.repeat(*count))).collect();
            for measure in [BYTES, UTF16] {
                let Some(parts) = measure.parts(&text) else { continue };
                prop_assert!(parts.iter().all(|part| measure.unit.count(part) <= measure.most));
                let count = |text: &str| text.chars().filter(|char| !char.is_whitespace()).count();
                prop_assert_eq!(parts.iter().map(|part| count(part)).sum::<usize>(), count(&text));
            }
        }
    }
}
