//! Splits a long text into messages. A code block that is split goes on as one in the next message.

/// Bytes of a message's text. An event has at most 65,536, and this text is in it twice, once as HTML.
pub(crate) const PART_BYTES: usize = 12_000;
/// Most messages of a text.
pub(crate) const PARTS_MAX: usize = 20;

/// Bytes for the ends of a split code block.
const FENCE_BYTES: usize = 64;

/// The parts of a text, or nothing if it is too long.
pub(crate) fn parts(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut part = String::new();
    // The line that began the code block in which the current line is.
    let mut fence: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        for piece in pieces(line) {
            if part.len() + piece.len() + FENCE_BYTES > PART_BYTES {
                let next = fence.map_or_else(String::new, |fence| format!("{fence}\n"));
                let mut full = std::mem::replace(&mut part, next);
                if fence.is_some() {
                    full.push_str(if full.ends_with('\n') { "```" } else { "\n```" });
                }
                parts.push(full);
            }
            part.push_str(piece);
        }
        let trimmed = line.trim_end();
        fence = match fence {
            Some(_) if trimmed.trim() == "```" => None,
            None if trimmed.starts_with("```") && trimmed.len() < FENCE_BYTES / 2 => Some(trimmed),
            same => same,
        };
    }
    if !part.trim().is_empty() || parts.is_empty() {
        parts.push(part);
    }
    parts.retain(|part| !part.trim().is_empty());
    (parts.len() <= PARTS_MAX).then_some(parts)
}

/// A line in pieces that fit, split after spaces if there are any.
fn pieces(line: &str) -> Vec<&str> {
    let most = PART_BYTES - 2 * FENCE_BYTES;
    let (mut pieces, mut rest) = (Vec::new(), line);
    while rest.len() > most {
        let end = (0..=most).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(0);
        let space = rest.get(..end).and_then(|start| start.rfind(' ')).map(|at| at + 1).filter(|at| *at > most / 2);
        let Some((piece, after)) = rest.split_at_checked(space.unwrap_or(end)).filter(|(piece, _)| !piece.is_empty())
        else {
            break;
        };
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_code_block_goes_on_in_the_next_message() {
        let text = format!("before\n```rust\n{}```\nafter", "a line of code\n".repeat(1_200));
        let parts = parts(&text).unwrap();
        assert_eq!(parts.len(), 2);
        assert!(parts[0].starts_with("before\n```rust\n") && parts[0].ends_with("code\n```"), "{}", parts[0]);
        assert!(parts[1].starts_with("```rust\na line") && parts[1].ends_with("```\nafter"), "{}", parts[1]);
    }

    #[test]
    fn what_is_too_long_is_not_split() {
        assert_eq!(parts(""), Some(Vec::new()));
        assert_eq!(parts("a\n"), Some(vec!["a\n".to_owned()]));
        assert_eq!(parts(&"x".repeat(PART_BYTES * (PARTS_MAX + 1))), None);
    }

    proptest! {
        #[test]
        fn parts_fit_and_nothing_is_lost(lines in prop::collection::vec(("[a 🦀]{0,20}", 0..900_usize), 0..6)) {
            let text: String = lines.iter().map(|(line, count)| format!("{}\n", line.repeat(*count))).collect();
            if let Some(parts) = parts(&text) {
                prop_assert!(parts.iter().all(|part| part.len() <= PART_BYTES));
                let count = |text: &str| text.chars().filter(|char| !char.is_whitespace()).count();
                prop_assert_eq!(parts.iter().map(|part| count(part)).sum::<usize>(), count(&text));
            }
        }
    }
}
