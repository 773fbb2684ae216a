//! Writes the few JSON objects that the engine creates. It needs no JSON library: values come in as text, and what it
//! reads was already parsed at an edge.

use crate::model::content::RawJson;

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Field<'a> {
    Text(&'a str),
    Number(u64),
}

/// An object with these fields, in this order.
pub(crate) fn object(fields: &[(&str, Field<'_>)]) -> RawJson {
    let mut json = String::from("{");
    append(&mut json, fields);
    json.push('}');
    RawJson::trusted(json)
}

/// An object with these fields prepended. They must not repeat its own names.
pub(crate) fn with(fields: &[(&str, Field<'_>)], object: &RawJson) -> RawJson {
    let own = object.as_str().trim().strip_prefix('{').map(str::trim_start).unwrap_or("}");
    let mut json = String::with_capacity(own.len() + 64);
    json.push('{');
    append(&mut json, fields);
    if own != "}" && !fields.is_empty() {
        json.push(',');
    }
    json.push_str(own);
    RawJson::trusted(json)
}

fn append(json: &mut String, fields: &[(&str, Field<'_>)]) {
    for (place, (name, value)) in fields.iter().enumerate() {
        if place > 0 {
            json.push(',');
        }
        quote(json, name);
        json.push(':');
        match value {
            Field::Text(text) => quote(json, text),
            Field::Number(number) => json.push_str(&number.to_string()),
        }
    }
}

fn quote(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            c if c.is_control() => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use crate::rules::json::*;
    use serde_json::{Value, json};

    fn read(raw: &RawJson) -> Value {
        serde_json::from_str(raw.as_str()).unwrap()
    }

    #[test]
    fn objects_are_json_whatever_the_texts() {
        for text in ["plain", "a \"quoted\" \\ back", "line\nbreak\ttab\u{0}", "é😀\u{85}"] {
            let made = object(&[("text", Field::Text(text)), ("number", Field::Number(7))]);
            assert_eq!(read(&made), json!({"text": text, "number": 7}));
        }
        assert_eq!(read(&object(&[])), json!({}));
    }

    #[test]
    fn fields_are_put_before_those_of_an_object() {
        let sender = [("sender", Field::Text("main"))];
        for (own, whole) in [
            ("{}", json!({"sender": "main"})),
            ("{ }", json!({"sender": "main"})),
            (r#"{"text":"hi"}"#, json!({"sender": "main", "text": "hi"})),
        ] {
            assert_eq!(read(&with(&sender, &RawJson::trusted(own.to_owned()))), whole, "{own}");
        }
        assert_eq!(read(&with(&[], &RawJson::trusted(r#"{"a":1}"#.to_owned()))), json!({"a": 1}));
    }
}
