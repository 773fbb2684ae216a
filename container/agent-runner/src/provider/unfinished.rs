//! The part of an unfinished text that people in the chat that asked may see. Pure.
//!
//! The rules are those of [`dispatch`](crate::provider::dispatch), except that nothing is shown that the rest of the text could
//! still hide: a block without its end is hidden, and so is the beginning of a tag.

use hearth_wire::limits::WRITING_CHARS;

use crate::provider::dispatch::{BEGIN, END, opening};
use crate::strip::strip_unfinished;

/// Maximum bytes of a text. What follows is not shown before the text is complete.
const BYTES_MAX: usize = 1024 * 1024;

/// The text that the model is writing.
#[derive(Debug, Default)]
pub(super) struct UnfinishedText {
    text: String,
    /// Whether it has changed since it was shown.
    is_new: bool,
}

impl UnfinishedText {
    pub(super) fn push(&mut self, piece: &str) {
        if self.text.len() + piece.len() <= BYTES_MAX {
            self.text.push_str(piece);
            self.is_new = true;
        }
    }

    /// Another text begins, or none.
    pub(super) fn clear(&mut self) {
        self.is_new |= !self.text.is_empty();
        self.text.clear();
    }

    pub(super) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// The end of what may be seen. `is_own` says which destinations are the chat that asked.
    pub(super) fn show(&mut self, is_own: impl Fn(&str) -> bool) -> String {
        self.is_new = false;
        shown(&self.text, is_own)
    }
}

/// The end of what may be seen of an unfinished text. `is_own` says which destinations are the chat that asked.
pub(super) fn shown(text: &str, is_own: impl Fn(&str) -> bool) -> String {
    let visible = visible(text, is_own);
    let from = visible.char_indices().rev().nth(WRITING_CHARS - 1).map_or(0, |(at, _)| at);
    visible.get(from..).unwrap_or_default().to_owned()
}

/// A text without what others get, or may get.
fn visible(text: &str, is_own: impl Fn(&str) -> bool) -> String {
    let text = strip_unfinished(text);
    let mut shown = String::new();
    // Whether each open block is for the chat that asked.
    let mut open: Vec<bool> = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let is_shown = open.iter().all(|own| *own);
        if is_shown {
            shown.push_str(before);
        }
        if may_go_on(tag) {
            return shown.trim_start().to_owned();
        }
        if let Some((name, inside)) = tag.strip_prefix(BEGIN).and_then(opening) {
            open.push(is_own(name));
            rest = inside;
        } else if let (Some(after), false) = (tag.strip_prefix(END), open.is_empty()) {
            open.pop();
            rest = after;
        } else {
            if is_shown {
                shown.push('<');
            }
            rest = tag.get(1..).unwrap_or_default();
        }
    }
    if open.iter().all(|own| *own) {
        shown.push_str(rest);
    }
    shown.trim_start().to_owned()
}

/// Whether a text that begins with `<` ends within what may become a tag.
fn may_go_on(text: &str) -> bool {
    if BEGIN.starts_with(text) || END.starts_with(text) {
        return true;
    }
    let Some(tag) = text.strip_prefix(BEGIN) else { return false };
    let name = tag.trim_start();
    if name.len() == tag.len() {
        return false;
    }
    match name.strip_prefix("to=\"") {
        Some(name) => match name.split_once('"') {
            Some((_, after)) => after.trim_start().is_empty(),
            None => !name.contains(['<', '>']),
        },
        None => "to=\"".starts_with(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> String {
        visible(text, |name| name == "here")
    }

    #[test]
    fn what_others_get_is_hidden() {
        for (text, expected) in [
            ("hello", "hello"),
            ("a < b and a <b> c", "a < b and a <b> c"),
            ("<internal>X", ""),
            ("<internal>X</internal>Good", "Good"),
            ("a<internal>X</internal>b", "ab"),
            ("a<int<internal>X</internal>ernal>X", "a"),
            ("a<mess<internal>X</internal>age to=\"there\">X", "a"),
            ("a<", "a"),
            ("a<inter", "a"),
            ("a</mess", "a"),
            ("a<message", "a"),
            ("a<messages", "a<messages"),
            ("a<message to=\"he", "a"),
            ("a<message to=\"here\"", "a"),
            ("a<message from", "a<message from"),
            ("a<message to=\"there\">X", "a"),
            ("a<message to=\"there\">X</message>b", "ab"),
            ("<message to=\"here\">Good", "Good"),
            ("<message to=\"here\">Good</mes", "Good"),
            ("<message to=\"here\">a</message>b", "ab"),
            ("<message to=\"here\">a<message to=\"there\">X</message>b</message>c", "abc"),
            ("<message to=\"there\">X<message to=\"here\">X</message>X</message>c", "c"),
            ("a</message>b", "a</message>b"),
        ] {
            assert_eq!(seen(text), expected, "{text}");
        }
    }

    /// Wherever a text is cut, its hidden parts (`X`) stay hidden.
    #[test]
    fn nothing_hidden_is_shown_for_a_moment() {
        for text in [
            "<internal>XX</internal>one <internal>XX</internal>two",
            "one<message to=\"there\">XX</message>two<message to=\"here\">three</message>",
            "<message to=\"there\">X<internal>X</message>X</internal>X</message>end",
            "<int<internal>X</internal>ernal>X</internal>end",
            "<message  to=\"there\" >ÜX</message> end",
        ] {
            let mut growing = UnfinishedText::default();
            for piece in text.chars() {
                growing.push(&piece.to_string());
                let shown = growing.show(|name| name == "here");
                assert!(!shown.contains('X'), "{shown:?} of {text:?}");
            }
            assert!(!growing.show(|name| name == "here").is_empty(), "{text}");
        }
    }

    #[test]
    fn the_end_of_a_long_text_is_shown_and_no_text_grows_for_ever() {
        let mut text = UnfinishedText::default();
        text.push(&format!("begin{}", "ü".repeat(WRITING_CHARS)));
        assert_eq!(text.show(|_| false), "ü".repeat(WRITING_CHARS));
        text.push(&"a".repeat(BYTES_MAX));
        assert!(!text.is_new() && text.text.len() < BYTES_MAX);
        text.clear();
        assert!(text.is_new());
        assert_eq!(text.show(|_| false), "");
        text.clear();
        assert!(!text.is_new(), "it was empty already");
    }
}
