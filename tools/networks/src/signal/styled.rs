//! Converts the Markdown of agents to a text with ranges, as Signal has them: each with a style, and counted in UTF-16.

use hearth_bridge::markdown::{Block, DEPTH_MAX, Mark, address, block, heading, stretch};

/// Most ranges of a message.
const RANGES_MAX: usize = 250;

/// A text with its ranges, in signal-cli's form: `start:length:STYLE`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Styled {
    pub(super) text: String,
    pub(super) ranges: Vec<String>,
    /// UTF-16 code units of the text.
    length: usize,
}

/// A text without formatting.
pub(super) fn plain(text: &str) -> Styled {
    Styled { text: text.to_owned(), ..Styled::default() }
}

/// The text of an agent.
pub(super) fn styled(markdown: &str) -> Styled {
    let mut out = Styled::default();
    let mut rest = markdown;
    while !rest.is_empty() {
        if let Some(Block { code, rest: after, .. }) = block(rest) {
            out.within("MONOSPACE", |out| out.push(code));
            rest = after;
            continue;
        }
        let (line, after) = rest.split_once('\n').map_or((rest, None), |(line, after)| (line, Some(after)));
        match heading(line) {
            Some(heading) => out.within("BOLD", |out| out.inline(heading, 1)),
            None => out.inline(line, 0),
        }
        if after.is_some() {
            out.push("\n");
        }
        rest = after.unwrap_or_default();
    }
    out
}

impl Styled {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.length += text.encode_utf16().count();
    }

    fn within(&mut self, style: &str, write: impl FnOnce(&mut Self)) {
        let start = self.length;
        write(self);
        let length = self.length - start;
        if length > 0 && self.ranges.len() < RANGES_MAX {
            self.ranges.push(format!("{start}:{length}:{style}"));
        }
    }

    fn inline(&mut self, text: &str, depth: u8) {
        let (mut rest, mut before) = (text, None);
        while let Some(c) = rest.chars().next() {
            let after = rest.get(c.len_utf8()..).unwrap_or_default();
            if let Some(url) = address(rest) {
                self.push(url);
                (before, rest) = (url.chars().next_back(), rest.get(url.len()..).unwrap_or_default());
            } else if let Some(stretch) = stretch(rest, before).filter(|_| depth < DEPTH_MAX) {
                let inner = |out: &mut Self| out.inline(stretch.inner, depth + 1);
                match stretch.mark {
                    Mark::Code => self.within("MONOSPACE", |out| out.push(stretch.inner)),
                    Mark::Strong => self.within("BOLD", inner),
                    Mark::Emphasis => self.within("ITALIC", inner),
                    Mark::Struck => self.within("STRIKETHROUGH", inner),
                    Mark::Link if stretch.inner == stretch.url => self.push(stretch.url),
                    Mark::Link => {
                        inner(self);
                        self.push(&format!(" ({})", stretch.url));
                    }
                }
                (before, rest) = (stretch.inner.chars().next_back(), stretch.rest);
            } else if let ('\\', Some(sign)) = (c, after.chars().next().filter(char::is_ascii_punctuation)) {
                self.push(sign.encode_utf8(&mut [0; 4]));
                (before, rest) = (Some(sign), after.get(1..).unwrap_or_default());
            } else {
                self.push(c.encode_utf8(&mut [0; 4]));
                (before, rest) = (Some(c), after);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markdown_becomes_ranges() {
        for (markdown, text, ranges) in [
            ("plain", "plain", &[][..]),
            ("🦀 **b** c", "🦀 b c", &["3:1:BOLD"]),
            ("**a *b* c**", "a b c", &["2:1:ITALIC", "0:5:BOLD"]),
            ("~~gone~~ `x*y*`", "gone x*y*", &["0:4:STRIKETHROUGH", "5:4:MONOSPACE"]),
            ("# Title\nx", "Title\nx", &["0:5:BOLD"]),
            ("a\n```rust\nf(🦀)\n```\nb", "a\nf(🦀)\nb", &["2:5:MONOSPACE"]),
            ("[a](https://x.test) https://x.test/_a_", "a (https://x.test) https://x.test/_a_", &[]),
            ("\\*no\\* 2*3*4", "*no* 2*3*4", &[]),
        ] {
            let found = styled(markdown);
            assert_eq!(
                (found.text.as_str(), &found.ranges[..]),
                (text, &ranges.iter().map(|range| (*range).to_owned()).collect::<Vec<_>>()[..])
            );
        }
    }

    proptest! {
        #[test]
        fn ranges_are_inside_of_the_text(markdown in "[a*_~`#\\[\\]()\\\\ 🦀é\n]{0,80}") {
            let found = styled(&markdown);
            let length = found.text.encode_utf16().count();
            for range in &found.ranges {
                let mut numbers = range.split(':');
                let mut number = || numbers.next().unwrap().parse::<usize>().unwrap();
                let (start, count) = (number(), number());
                prop_assert!(count > 0 && start + count <= length, "{range} of {length}");
            }
            prop_assert_eq!(found.text.matches('🦀').count(), markdown.matches('🦀').count());
        }
    }
}
