//! What is read aloud of an answer: agents write Markdown, and its signs, code and addresses make no sense when they are
//! heard.

/// The text of an answer for a voice. Code blocks and pictures' addresses are left out, links are read by their text or
/// their host, and signs of Markdown are removed. It has no control characters.
pub(super) fn read(answer: &str) -> String {
    let mut out = String::new();
    let mut fence: Option<&str> = None;
    for line in answer.lines() {
        let bare = line.trim_start();
        match fence {
            Some(mark) if bare.starts_with(mark) => fence = None,
            Some(_) => {}
            None => match ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark)) {
                Some(mark) => fence = Some(mark),
                None => self::line(&mut out, bare),
            },
        }
    }
    out.trim().to_owned()
}

/// Adds a line that is not code.
fn line(out: &mut String, line: &str) {
    // Lines of tables and rules consist of signs.
    if !line.is_empty() && line.chars().all(|c| "-=|*_:+ ".contains(c)) {
        return;
    }
    let text = line.trim_start_matches(['#', '>', ' ']);
    let text = ["- ", "* ", "+ "].iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text);
    inline(out, text);
    out.push('\n');
}

fn inline(out: &mut String, text: &str) {
    let mut rest = text;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        let starts_word = before.is_none_or(|before: char| !before.is_alphanumeric());
        if let Some((shown, after)) = link(rest).or_else(|| address(rest).filter(|_| starts_word)) {
            inline(out, shown);
            rest = after;
            before = Some(' ');
            continue;
        }
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let inside_word =
            before.is_some_and(char::is_alphanumeric) && after.chars().next().is_some_and(char::is_alphanumeric);
        match c {
            '*' | '`' => {}
            '_' if !inside_word => {}
            '~' if after.starts_with('~') || before == Some('~') => {}
            '|' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
        before = Some(c);
        rest = after;
    }
}

/// A link or a picture at the beginning of a text, `[text](address)`: its text, and what follows.
fn link(text: &str) -> Option<(&str, &str)> {
    let (shown, rest) = text.strip_prefix('!').unwrap_or(text).strip_prefix('[')?.split_once("](")?;
    let (address, after) = rest.split_once(')')?;
    (!shown.contains(['[', ']']) && !address.contains(char::is_whitespace)).then_some((shown, after))
}

/// An address at the beginning of a text: its host, and what follows.
fn address(text: &str) -> Option<(&str, &str)> {
    let rest = ["https://", "http://", "<https://", "<http://"].iter().find_map(|scheme| text.strip_prefix(scheme))?;
    let end = rest.find(|c: char| c.is_whitespace() || "<>\"'()[]".contains(c)).unwrap_or(rest.len());
    let (address, after) = rest.split_at_checked(end)?;
    let whole = address.trim_end_matches(['.', ',', ';', ':', '!', '?']);
    let host = whole.split(['/', '?', '#']).next()?;
    let host = host.rsplit('@').next()?.split(':').next()?;
    let after =
        if whole.len() < address.len() { rest.get(whole.len()..)? } else { after.strip_prefix('>').unwrap_or(after) };
    (!host.is_empty()).then_some((host, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_code_and_addresses_are_not_read() {
        for (answer, expected) in [
            ("# Dinner\n\n**Soup** and _bread_.", "Dinner\n\nSoup and bread."),
            ("- one\n* two\n> three", "one\ntwo\nthree"),
            ("Run this:\n```sh\nrm -rf /\n```\nand wait.", "Run this:\nand wait."),
            ("~~~\nno end", ""),
            ("See [the page](https://a.b/c?d=e), or ![a cat](x.png).", "See the page, or a cat."),
            ("It is at https://user@example.org:8080/a/b?c. Really!", "It is at example.org. Really!"),
            ("(<https://example.org/a>)", "(example.org)"),
            ("`snake_case` and 2 * 3, a ~~b~~ c", "snake_case and 2  3, a b c"),
            ("| a | b |\n|---|---|\n| 1 | 2 |", "a   b  \n  1   2"),
            ("a\u{1b}[31mred\u{0}", "a[31mred"),
            ("[a](b](c) https://", "a https://"),
            ("xhttps://a", "xhttps://a"),
            ("", ""),
        ] {
            assert_eq!(read(answer), expected, "{answer:?}");
        }
    }

    /// Nested links and many signs take time in proportion to the text.
    #[test]
    fn hostile_answers_end() {
        for answer in ["[".repeat(4_096), "![a](".repeat(1_000), "[https://".repeat(500), "https://a](b)".repeat(400)] {
            assert!(read(&answer).len() <= answer.len());
        }
    }
}
