//! Removes an agent's internal text from its output. Pure.

use serde_json::Value;

const BEGIN: &str = "<internal>";
const END: &str = "</internal>";

/// Removes `<internal>…</internal>` and trims the text. The first closing tag ends a block, even if other tags were
/// opened in it. A tag that is not closed or is misspelled is ordinary text. The result contains no such block, even if
/// a removal joins the pieces of another one.
pub fn strip_internal(text: &str) -> String {
    let (mut kept, open) = without_blocks(text);
    if let Some(open) = open {
        kept.push_str(BEGIN);
        kept.push_str(open);
    }
    kept.trim().to_owned()
}

/// Does the same for a text that is not complete: without a block that is still open, and without what may become the
/// beginning of one.
pub(crate) fn strip_unfinished(text: &str) -> String {
    let (mut kept, _) = without_blocks(text);
    let begun = (1..BEGIN.len()).rev().find(|len| BEGIN.get(..*len).is_some_and(|begun| kept.ends_with(begun)));
    kept.truncate(kept.len() - begun.unwrap_or(0));
    kept
}

/// The text without closed blocks up to the first one that is not closed, and the content of that one.
fn without_blocks(text: &str) -> (String, Option<&str>) {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('>') {
        let (piece, after) = rest.split_at_checked(rest.len() - behind.len()).unwrap_or((rest, ""));
        kept.push_str(piece);
        rest = after;
        if !kept.ends_with(BEGIN) {
            continue;
        }
        kept.truncate(kept.len() - BEGIN.len());
        let Some((_, behind)) = rest.split_once(END) else { return (kept, Some(rest)) };
        rest = behind;
    }
    kept.push_str(rest);
    (kept, None)
}

/// Does the same for every string of a payload that contains such blocks.
pub(crate) fn strip_payload(payload: &mut Value) {
    match payload {
        Value::String(text) if text.contains(BEGIN) => *text = strip_internal(text),
        Value::Array(items) => items.iter_mut().for_each(strip_payload),
        Value::Object(fields) => fields.values_mut().for_each(strip_payload),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn payloads_are_cleaned_wherever_they_have_texts() {
        let mut card = json!({"title": "a <internal>x</internal>", "n": 1, "pad": " p ",
            "children": ["<internal>y</internal>", {"text": "<internal>z</internal>b"}]});
        strip_payload(&mut card);
        assert_eq!(card, json!({"title": "a", "n": 1, "pad": " p ", "children": ["", {"text": "b"}]}));
    }

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
            ("a<int<internal>b</internal>ernal>c</internal>d", "ad"),
            ("<int<internal></internal>ernal>open", "<internal>open"),
        ] {
            assert_eq!(strip_internal(text), expected, "{text}");
            assert_eq!(strip_internal(expected), expected, "again: {text}");
        }
    }
}
