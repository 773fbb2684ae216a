//! Converts agents' Markdown to text with entities, the only markup that Telegram cannot fail to parse. Syntax that is
//! not recognized stays in the text unchanged.
//!
//! Code blocks, `code`, **bold**, *italic*, ~~struck~~, [links](https://…) and headings, which are shown bold. Except
//! for code blocks, a formatted range ends on the line where it began. Only agents' texts are converted: in a card,
//! which may quote strangers, everything is plain.

use serde_json::{Value, json};

/// Telegram's limit of entities in one message.
const ENTITIES_MAX: usize = 100;
/// Nesting limit of entities.
const DEPTH_MAX: u8 = 6;

/// A text as displayed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RenderedText {
    /// The text without markup.
    pub(super) text: String,
    /// Formatted ranges, in the API's format.
    pub(super) entities: Vec<Value>,
    units: usize,
}

/// Converts Markdown.
pub(super) fn shown(markdown: &str) -> RenderedText {
    let mut out = RenderedText::default();
    let mut rest = markdown;
    while !rest.is_empty() {
        if let Some((language, code, after)) = block(rest) {
            let begin = out.here();
            out.push(code);
            out.mark(begin, json!({ "type": "pre" }), "language", language);
            rest = after;
            continue;
        }
        let (line, after) =
            rest.split_at_checked(rest.find('\n').map_or(rest.len(), |at| at + 1)).unwrap_or((rest, ""));
        let text = line.trim_start_matches('#');
        match (line.len() - text.len(), text.strip_prefix(' ')) {
            (1..=6, Some(heading)) => {
                let (heading, end) = heading.split_at_checked(heading.trim_end().len()).unwrap_or((heading, ""));
                let begin = out.here();
                inline(&mut out, heading.trim_start(), 1);
                out.mark(begin, json!({ "type": "bold" }), "", "");
                out.push(end);
            }
            _ => inline(&mut out, line, 0),
        }
        rest = after;
    }
    if out.text.trim().is_empty() {
        return plain(markdown);
    }
    out.entities.truncate(ENTITIES_MAX);
    out
}

/// A text without formatting.
pub(super) fn plain(text: &str) -> RenderedText {
    RenderedText { text: text.to_owned(), ..RenderedText::default() }
}

/// Start of a range: its offset, and its index before nested entities.
struct Begin {
    units: usize,
    place: usize,
}

impl RenderedText {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.units += text.encode_utf16().count();
    }

    fn here(&self) -> Begin {
        Begin { units: self.units, place: self.entities.len() }
    }

    /// Adds an entity for the text since `begin`, with one more field if it has a value.
    fn mark(&mut self, begin: Begin, mut entity: Value, key: &str, value: &str) {
        let length = self.units - begin.units;
        if let (Some(fields), true) = (entity.as_object_mut(), length > 0) {
            fields.insert("offset".to_owned(), json!(begin.units));
            fields.insert("length".to_owned(), json!(length));
            if !value.is_empty() {
                fields.insert(key.to_owned(), json!(value));
            }
            self.entities.insert(begin.place, entity);
        }
    }
}

/// Parses a code block at the beginning of a text: language, code, and the text after it.
fn block(text: &str) -> Option<(&str, &str, &str)> {
    let (language, body) = text.strip_prefix("```")?.split_once('\n')?;
    let language = language.trim();
    let plain = language.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '_' | '#'));
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        if line.trim() == "```" {
            let code = body.get(..at)?;
            let after = body.get(at + line.trim_end().len()..)?;
            return (plain && !code.trim().is_empty()).then(|| (language, code.trim_end_matches('\n'), after));
        }
        at += line.len();
    }
    None
}

/// A formatted range at the beginning of a text.
struct Stretch<'t> {
    kind: &'static str,
    inner: &'t str,
    url: &'t str,
    rest: &'t str,
}

fn inline(out: &mut RenderedText, text: &str, depth: u8) {
    let (mut rest, mut before) = (text, None);
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        if let Some(stretch) = stretch(rest, before).filter(|_| depth < DEPTH_MAX) {
            let begin = out.here();
            if stretch.kind == "code" {
                out.push(stretch.inner);
            } else {
                inline(out, stretch.inner, depth + 1);
            }
            out.mark(begin, json!({ "type": stretch.kind }), "url", stretch.url);
            (before, rest) = (stretch.inner.chars().next_back(), stretch.rest);
        } else if let ('\\', Some(escaped)) = (c, after.chars().next().filter(char::is_ascii_punctuation)) {
            out.push(escaped.encode_utf8(&mut [0; 4]));
            (before, rest) = (Some(escaped), after.get(1..).unwrap_or_default());
        } else {
            out.push(c.encode_utf8(&mut [0; 4]));
            (before, rest) = (Some(c), after);
        }
    }
}

fn stretch(text: &str, before: Option<char>) -> Option<Stretch<'_>> {
    match text.as_bytes() {
        [b'`', ..] => code(text),
        [b'*', b'*', ..] => marked(text, "**", "bold", before),
        [b'~', b'~', ..] => marked(text, "~~", "strikethrough", before),
        [b'*', ..] => marked(text, "*", "italic", before),
        [b'_', ..] => marked(text, "_", "italic", before),
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
    (!inner.is_empty()).then_some(Stretch {
        kind: "code",
        inner: bare.unwrap_or(inner),
        url: "",
        rest: body.get(end + mark.len()..)?,
    })
}

