//! Parses the Markdown of agents, for networks that format texts in another way. Syntax that is not recognised is text.
//!
//! Code blocks, `code`, **bold**, *italic*, ~~struck~~, [links](https://…) and headings. Except for code blocks, a formatted
//! range ends on the line where it began.

pub mod whatsapp;

/// Nesting limit of formatted ranges.
pub const DEPTH_MAX: u8 = 6;

/// A code block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'t> {
    /// Its language; empty if there is none.
    pub language: &'t str,
    pub code: &'t str,
    /// The text after it.
    pub rest: &'t str,
}

/// Parses a code block at the beginning of a text.
#[must_use]
pub fn block(text: &str) -> Option<Block<'_>> {
    let (language, body) = text.strip_prefix("```")?.split_once('\n')?;
    let language = language.trim();
    let plain = language.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '_' | '#'));
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        if line.trim() == "```" {
            let (code, rest) = (body.get(..at)?.trim_end_matches('\n'), body.get(at + line.trim_end().len()..)?);
            return (plain && !code.trim().is_empty()).then_some(Block { language, code, rest });
        }
        at += line.len();
    }
    None
}

/// The text of a heading.
#[must_use]
pub fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let heading = text.strip_prefix(' ').map(str::trim).filter(|heading| !heading.is_empty())?;
    (1..=6).contains(&(line.len() - text.len())).then_some(heading)
}

/// How a range is formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Code,
    Strong,
    Emphasis,
    /// Struck through.
    Struck,
    Link,
}

/// A formatted range at the beginning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch<'t> {
    /// How it is formatted.
    pub mark: Mark,
    pub inner: &'t str,
    /// Where a link leads; otherwise empty.
    pub url: &'t str,
    /// The text after it.
    pub rest: &'t str,
}

/// Parses a formatted range at the beginning of a text, before which there is a character or none.
#[must_use]
pub fn stretch(text: &str, before: Option<char>) -> Option<Stretch<'_>> {
    match text.as_bytes() {
        [b'`', ..] => code(text),
        [b'*', b'*', ..] => marked(text, "**", Mark::Strong, before),
        [b'~', b'~', ..] => marked(text, "~~", Mark::Struck, before),
        [b'*', ..] => marked(text, "*", Mark::Emphasis, before),
        [b'_', ..] => marked(text, "_", Mark::Emphasis, before),
        [b'[', ..] => link(text),
        _ => None,
    }
}

fn code(text: &str) -> Option<Stretch<'_>> {
    let body = text.trim_start_matches('`');
    let mark = text.get(..text.len() - body.len())?;
    let end = body.match_indices(mark).map(|(at, _)| at).find(|at| {
        let longer = |c: Option<char>| c == Some('`');
        let around = (body.get(..*at), body.get(at + mark.len()..));
        !longer(around.0.and_then(|before| before.chars().next_back()))
            && !longer(around.1.and_then(|after| after.chars().next()))
    })?;
    let inner = body.get(..end)?;
    let bare = inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' ')).filter(|bare| !bare.trim().is_empty());
    let rest = body.get(end + mark.len()..)?;
    (!inner.is_empty()).then_some(Stretch { mark: Mark::Code, inner: bare.unwrap_or(inner), url: "", rest })
}

/// A range between two marks, without white space next to them inside. Single-character marks do not begin or end
/// within a word: `snake_case`, `2*3*4`.
fn marked<'t>(text: &'t str, sign: &str, mark: Mark, before: Option<char>) -> Option<Stretch<'t>> {
    let body = text.strip_prefix(sign)?;
    let first = sign.chars().next();
    let single = sign.len() == 1;
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_open = |c: Option<char>| c.is_none_or(char::is_whitespace);
    if is_open(body.chars().next()) || body.starts_with(sign) || (single && is_word(before)) {
        return None;
    }
    body.match_indices(sign).find_map(|(at, _)| {
        let (inner, rest) = (body.get(..at)?, body.get(at + sign.len()..)?);
        let (last, next) = (inner.chars().next_back(), rest.chars().next());
        let ends = !is_open(last) && last != Some('\\') && last != first && next != first;
        (ends && !(single && is_word(next))).then_some(Stretch { mark, inner, url: "", rest })
    })
}

fn link(text: &str) -> Option<Stretch<'_>> {
    let (inner, after) = text.strip_prefix('[')?.split_once("](")?;
    let (url, rest) = after.split_once(')')?;
    let usable = url.starts_with("https://") || url.starts_with("http://");
    let plain = !url.chars().any(|c| c.is_whitespace() || c.is_control());
    let whole = !inner.trim().is_empty() && !inner.contains(['[', ']', '\n']);
    (usable && plain && whole).then_some(Stretch { mark: Mark::Link, inner, url, rest })
}

/// An address at the beginning of a text, whose signs are no formatting.
#[must_use]
pub fn address(text: &str) -> Option<&str> {
    let is_address = text.starts_with("https://") || text.starts_with("http://");
    let end = text.find(|char: char| char.is_whitespace() || "<>()[]\"`".contains(char)).unwrap_or(text.len());
    is_address.then(|| text.get(..end))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_headings_are_recognised() {
        let mark = |text| stretch(text, None).map(|stretch| (stretch.mark, stretch.inner, stretch.rest));
        assert_eq!(mark("**a** b"), Some((Mark::Strong, "a", " b")));
        assert_eq!(mark("[a](https://x.test) b"), Some((Mark::Link, "a", " b")));
        assert_eq!(mark("`` a`b ``"), Some((Mark::Code, "a`b", "")));
        for text in ["* a*", "**a", "[a](javascript:1)", "`", "_a_b", "plain"] {
            assert_eq!(mark(text), None, "{text:?}");
        }
        assert_eq!(stretch("*a*", Some('2')), None);
        assert_eq!(
            ["# A ", "###### B", "####### C", "#D", "# ", "E"].map(heading),
            [Some("A"), Some("B"), None, None, None, None]
        );
        assert_eq!(block("```rust\nx\n```\ny"), Some(Block { language: "rust", code: "x", rest: "\ny" }));
        assert_eq!(block("```\nno end"), None);
    }
}
