//! JSON as in claw's files: numbers keep their spelling, keys are sorted, and there is one output format.
//!
//! The parser accepts RFC 8259 and two extensions: a trailing comma in a list or an object, and control characters in
//! strings, because programs that write these files accept them as well. An unpaired surrogate becomes U+FFFD, because
//! no text can contain it.

use hearth_json::{Dialect, Form, Nesting, Numbers, Problem, Rules};

/// Maximum nesting of objects and lists.
const DEPTH_MAX: usize = 128;

const RULES: Rules =
    Rules { dialect: Dialect::Lenient, nesting: Nesting::Containers(DEPTH_MAX), numbers: Numbers::AsWritten };

pub(super) type Json = hearth_json::Json<String>;
/// Fields of an object. Of duplicate keys the last one counts.
pub(super) type Fields = hearth_json::Object<String>;

/// Why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadJson {
    /// It is truncated.
    #[error("it ends too early")]
    Early,
    /// It continues after the value.
    #[error("there is text after its end")]
    Trailing,
    /// Another error, with its offset in bytes.
    #[error("{what} at byte {at}")]
    Wrong { what: &'static str, at: usize },
}

/// Parses one value.
pub(super) fn parse(text: &str) -> Result<Json, BadJson> {
    hearth_json::parse(text, RULES).map_err(|bad| {
        let rest = text.get(bad.at..).unwrap_or_default();
        let Some(faulty) = rest.chars().next() else { return BadJson::Early };
        let behind = bad.at + faulty.len_utf8();
        let (what, at) = match bad.problem {
            Problem::Trailing => return BadJson::Trailing,
            Problem::Value => match ["true", "false", "null"].into_iter().find(|word| word.starts_with(faulty)) {
                Some(word) if word.starts_with(rest) => return BadJson::Early,
                Some(_) => ("an unknown word", bad.at),
                None => ("no value begins like this", bad.at),
            },
            Problem::Digit => ("a digit was expected", bad.at),
            Problem::Name => ("a key was expected", bad.at),
            Problem::Colon => ("a colon was expected", behind),
            Problem::Comma => ("a comma or the end was expected", behind),
            Problem::Endless { .. } | Problem::Control => ("an unknown character in a text", bad.at),
            Problem::Escape => ("an unknown escape", behind),
            Problem::Unicode { .. } => ("four hexadecimal digits were expected", behind),
            Problem::TooDeep => ("nested too deeply", bad.at),
        };
        BadJson::Wrong { what, at }
    })
}

/// Writes a value without spaces, with keys sorted by their bytes.
pub(super) fn write(value: &Json) -> String {
    hearth_json::write(value, Form::Canonical)
}

/// A non-negative integer, in any notation.
pub(super) fn whole(value: &Json) -> Option<u64> {
    if let Json::Number(number) = value { number.whole() } else { None }
}

/// An integer in its usual notation.
pub(super) fn of_whole(number: u64) -> Json {
    Json::Number(number.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        parse(text).map_or_else(|bad| bad.to_string(), |json| write(&json))
    }

    #[test]
    fn values_are_written_in_one_form() {
        for (text, written) in [
            (r#" { "b" : 1 , "a" : [ true , null ] } "#, r#"{"a":[true,null],"b":1}"#),
            (r#""\ud83e\udd9e""#, "\"🦞\""),
            (r#""\u00e9\u2028""#, "\"é\u{2028}\""),
            ("\"a\\u007f\\u0080\\u009f\\u0001\"", "\"a\\u007f\\u0080\\u009f\\u0001\""),
            (r#""\ud800x\udc00""#, "\"\u{fffd}x\u{fffd}\""),
            (r#""\ud800\ud83e\udd9e""#, "\"\u{fffd}🦞\""),
            (r#"{"a":1,"a":2,}"#, r#"{"a":2}"#),
            ("[1.50,-0,1e-3,123456789012345678901234567890]", "[1.50,-0,1e-3,123456789012345678901234567890]"),
            (r#""\/\b\f""#, r#""/\b\f""#),
            ("", "it ends too early"),
            ("{\"a\":tr", "it ends too early"),
            ("\"\\u12", "it ends too early"),
            ("{} {}", "there is text after its end"),
            ("[1,,2]", "no value begins like this at byte 3"),
            ("01", "there is text after its end"),
            ("1.", "it ends too early"),
            ("nil", "an unknown word at byte 0"),
            ("{1:2}", "a key was expected at byte 1"),
        ] {
            assert_eq!(again(text), written, "{text}");
        }
        assert!(again(&"[".repeat(200)).starts_with("nested too deeply"));
    }

    #[test]
    fn whole_numbers_may_be_written_in_any_way() {
        for (text, number) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("1e3", Some(1_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("-1", None),
            ("1.5", None),
            ("1e300", None),
            ("\"7\"", None),
        ] {
            assert_eq!(whole(&parse(text).unwrap()), number, "{text}");
        }
    }
}