/// A range between two marks, without white space next to them inside. Single-character marks do not begin or end
/// within a word: `snake_case`, `2*3*4`.
fn marked<'t>(text: &'t str, mark: &str, kind: &'static str, before: Option<char>) -> Option<Stretch<'t>> {
    let body = text.strip_prefix(mark)?;
    let sign = mark.chars().next();
    let single = mark.len() == 1;
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let is_open = |c: Option<char>| c.is_none_or(char::is_whitespace);
    if is_open(body.chars().next()) || body.starts_with(mark) || (single && is_word(before)) {
        return None;
    }
    body.match_indices(mark).find_map(|(at, _)| {
        let (inner, rest) = (body.get(..at)?, body.get(at + mark.len()..)?);
        let (last, next) = (inner.chars().next_back(), rest.chars().next());
        let ends = !is_open(last) && last != Some('\\') && last != sign && next != sign;
        (ends && !(single && is_word(next))).then_some(Stretch { kind, inner, url: "", rest })
    })
}

fn link(text: &str) -> Option<Stretch<'_>> {
    let (inner, after) = text.strip_prefix('[')?.split_once("](")?;
    let (url, rest) = after.split_once(')')?;
    let usable = url.starts_with("https://") || url.starts_with("http://");
    let plain = !url.chars().any(|c| c.is_whitespace() || c.is_control());
    let whole = !inner.trim().is_empty() && !inner.contains(['[', ']', '\n']);
    (usable && plain && whole).then_some(Stretch { kind: "text_link", inner, url, rest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The text with its stretches written as `<kind:…>`.
    fn seen(markdown: &str) -> String {
        let shown = shown(markdown);
        let units: Vec<u16> = shown.text.encode_utf16().collect();
        let mut seen = shown.text.clone();
        for entity in &shown.entities {
            let at = |key: &str| usize::try_from(entity[key].as_u64().unwrap()).unwrap();
            let part = String::from_utf16(&units[at("offset")..at("offset") + at("length")]).unwrap();
            let more = entity["url"].as_str().or(entity["language"].as_str()).unwrap_or_default();
            seen.push_str(&format!(" <{}{more}:{part}>", entity["type"].as_str().unwrap()));
        }
        seen
    }

    #[test]
    fn what_is_markdown_is_marked_and_everything_else_stays() {
        for (markdown, expected) in [
            ("plain", "plain"),
            ("a **b** c", "a b c <bold:b>"),
            ("🦀 **ß🦀** c", "🦀 ß🦀 c <bold:ß🦀>"),
            ("*i* and _j_", "i and j <italic:i> <italic:j>"),
            ("**a *b* c**", "a b c <bold:a b c> <italic:b>"),
            ("***x***", "***x***"),
            ("~~gone~~", "gone <strikethrough:gone>"),
            ("`**x**` y", "**x** y <code:**x**>"),
            ("`` a`b ``", "a`b <code:a`b>"),
            ("[site](https://x.example/a_b_c)", "site <text_linkhttps://x.example/a_b_c:site>"),
            ("[**b**](https://x.example)", "b <text_linkhttps://x.example:b> <bold:b>"),
            ("[x](javascript:1) [y](/z) [](https://x)", "[x](javascript:1) [y](/z) [](https://x)"),
            ("# Title\ntext", "Title\ntext <bold:Title>"),
            ("#tag and # not", "#tag and # not"),
            ("snake_case_name 2*3*4 a * b * c", "snake_case_name 2*3*4 a * b * c"),
            ("* one\n* two", "* one\n* two"),
            ("**not\nover lines**", "**not\nover lines**"),
            ("\\*no\\* \\_no\\_ c:\\dir", "*no* _no_ c:\\dir"),
            ("open **and `never closed", "open **and `never closed"),
            ("```rust\nfn f() {}\n\nx\n```\nend", "fn f() {}\n\nx\nend <prerust:fn f() {}\n\nx>"),
            ("```\nno end", "```\nno end"),
            ("a\n```\n**x**\n```", "a\n**x** <pre:**x**>"),
            ("```not a language!\nx\n```", "```not a language!\nx\n```"),
            ("``` \n```", "``` \n```"),
            ("** **", "** **"),
            ("", ""),
        ] {
            assert_eq!(seen(markdown), expected, "{markdown:?}");
        }
    }

    #[test]
    fn depth_and_number_are_bounded() {
        for nested in ["*_", "**~~", "[", "`*"] {
            let back: String = nested.chars().rev().collect();
            let nested = format!("{}x{}", nested.repeat(1_000), back.repeat(1_000));
            assert!(shown(&nested).entities.len() <= ENTITIES_MAX);
        }
        assert_eq!(shown(&"**b** ".repeat(500)).entities.len(), ENTITIES_MAX);
    }

    proptest! {
        #[test]
        fn stretches_lie_in_the_text_and_words_are_never_lost(markdown in "[a*_~`#\\[\\]()\\\\ 🦀\n]{0,60}") {
            let shown = shown(&markdown);
            let units = shown.text.encode_utf16().count() as u64;
            for entity in &shown.entities {
                let end = entity["offset"].as_u64().unwrap() + entity["length"].as_u64().unwrap();
                prop_assert!(end <= units && entity["length"].as_u64().unwrap() > 0);
            }
            let words = |text: &str| text.chars().filter(|c| matches!(c, 'a' | '🦀')).count();
            prop_assert_eq!(words(&shown.text), words(&markdown));
            prop_assert!(units <= markdown.encode_utf16().count() as u64);
        }
    }
}
