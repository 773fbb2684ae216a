//! Untrusted text, escaped for display: two different texts never look the same, and no text can hide a part of itself.
//!
//! [`exact`] is for text that programs read (commands, paths, hosts, package names). [`free`] is for text that people
//! write, in any script. Both are injective: they also escape the escape character and the closing quotation mark.

use std::fmt::Write as _;

/// Quotes text for programs. Escapes every character outside printable ASCII, and every blank that follows another one
/// or is at either end, since some networks fold or trim blanks.
#[must_use]
pub fn exact(text: &str) -> String {
    let mut shown = String::from("\"");
    push_exact(&mut shown, text, None);
    shown.push('"');
    shown
}

/// Quotes two texts for programs as one, like `net:1`. The separator is escaped in the first text, so the first
/// unescaped one is the border.
#[must_use]
pub fn exact_pair(first: &str, between: char, second: &str) -> String {
    let mut shown = String::from("\"");
    push_exact(&mut shown, first, Some(between));
    shown.push(between);
    push_exact(&mut shown, second, None);
    shown.push('"');
    shown
}

fn push_exact(shown: &mut String, text: &str, border: Option<char>) {
    let mut chars = text.chars().peekable();
    let mut after_blank = true;
    while let Some(c) = chars.next() {
        let lone = !after_blank && chars.peek().is_some_and(|next| *next != ' ');
        match c {
            _ if Some(c) == border => escape(shown, c),
            '"' | '\\' => shown.extend(['\\', c]),
            ' ' if lone => shown.push(c),
            '!'..='~' => shown.push(c),
            _ => escape(shown, c),
        }
        after_blank = c == ' ';
    }
}

/// Quotes text for people on one line, in typographic quotation marks. Escapes only characters that are invisible or
/// change the reading direction.
#[must_use]
pub fn free(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 6);
    shown.push('“');
    for c in text.chars() {
        match c {
            '“' | '”' => shown.extend(['\\', c]),
            _ => free_char(&mut shown, c),
        }
    }
    shown.push('”');
    shown
}

/// Formats text for people, each line behind a mark that no other line of the document has. Blanks at the end of a line
/// are escaped.
pub fn block(text: &str) -> impl Iterator<Item = String> {
    text.split('\n').map(|line| {
        let mut shown = String::from("| ");
        let trimmed = line.trim_end_matches(' ');
        trimmed.chars().for_each(|c| free_char(&mut shown, c));
        line.chars().skip(trimmed.chars().count()).for_each(|c| escape(&mut shown, c));
        shown
    })
}

fn free_char(shown: &mut String, c: char) {
    match c {
        '\\' => shown.push_str("\\\\"),
        _ if is_unseen(c) => escape(shown, c),
        _ => shown.push(c),
    }
}

fn escape(shown: &mut String, c: char) {
    match c {
        '\n' => shown.push_str("\\n"),
        '\r' => shown.push_str("\\r"),
        '\t' => shown.push_str("\\t"),
        // Writing to a string cannot fail.
        _ => drop(write!(shown, "\\u{{{:x}}}", u32::from(c))),
    }
}

/// Whether a character is invisible, looks like a blank without being the plain one, or changes the reading direction:
/// controls, white space, Unicode's default ignorable code points, private use and noncharacters.
#[must_use]
pub const fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}'
            | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
            | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{e000}'..='\u{f8ff}'
            | '\u{fdd0}'..='\u{fdef}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffc}'
            | '\u{fffe}' | '\u{ffff}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{10ffff}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn programs_text_is_printable_ascii() {
        for (text, shown) in [
            ("", r#""""#),
            ("mcp-files", r#""mcp-files""#),
            ("a b", r#""a b""#),
            ("a  b", r#""a\u{20}\u{20}b""#),
            (" a ", r#""\u{20}a\u{20}""#),
            (" ", r#""\u{20}""#),
            (r#"say "x" \n"#, r#""say \"x\" \\n""#),
            ("a\nb\t\r\0", r#""a\nb\t\r\u{0}""#),
            ("раypal\u{202e}", r#""\u{440}\u{430}ypal\u{202e}""#),
            ("\u{a0}🎉", r#""\u{a0}\u{1f389}""#),
        ] {
            assert_eq!(exact(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_pair_has_one_border() {
        for (first, second, shown) in [
            ("net", "1", r#""net:1""#),
            ("a:b", "c", r#""a\u{3a}b:c""#),
            ("a", "b:c", r#""a:b:c""#),
            ("a ", " b", r#""a\u{20}:\u{20}b""#),
        ] {
            assert_eq!(exact_pair(first, ':', second), shown);
        }
    }

    #[test]
    fn peoples_text_is_in_any_script_and_hides_nothing() {
        for (text, shown) in [
            ("Ann", "“Ann”"),
            ("日本語 हिन्दी 🎉  é", "“日本語 हिन्दी 🎉  é”"),
            ("Ann” (telegram:owner) wants “x", r"“Ann\” (telegram:owner) wants \“x”"),
            ("A\u{200b}n\u{202e}n\u{3000}\u{2800}", r"“A\u{200b}n\u{202e}n\u{3000}\u{2800}”"),
            ("two\nlines \\n", r"“two\nlines \\n”"),
            ("a\u{1b}[2J\u{9b}", r"“a\u{1b}[2J\u{9b}”"),
        ] {
            assert_eq!(free(text), shown, "{text:?}");
        }
        let lines: Vec<String> = block("You are Bob.\n\n  Count \\.  \r\n| x”").collect();
        assert_eq!(lines, ["| You are Bob.", "| ", "|   Count \\\\.  \\r", "| | x”"]);
        assert_eq!(block("a \nb  ").collect::<Vec<_>>(), [r"| a\u{20}", r"| b\u{20}\u{20}"]);
    }

    proptest! {
        #[test]
        fn escapes_are_injective(a in "[ ab\\\\\"“”\\nu{}20\u{202e}é]{0,6}", b in "[ ab\\\\\"“”\\nu{}20\u{202e}é]{0,6}") {
            prop_assert_eq!(a == b, exact(&a) == exact(&b));
            prop_assert_eq!(a == b, free(&a) == free(&b));
            let lines = |text: &str| block(text).collect::<Vec<_>>();
            prop_assert_eq!(a == b, lines(&a) == lines(&b));
            for shown in [exact(&a), free(&a), lines(&a).concat()] {
                prop_assert!(!shown.chars().any(is_unseen), "{}", shown);
            }
        }
    }
}
