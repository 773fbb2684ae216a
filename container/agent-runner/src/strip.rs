//! Removes an agent's internal text from its output. Pure.

use serde_json::Value;

const BEGIN: &str = "<internal>";
const END: &str = "</internal>";

/// Removes `<internal>…</internal>` and trims the text. The first closing tag ends a block, even if other tags were
/// opened in it. A tag that is not closed or is misspelled is ordinary text. The result contains no such block, even if
/// a removal joins the pieces of another one.
pub fn strip_internal(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once('>') {
        let (piece, after) = rest.split_at_checked(rest.len() - behind.len()).unwrap_or((rest, ""));
        kept.push_str(piece);
        rest = after;
        if !kept.ends_with(BEGIN) {
            continue;
        }
        let Some((_, behind)) = rest.split_once(END) else { break };
        kept.truncate(kept.len() - BEGIN.len());
        rest = behind;
    }
    kept.push_str(rest);
    kept.trim().to_owned()
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
