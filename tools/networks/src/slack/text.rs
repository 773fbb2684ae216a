//! The text of messages as people see it: without Slack's marks for people, channels, groups and links.

/// Most people whose names are asked for a text.
pub(super) const NAMES_MAX: usize = 20;

/// The ids of people in a text.
pub(super) fn people(text: &str) -> impl Iterator<Item = &str> {
    let marks = text.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(mark, _)| mark);
    marks.filter_map(|mark| mark.strip_prefix('@')).map(|mark| mark.split('|').next().unwrap_or_default())
}

/// A text without marks. Names of people come from a function, which knows them by their ids.
pub(super) fn plain(text: &str, name: &dyn Fn(&str) -> Option<String>) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('<') {
        unescape(before, &mut out);
        let is_mark = |mark: &str| !mark.is_empty() && !mark.starts_with(' ') && !mark.contains('<');
        let Some((mark, after)) = after.split_once('>').filter(|(mark, _)| is_mark(mark)) else {
            out.push('<');
            rest = after;
            continue;
        };
        shown(mark, name, &mut out);
        rest = after;
    }
    unescape(rest, &mut out);
    out
}

/// What stands for a mark.
fn shown(mark: &str, name: &dyn Fn(&str) -> Option<String>, out: &mut String) {
    let (what, label) = mark.split_once('|').map_or((mark, None), |(what, label)| (what, Some(label)));
    let label = label.filter(|label| !label.is_empty());
    match what.chars().next() {
        Some('@') => {
            let id = what.get(1..).unwrap_or_default();
            out.push('@');
            match name(id) {
                Some(name) => out.push_str(&name),
                None => unescape(label.unwrap_or(id), out),
            }
        }
        Some('#') => {
            out.push('#');
            unescape(label.or(what.get(1..)).unwrap_or_default(), out);
        }
        Some('!') => {
            // `<!here>`, `<!subteam^S1|@team>` and `<!date^…|text>`.
            let word = what.get(1..).unwrap_or_default().split('^').next().unwrap_or_default();
            match label.filter(|_| what.contains('^')) {
                Some(label) => unescape(label, out),
                None => {
                    out.push('@');
                    unescape(word, out);
                }
            }
        }
        _ => {
            let bare = what.strip_prefix("mailto:").or_else(|| what.strip_prefix("tel:")).unwrap_or(what);
            match label {
                // What clients make of an address that was only typed.
                Some(label) if !bare.trim_end_matches('/').ends_with(label.trim_end_matches('/')) => {
                    unescape(label, out);
                    out.push_str(" (");
                    unescape(bare, out);
                    out.push(')');
                }
                _ => unescape(bare, out),
            }
        }
    }
}

fn unescape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let known = [("amp;", '&'), ("lt;", '<'), ("gt;", '>')];
        let found = known.iter().find_map(|(name, char)| Some((after.strip_prefix(name)?, *char)));
        let (after, char) = found.unwrap_or((after, '&'));
        out.push(char);
        rest = after;
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> String {
        plain(text, &|id| (id == "U1").then(|| "Ann <3".to_owned()))
    }

    #[test]
    fn marks_become_what_people_see() {
        for (text, expected) in [
            ("hi <@U1>, <@U2|bob> and <@U3>", "hi @Ann <3, @bob and @U3"),
            ("<#C1|general> <#C2> <#C3|>", "#general #C2 #C3"),
            ("<!here> <!channel> <!everyone|everyone>", "@here @channel @everyone"),
            ("<!subteam^S1|@team> <!subteam^S2> <!date^1^{date}|yesterday>", "@team @subteam yesterday"),
            (
                "<https://x.test> <https://x.test/|x.test> <https://x.test/a|a page>",
                "https://x.test https://x.test/ a page (https://x.test/a)",
            ),
            ("<mailto:a@b.test|a@b.test> <tel:12|12>", "a@b.test 12"),
            ("1 &lt; 2 &amp;amp; 3 &gt; 2 & &copy;", "1 < 2 &amp; 3 > 2 & &copy;"),
            ("&lt;@U1&gt; a < b <> <@>", "<@U1> a < b <> @"),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
        assert_eq!(people("<@U1> <@U2|x> &lt;@U3&gt; <#C1> <@U4").collect::<Vec<_>>(), ["U1", "U2"]);
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read(text in "[<>@#!|^&;lta:/ 🦀]{0,80}") {
            prop_assert!(read(&text).matches('🦀').count() <= text.matches('🦀').count());
        }
    }
}
