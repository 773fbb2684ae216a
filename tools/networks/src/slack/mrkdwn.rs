//! Converts texts to Slack's `mrkdwn`. Syntax that is not recognised stays in the text unchanged, and `&`, `<` and `>` are
//! escaped, so that nothing of a text becomes a mention or a link by itself: `<!channel>` notifies no person.

use hearth_bridge::markdown::{Block, DEPTH_MAX, Mark, address, block, heading, stretch};

/// Stands before a sign that is no formatting, and is not seen: Slack has no escape for them.
const QUIET: char = '\u{200b}';
/// Ids of people that become mentions in a text.
const MENTIONS_MAX: usize = 10;

/// A plain text as Slack wants it.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            char => out.push(char),
        }
    }
    out
}

/// The text of an agent, which is Markdown. Ids of people in the form `<@U…>` become mentions.
pub(super) fn mrkdwn(markdown: &str) -> String {
    let mut out = Out { text: String::new(), mentions: 0 };
    let mut rest = markdown;
    while !rest.is_empty() {
        if let Some(Block { code, rest: after, .. }) = block(rest) {
            // Slack would show the language as the first line.
            out.text.push_str(&format!("```\n{}\n```", escape(code)));
            rest = after;
            continue;
        }
        let (line, after) = rest.split_once('\n').map_or((rest, None), |(line, after)| (line, Some(after)));
        match heading(line) {
            Some(heading) => out.within('*', heading, 1),
            None => out.inline(line, 0),
        }
        if after.is_some() {
            out.text.push('\n');
        }
        rest = after.unwrap_or_default();
    }
    out.text
}

struct Out {
    text: String,
    mentions: usize,
}

impl Out {
    fn within(&mut self, sign: char, inner: &str, depth: u8) {
        self.text.push(sign);
        self.inline(inner, depth);
        self.text.push(sign);
    }

    fn inline(&mut self, text: &str, depth: u8) {
        let (mut rest, mut before) = (text, None);
        while let Some(c) = rest.chars().next() {
            let after = rest.get(c.len_utf8()..).unwrap_or_default();
            if let Some(taken) = person(rest).filter(|_| self.mentions < MENTIONS_MAX) {
                self.mentions += 1;
                self.text.push_str(taken);
                (before, rest) = (Some('>'), rest.get(taken.len()..).unwrap_or_default());
            } else if let Some(url) = address(rest) {
                self.text.push_str(&escape(url));
                (before, rest) = (url.chars().next_back(), rest.get(url.len()..).unwrap_or_default());
            } else if let Some(stretch) = stretch(rest, before).filter(|_| depth < DEPTH_MAX) {
                match stretch.mark {
                    Mark::Code => self.text.push_str(&format!("`{}`", escape(stretch.inner))),
                    Mark::Link => self.link(stretch.url, stretch.inner),
                    Mark::Strong => self.within('*', stretch.inner, depth + 1),
                    Mark::Emphasis => self.within('_', stretch.inner, depth + 1),
                    Mark::Struck => self.within('~', stretch.inner, depth + 1),
                }
                (before, rest) = (stretch.inner.chars().next_back(), stretch.rest);
            } else if let ('\\', Some(sign)) = (c, after.chars().next().filter(char::is_ascii_punctuation)) {
                if "*_~`".contains(sign) {
                    self.text.push(QUIET);
                }
                self.text.push_str(&escape(sign.encode_utf8(&mut [0; 4])));
                (before, rest) = (Some(sign), after.get(1..).unwrap_or_default());
            } else {
                self.text.push_str(&escape(c.encode_utf8(&mut [0; 4])));
                (before, rest) = (Some(c), after);
            }
        }
    }

    /// A link. Its text has no formatting in Slack.
    fn link(&mut self, url: &str, label: &str) {
        let label: String = label.chars().filter(|char| !"*_~`|".contains(*char)).collect();
        let label = if label.trim().is_empty() { url } else { &label };
        self.text.push_str(&format!("<{}|{}>", escape(url).replace('|', "%7C"), escape(label)));
    }
}

/// The mention of a person at the beginning of a text.
fn person(text: &str) -> Option<&str> {
    let id = text.strip_prefix("<@")?.split('>').next()?;
    (is_person(id) && text.get(2 + id.len()..)?.starts_with('>')).then(|| text.get(..id.len() + 3))?
}

/// Whether a text has the form of a person's id.
pub(super) fn is_person(text: &str) -> bool {
    is_id(text, &['U', 'W'])
}

/// Whether a text has the form of an id that begins with one of these letters.
pub(super) fn is_id(text: &str, first: &[char]) -> bool {
    let is_rest = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    text.starts_with(first) && (2..=40).contains(&text.len()) && text.bytes().all(is_rest)
}

#[cfg(test)]
mod tests {
    use super::super::text::plain;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markdown_becomes_mrkdwn() {
        for (markdown, expected) in [
            ("plain <b> & c", "plain &lt;b&gt; &amp; c"),
            ("a **b** c", "a *b* c"),
            ("*i* and _j_\nend", "_i_ and _j_\nend"),
            ("**a *b* c**", "*a _b_ c*"),
            ("~~gone~~ `**x** <y>`", "~gone~ `**x** &lt;y&gt;`"),
            ("[**b**|](https://x.example?a=1&b|)", "<https://x.example?a=1&amp;b%7C|b>"),
            ("# Title\nx", "*Title*\nx"),
            ("```rust\nf<T>\n```\nend", "```\nf&lt;T&gt;\n```\nend"),
            ("\\*no\\*", "\u{200b}*no\u{200b}*"),
            ("2*3*4 snake_case_x", "2*3*4 snake_case_x"),
            ("https://x.test/_a_/*b* *c*", "https://x.test/_a_/*b* _c_"),
            ("ask <@U0ANN>, <@U0ANN|x> or <@u>", "ask <@U0ANN>, &lt;@U0ANN|x&gt; or &lt;@u&gt;"),
            ("<!channel> <!everyone> @here <#C1>", "&lt;!channel&gt; &lt;!everyone&gt; @here &lt;#C1&gt;"),
            ("[x](https://a.test/<!channel>)", "<https://a.test/&lt;!channel&gt;|x>"),
        ] {
            assert_eq!(mrkdwn(markdown), expected, "{markdown:?}");
        }
        assert_eq!(mrkdwn(&"<@U0ANN>".repeat(12)).matches("<@U0ANN>").count(), MENTIONS_MAX);
    }

    /// The beginnings of what Slack does not show as text.
    fn controls(text: &str) -> Vec<&str> {
        text.match_indices('<').map(|(at, _)| text[at..].get(..2).unwrap_or_default()).collect()
    }

    proptest! {
        #[test]
        fn only_people_and_links_are_more_than_text(markdown in "[a*_~`#\\[\\]()<>&!@|:/U0\\\\ 🦀\n]{0,60}|\\[x\\]\\(https://[a<>!&|]{1,9}\\)") {
            let shown = mrkdwn(&markdown);
            prop_assert!(controls(&shown).iter().all(|start| ["<@", "<h"].contains(start)), "{shown}");
            prop_assert_eq!(shown.matches('🦀').count(), markdown.matches('🦀').count());
        }

        #[test]
        fn an_escaped_text_is_read_as_it_was(text in "[a<>&;@!#|a-z 🦀\n]{0,60}") {
            prop_assert_eq!(plain(&escape(&text), &|_: &str| None), text);
        }
    }
}
