//! What the gateway reads of a request's body, and the one thing that it adds. Pure.

use axum::body::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::refusal::Refusal;
use crate::model::gateway::Operation;

/// Makes a server of OpenAI's API count the tokens of a stream.
const COUNT: &[u8] = br#""stream_options":{"include_usage":true},"#;

/// The fields that matter. A field that occurs twice is an error, because two readers could see two models.
#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<IgnoredAny>,
}

/// A body that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prepared {
    pub(super) bytes: Bytes,
    pub(super) model: Option<String>,
    /// Whether the server was asked to count tokens, which the agent's program did not ask for.
    pub(super) counts: bool,
}

/// Parses a body. Its text stays unchanged, because servers cache by it; only a missing option is inserted.
pub(super) fn prepare(operation: Operation, bytes: Bytes) -> Result<Prepared, Refusal> {
    if operation == Operation::Models {
        return match bytes.is_empty() {
            true => Ok(Prepared { bytes, model: None, counts: false }),
            false => Err(Refusal::Form("this request has no body")),
        };
    }
    let wrong = |what: &str| Refusal::Body(what.to_owned());
    let text = bytes.trim_ascii_start();
    if !text.starts_with(b"{") {
        return Err(wrong("it does not begin with a brace"));
    }
    let fields: Fields = serde_json::from_slice(text).map_err(|error| Refusal::Body(error.to_string()))?;
    let counts = operation == Operation::Chat && fields.stream == Some(true) && fields.stream_options.is_none();
    let bytes = match text.split_first() {
        Some((brace, rest)) if counts => Bytes::from([&[*brace], COUNT, rest].concat()),
        _ => bytes,
    };
    Ok(Prepared { bytes, model: fields.model, counts })
}

/// Whether an agent may use a model. An empty list allows all.
pub(super) fn check_model(asked: Option<&str>, allowed: &[String]) -> Result<(), Refusal> {
    let asked = asked.unwrap_or_default();
    if allowed.is_empty() || allowed.iter().any(|model| model == asked) {
        return Ok(());
    }
    Err(Refusal::Model { asked: asked.chars().take(200).collect(), allowed: allowed.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(operation: Operation, text: &str) -> Result<Prepared, Refusal> {
        prepare(operation, Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn the_model_is_read_and_the_text_stays() {
        let text = r#" {"z": 1, "model": "m", "a": {"model": "no"}}"#;
        let found = prepared(Operation::Messages, text).unwrap();
        assert_eq!((found.model.as_deref(), &found.bytes[..], found.counts), (Some("m"), text.as_bytes(), false));
        assert_eq!(prepared(Operation::Generate, "{}").unwrap().model, None);
    }

    #[test]
    fn a_body_that_two_readers_could_understand_differently_is_refused() {
        for text in [
            r#"{"model":"a","model":"b"}"#,
            r#"{"model":"a","mod\u0065l":"b"}"#,
            r#"{"model":["a"]}"#,
            r#"["model"]"#,
            r#"{"model":"a"} {"model":"b"}"#,
            r#"{"model":"a""#,
            "",
            "\u{feff}{}",
        ] {
            assert!(matches!(prepared(Operation::Messages, text), Err(Refusal::Body(_))), "{text}");
        }
        assert!(prepared(Operation::Models, "x").is_err());
        assert!(prepared(Operation::Models, "").is_ok());
    }

    #[test]
    fn a_stream_of_chat_is_counted_if_the_program_did_not_say() {
        let found = prepared(Operation::Chat, r#"{"model":"m","stream":true}"#).unwrap();
        assert!(found.counts);
        let body: serde_json::Value = serde_json::from_slice(&found.bytes).unwrap();
        assert_eq!(body, serde_json::json!({"model":"m","stream":true,"stream_options":{"include_usage":true}}));
        for said in [r#"{"stream":true,"stream_options":{"include_usage":false}}"#, r#"{"stream":false}"#, "{}"] {
            let found = prepared(Operation::Chat, said).unwrap();
            assert!(!found.counts && found.bytes == said.as_bytes(), "{said}");
        }
        assert!(!prepared(Operation::Messages, r#"{"stream":true}"#).unwrap().counts);
    }

    #[test]
    fn models_that_are_not_listed_are_refused_with_the_list() {
        let list = ["a".to_owned(), "b".to_owned()];
        assert_eq!(check_model(Some("a"), &list), Ok(()));
        assert_eq!(check_model(None, &[]), Ok(()));
        let refused = check_model(Some("c"), &list).unwrap_err().to_string();
        assert_eq!(refused, "this agent may not use the model c; it may use a, b");
        assert!(check_model(None, &list).is_err());
    }
}
