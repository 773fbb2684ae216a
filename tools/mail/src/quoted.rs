//! What a person wrote themselves: a mail without the mail that it answers and without its signature.

/// Lines that introduce a quote, at most.
const INTRODUCTION_MAX: usize = 3;
/// What mail programs write above a mail that they quote without marks.
const DIVIDERS: [&str; 4] = ["original message", "ursprüngliche nachricht", "message d'origine", "mensaje original"];

/// The text without its signature.
pub(crate) fn without_signature(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().rposition(|line| *line == "-- ").filter(|at| *at > 0).unwrap_or(lines.len());
    kept(lines.get(..end).unwrap_or_default(), text)
}

/// The text without the quote at its end. Quotes between which something is written stay.
pub(crate) fn without_quote(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if let Some(at) = lines.iter().position(|line| is_divider(line)) {
        return kept(lines.get(..at).unwrap_or_default(), text);
    }
    let is_quote = |line: &&str| line.trim_start().starts_with('>');
    let is_rest = |line: &&str| line.trim().is_empty() || is_quote(line);
    let mut end = lines.iter().rposition(|line| !is_rest(line)).map_or(0, |at| at + 1);
    if !lines.get(end..).unwrap_or_default().iter().any(is_quote) {
        return text.to_owned();
    }
    // "On Monday, Ann <ann@example.org> wrote:", which may be folded.
    let before = lines.get(..end).unwrap_or_default();
    if before.last().is_some_and(|line| line.trim_end().ends_with(':')) {
        let paragraph = before.iter().rev().take_while(|line| !line.trim().is_empty()).count();
        let named = |count: usize| {
            let lines = before.iter().rev().take(count).copied().collect::<Vec<_>>().concat();
            lines.contains('@') || lines.bytes().any(|byte| byte.is_ascii_digit())
        };
        let count = (1..=INTRODUCTION_MAX.min(paragraph)).find(|count| {
            let first = before.iter().rev().nth(count - 1).map_or("", |line| line.trim());
            named(*count) && (first.starts_with("On ") || first.starts_with("Am ") || first.starts_with("Le "))
        });
        end -= count.unwrap_or_else(|| usize::from(paragraph == 1 && named(1)));
    }
    kept(lines.get(..end).unwrap_or_default(), text)
}

fn is_divider(line: &str) -> bool {
    let line = line.trim().to_lowercase();
    line.starts_with("-----") && DIVIDERS.iter().any(|words| line.contains(words))
}

/// The lines as text, or all of it if nothing would be left.
fn kept(lines: &[&str], whole: &str) -> String {
    let text = lines.join("\n");
    if text.trim().is_empty() { whole.to_owned() } else { text.trim_end().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quote_at_the_end_goes_and_others_stay() {
        for (text, expected) in [
            ("1\n\nOn Mon, Ann <a@x.test> wrote:\n> 1. yes\n> 2. no\n", "1"),
            ("yes\n\nOn Monday, April 20, 2026 at 10:00 AM Hearth\n<bot@x.test> wrote:\n\n> card\n\n", "yes"),
            ("ja\n\nAm 20.04.26 um 10:00 schrieb Bot:\n> x", "ja"),
            ("see:\n\n> quoted", "see:"),
            ("> question\n\nmy answer\n\n> another\n\nmore", "> question\n\nmy answer\n\n> another\n\nmore"),
            ("no quote:", "no quote:"),
            ("> only a quote", "> only a quote"),
            ("a\n-----Original Message-----\nFrom: b\nc", "a"),
        ] {
            assert_eq!(without_quote(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_signature_goes() {
        assert_eq!(without_signature("hi\n-- \nAnn\nInc."), "hi");
        assert_eq!(without_signature("hi\n--\nno signature"), "hi\n--\nno signature");
        assert_eq!(without_signature("-- \nonly"), "-- \nonly");
    }
}
