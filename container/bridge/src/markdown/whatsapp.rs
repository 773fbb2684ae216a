//! Converts the Markdown of agents to WhatsApp's marks. WhatsApp has no escapes, so a sign that could be one stays as it is,
//! with an invisible character before it where the agent escaped it.

use super::{Block, DEPTH_MAX, Mark, address, block, heading, stretch};

/// Stands before a sign that is no formatting, and is not seen.
const QUIET: char = '\u{200b}';

/// The text of an agent, as WhatsApp shows it.
#[must_use]
pub fn formatted(markdown: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(markdown.len()), markdown);
    while !rest.is_empty() {
        if let Some(Block { code, rest: after, .. }) = block(rest) {
            // The language would be shown as the first line.
            out.push_str(&format!("```\n{code}\n```"));
            rest = after;
            continue;
        }
        let (line, after) = rest.split_once('\n').map_or((rest, None), |(line, after)| (line, Some(after)));
        match heading(line) {
            Some(heading) => within(&mut out, '*', heading, 1),
            None => inline(&mut out, line, 0),
        }
        if after.is_some() {
            out.push('\n');
        }
        rest = after.unwrap_or_default();
    }
    out
}

fn within(out: &mut String, sign: char, inner: &str, depth: u8) {
    // A mark within the same mark would end it.
    let before = out.len();
    out.push(sign);
    inline(out, inner, depth);
    if out.get(before + sign.len_utf8()..).is_some_and(|inner| inner.contains(sign)) {
        out.remove(before);
    } else {
        out.push(sign);
    }
}

fn inline(out: &mut String, text: &str, depth: u8) {
    let (mut rest, mut before) = (text, None);
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        if let Some(url) = address(rest) {
            out.push_str(url);
            (before, rest) = (url.chars().next_back(), rest.get(url.len()..).unwrap_or_default());
        } else if let Some(stretch) = stretch(rest, before).filter(|_| depth < DEPTH_MAX) {
            match stretch.mark {
                Mark::Code => out.push_str(&format!("`{}`", stretch.inner)),
                Mark::Link if stretch.inner == stretch.url => out.push_str(stretch.url),
                Mark::Link => {
                    inline(out, stretch.inner, depth + 1);
                    out.push_str(&format!(" ({})", stretch.url));
                }
                Mark::Strong => within(out, '*', stretch.inner, depth + 1),
                Mark::Emphasis => within(out, '_', stretch.inner, depth + 1),
                Mark::Struck => within(out, '~', stretch.inner, depth + 1),
            }
            (before, rest) = (stretch.inner.chars().next_back(), stretch.rest);
        } else if let ('\\', Some(sign)) = (c, after.chars().next().filter(char::is_ascii_punctuation)) {
            if "*_~`".contains(sign) {
                out.push(QUIET);
            }
            out.push(sign);
            (before, rest) = (Some(sign), after.get(1..).unwrap_or_default());
        } else {
            out.push(c);
            (before, rest) = (Some(c), after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markdown_becomes_marks() {
        for (markdown, expected) in [
            ("plain 2*3*4 snake_case_name", "plain 2*3*4 snake_case_name"),
            ("🦀 **b** c", "🦀 *b* c"),
            ("**a *b* c**", "*a _b_ c*"),
            ("**a * b**", "a * b"),
            ("~~gone~~ `x*y*`", "~gone~ `x*y*`"),
            ("# Title\nx", "*Title*\nx"),
            ("a\n```rust\nf(*x*)\n```\nb", "a\n```\nf(*x*)\n```\nb"),
            ("[a](https://x.test) https://x.test/_a_", "a (https://x.test) https://x.test/_a_"),
            ("\\*no\\*", "\u{200b}*no\u{200b}*"),
        ] {
            assert_eq!(formatted(markdown), expected, "{markdown:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_of_a_text_is_lost(markdown in "[a*_~`#\\[\\]()\\\\ 🦀é\n]{0,80}") {
            let found = formatted(&markdown);
            for letter in ['🦀', 'é'] {
                prop_assert_eq!(found.matches(letter).count(), markdown.matches(letter).count());
            }
            // The invisible character stands for the one that escaped.
            prop_assert!(found.encode_utf16().count() <= markdown.encode_utf16().count() + 2);
        }
    }
}
