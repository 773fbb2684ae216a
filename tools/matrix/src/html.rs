//! Converts agents' Markdown to the HTML that clients of Matrix show. Syntax that is not recognised stays in the text
//! unchanged, and nothing of the text becomes HTML by itself.
//!
//! Headings are shown bold. Ids of people who are in the room become mentions.

use std::collections::BTreeMap;

use hearth_bridge::markdown::{Block, DEPTH_MAX, Mark, block, heading, stretch};

/// The people who can be mentioned: their names by their ids.
pub(crate) type People = BTreeMap<String, String>;

/// The HTML of a text; none if it is plain.
pub(crate) fn html(markdown: &str, people: &People) -> Option<String> {
    let mut out = Html { text: String::new(), people, is_plain: true };
    let mut rest = markdown;
    while !rest.is_empty() {
        if let Some(Block { language, code, rest: after }) = block(rest) {
            out.code_block(language, code);
            rest = after.strip_prefix('\n').unwrap_or(after);
            continue;
        }
        let (line, after) = rest.split_once('\n').map_or((rest, None), |(line, after)| (line, Some(after)));
        match heading(line) {
            Some(heading) => out.within("strong", heading, 1),
            None => out.inline(line, 0),
        }
        if after.is_some() {
            out.text.push_str("<br>");
        }
        rest = after.unwrap_or_default();
    }
    (!out.is_plain).then_some(out.text)
}

/// The ids in a text that have the form of a person's, at most ten of them.
pub(crate) fn ids(text: &str) -> Vec<&str> {
    let found = text.match_indices('@').filter_map(|(at, _)| id_at(text.get(at..)?));
    found.take(10).collect()
}

/// The id of a person at the beginning of a text.
fn id_at(text: &str) -> Option<&str> {
    let (name, rest) = text.strip_prefix('@')?.split_once(':')?;
    let is_name = |char: char| char.is_ascii_alphanumeric() || "._=-/+".contains(char);
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let is_server = |char: char| char.is_ascii_alphanumeric() || ".-:".contains(char);
    let server = rest.find(|char| !is_server(char)).map_or(Some(rest), |end| rest.get(..end))?;
    let server = server.trim_end_matches(['.', ':', '-']);
    let id = text.get(..name.len() + server.len() + 2)?;
    (!server.is_empty() && id.len() <= 255).then_some(id)
}

struct Html<'p> {
    text: String,
    people: &'p People,
    is_plain: bool,
}

