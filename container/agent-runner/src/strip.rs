//! Words that an agent says to nobody. Pure.

const BEGIN: &str = "<internal>";
const END: &str = "</internal>";

/// The text without `<internal>…</internal>`, trimmed. The first end closes a block, whatever was opened in it; a tag
/// that is not closed, or not written exactly so, is ordinary text.
pub(crate) fn strip_internal(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN)
        && let Some((_, behind)) = after.split_once(END)
    {
        kept.push_str(before);
        rest = behind;
    }
    kept.push_str(rest);
    kept.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_words_are_taken_out() {
        for (text, expected) in [
            ("hello <internal>secret</internal> world", "hello  world"),
            ("hello <internal>\nsecret\nstuff\n</internal> world", "hello  world"),
            ("<internal>a</internal>hello<internal>b</internal>", "hello"),
            ("<internal>only this</internal>", ""),
            ("hello world", "hello world"),
            ("<internal>thinking</internal>The answer is 42", "The answer is 42"),
            ("<INTERNAL>x</INTERNAL>y", "<INTERNAL>x</INTERNAL>y"),
            ("<internal>a<internal>b</internal>c</internal>", "c</internal>"),
            ("<internal>open only", "<internal>open only"),
            ("  pad  ", "pad"),
            ("<internal foo=\"1\">x</internal>", "<internal foo=\"1\">x</internal>"),
            ("", ""),
            ("a</internal>b<internal>c", "a</internal>b<internal>c"),
        ] {
            assert_eq!(strip_internal(text), expected, "{text}");
        }
    }
}