impl Html<'_> {
    fn code_block(&mut self, language: &str, code: &str) {
        self.is_plain = false;
        match language {
            "" => self.text.push_str("<pre><code>"),
            language => {
                self.text.push_str("<pre><code class=\"language-");
                self.escaped(language);
                self.text.push_str("\">");
            }
        }
        self.escaped(code);
        self.text.push_str("\n</code></pre>");
    }

    fn escaped(&mut self, text: &str) {
        for char in text.chars() {
            match char {
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '&' => self.text.push_str("&amp;"),
                '"' => self.text.push_str("&quot;"),
                char => self.text.push(char),
            }
        }
    }

    fn within(&mut self, tag: &str, inner: &str, depth: u8) {
        self.is_plain = false;
        self.text.push_str(&format!("<{tag}>"));
        self.inline(inner, depth);
        self.text.push_str(&format!("</{tag}>"));
    }

    fn link(&mut self, url: &str) {
        self.is_plain = false;
        self.text.push_str("<a href=\"");
        self.escaped(url);
        self.text.push_str("\">");
    }

    fn inline(&mut self, text: &str, depth: u8) {
        let (mut rest, mut before) = (text, None);
        while let Some(c) = rest.chars().next() {
            let after = rest.get(c.len_utf8()..).unwrap_or_default();
            if let Some((id, name)) = self.mention(rest) {
                self.link(&format!("https://matrix.to/#/{id}"));
                self.escaped(&name);
                self.text.push_str("</a>");
                (before, rest) = (id.chars().next_back(), rest.get(id.len()..).unwrap_or_default());
            } else if let Some(stretch) = stretch(rest, before).filter(|_| depth < DEPTH_MAX) {
                match stretch.mark {
                    Mark::Code => {
                        self.is_plain = false;
                        self.text.push_str("<code>");
                        self.escaped(stretch.inner);
                        self.text.push_str("</code>");
                    }
                    Mark::Link => {
                        self.link(stretch.url);
                        self.inline(stretch.inner, depth + 1);
                        self.text.push_str("</a>");
                    }
                    Mark::Strong => self.within("strong", stretch.inner, depth + 1),
                    Mark::Emphasis => self.within("em", stretch.inner, depth + 1),
                    Mark::Struck => self.within("del", stretch.inner, depth + 1),
                }
                (before, rest) = (stretch.inner.chars().next_back(), stretch.rest);
            } else if let ('\\', Some(escaped)) = (c, after.chars().next().filter(char::is_ascii_punctuation)) {
                self.escaped(escaped.encode_utf8(&mut [0; 4]));
                self.is_plain = false;
                (before, rest) = (Some(escaped), after.get(1..).unwrap_or_default());
            } else {
                self.escaped(c.encode_utf8(&mut [0; 4]));
                (before, rest) = (Some(c), after);
            }
        }
    }

    fn mention<'t>(&self, text: &'t str) -> Option<(&'t str, String)> {
        let id = id_at(text)?;
        Some((id, self.people.get(id)?.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn people() -> People {
        People::from([("@ann:x.test".to_owned(), "Ann <3".to_owned())])
    }

    #[test]
    fn what_is_markdown_is_marked_and_everything_else_stays() {
        for (markdown, expected) in [
            ("a **b** c", "a <strong>b</strong> c"),
            ("*i* and _j_\nend", "<em>i</em> and <em>j</em><br>end"),
            ("**a *b* c**", "<strong>a <em>b</em> c</strong>"),
            ("~~gone~~ `**x**`", "<del>gone</del> <code>**x**</code>"),
            (
                "[**b**](https://x.example?a=\"&b)",
                "<a href=\"https://x.example?a=&quot;&amp;b\"><strong>b</strong></a>",
            ),
            ("# Title\n<b>", "<strong>Title</strong><br>&lt;b&gt;"),
            ("```rust\nf<T>\n\nx\n```\nend", "<pre><code class=\"language-rust\">f&lt;T&gt;\n\nx\n</code></pre>end"),
            ("\\*no\\*", "*no*"),
            (
                "hi @ann:x.test, and @eve:x.test",
                "hi <a href=\"https://matrix.to/#/@ann:x.test\">Ann &lt;3</a>, and @eve:x.test",
            ),
        ] {
            assert_eq!(html(markdown, &people()).as_deref(), Some(expected), "{markdown:?}");
        }
        for plain in [
            "",
            "plain <b>\n&",
            "[x](javascript:1)",
            "snake_case_name 2*3*4",
            "**not\nover lines**",
            "```\nno end",
            "#tag",
        ] {
            assert_eq!(html(plain, &people()), None, "{plain:?}");
        }
    }

    #[test]
    fn ids_are_found_in_sentences() {
        assert_eq!(ids("@ann:x.test: see @b/c:y:8448. mail@me @:x @a:"), ["@ann:x.test", "@b/c:y:8448"]);
        assert_eq!(ids(&"@a:b ".repeat(99)).len(), 10);
    }

    proptest! {
        #[test]
        fn tags_are_only_ours_and_words_are_never_lost(markdown in "[a*_~`#\\[\\]()<>&\"@:x\\\\ 🦀\n]{0,60}") {
            let shown = html(&markdown, &people()).unwrap_or_default();
            let mut bare = shown.clone();
            for tag in ["strong", "em", "del", "code", "pre", "a"] {
                prop_assert_eq!(shown.matches(&format!("<{tag}>")).count() + shown.matches(&format!("<{tag} ")).count(), shown.matches(&format!("</{tag}>")).count());
                bare = bare.replace(&format!("<{tag}>"), "").replace(&format!("</{tag}>"), "");
            }
            prop_assert!(!bare.replace("<br>", "").contains('<'));
            if !shown.is_empty() {
                prop_assert_eq!(shown.matches('🦀').count(), markdown.matches('🦀').count());
            }
        }
    }
}
