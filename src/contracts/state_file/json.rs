//! JSON as Python reads and writes it. Values are kept as text in the file's format: ASCII, two spaces of indentation,
//! exact numbers. That accepts what stricter parsers reject and other programs write: `NaN`, unpaired surrogates,
//! numbers of any size, deep nesting.

use hearth_json::{Dialect, Form, Nesting, Numbers, Position, Problem, Rules, Text};

/// Nesting limit, the same as Python's.
const DEPTH_MAX: usize = 960;

const RULES: Rules =
    Rules { dialect: Dialect::Python, nesting: Nesting::Around(DEPTH_MAX), numbers: Numbers::AsPython };

pub(super) type Value = hearth_json::Json<Text>;
/// Members of an object, in order.
pub(super) type Fields = hearth_json::Object<Text>;

/// Why a text is not JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {what}", at.line, at.column)]
pub(super) struct Bad {
    at: Position,
    what: &'static str,
}

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Value, Bad> {
    hearth_json::parse(text, RULES).map_err(|bad| {
        let is_number = text.get(bad.at..).is_some_and(|rest| rest.starts_with('-'));
        let (what, at) = match bad.problem {
            Problem::Value | Problem::Digit if is_number => ("a number has no digits", bad.at),
            Problem::Value | Problem::Digit => ("a value is missing", bad.at),
            Problem::Name => ("a name in double quotes is missing", bad.at),
            Problem::Colon => ("a colon is missing", bad.at),
            Problem::Comma => ("a comma is missing", bad.at),
            Problem::Trailing => ("there is something after the end", bad.at),
            Problem::Endless { .. } => ("a text has no end", bad.at),
            Problem::Control => ("there is a control character in a text", bad.at),
            Problem::Escape => ("an escape is invalid", bad.at),
            // Position after the expected digits.
            Problem::Unicode { letter } => ("an escape is invalid", letter + 4),
            Problem::TooDeep => ("it is nested too deeply", bad.at),
        };
        Bad { at: Position::of(text, at), what }
    })
}

/// The type of a value, for people.
pub(super) const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "list",
        Value::Text(_) => "text",
        Value::Null | Value::Bool(_) | Value::Number(_) => "number or word",
    }
}

/// A value in the file's format. `None` if that is longer than `max` bytes.
pub(super) fn written(value: &Value, max: usize) -> Option<String> {
    hearth_json::write_within(value, Form::Pretty, max)
}

/// A value on one line.
pub(super) fn line(value: &Value) -> String {
    hearth_json::write(value, Form::Line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.11 writes for what it reads.
    #[test]
    fn values_are_written_as_python_writes_them() {
        let deep = format!("{}{}", "[".repeat(900), "]".repeat(900));
        for (read, expected) in [
            ("{}", "{}"),
            (" [ ] ", "[]"),
            ("{\"b\":1,\"a\":[1,{}],\"b\":2}", "{\n  \"b\": 2,\n  \"a\": [\n    1,\n    {}\n  ]\n}"),
            ("\"\\u00E9é\\/\\u007f\u{7f}🦞\"", "\"\\u00e9\\u00e9/\\u007f\\u007f\\ud83e\\udd9e\""),
            ("\"\\ud83e\\udd9e \\ud800 \\\"\\\\ \\n\"", "\"\\ud83e\\udd9e \\ud800 \\\"\\\\ \\n\""),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("-0", "0"),
            ("1e5", "100000.0"),
            ("-0.0", "-0.0"),
            ("1E400", "Infinity"),
            ("1e16", "1e+16"),
            ("1.5e-7", "1.5e-07"),
            ("0.0001", "0.0001"),
            ("123456789.125", "123456789.125"),
            ("[NaN,Infinity,-Infinity,true,null]", "[\n  NaN,\n  Infinity,\n  -Infinity,\n  true,\n  null\n]"),
        ] {
            assert_eq!(written(&parse(read).unwrap(), usize::MAX).as_deref(), Some(expected), "{read}");
            assert_eq!(parse(expected).unwrap(), parse(read).unwrap(), "{read}");
        }
        assert!(parse(&deep).is_ok());
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        let deep = "[".repeat(100_000);
        for (text, place) in [
            ("", "line 1, column 1"),
            ("{\"a\": 1", "line 1, column 8"),
            ("{\"a\": 1}\nx", "line 2, column 1"),
            ("\u{feff}{}", "line 1, column 1"),
            ("{'a': 1}", "line 1, column 2"),
            ("{\"a\" 1}", "line 1, column 6"),
            ("[1,]", "line 1, column 4"),
            ("\"a\nb\"", "line 1, column 3"),
            ("\"\\x\"", "line 1, column 3"),
            ("\"\\u12\"", "line 1"),
            ("\"\\u", "line 1"),
            ("01", "line 1, column 2"),
            ("1.", "line 1, column 2"),
            ("-", "line 1, column 1"),
            ("nul", "line 1, column 1"),
            ("\u{a0}1", "line 1, column 1"),
            (deep.as_str(), "line 1, column 962"),
        ] {
            let bad = parse(text).unwrap_err().to_string();
            assert!(bad.starts_with(place), "{}: {bad}", text.get(..20).unwrap_or(text));
        }
    }

    #[test]
    fn what_would_become_too_long_is_not_written() {
        let value = parse(&format!("{}1{}", "[".repeat(900), "]".repeat(900))).unwrap();
        assert!(written(&value, 1_000_000).is_none());
        assert!(written(&value, 2_000_000).is_some());
    }

    proptest::proptest! {
        /// The host's field names equal those that it reads from the file.
        #[test]
        fn a_name_has_one_escaped_form(name in "(?s).{0,20}") {
            assert_eq!(crate::model::group::FieldName::of(&name).as_str(), Text::new(&name).as_escaped());
        }

        #[test]
        fn no_text_is_in_the_way(text in "[\\[\\]{}\",:0-9eE.\\\\u\\-+ a-f]{0,40}") {
            if let Ok(value) = parse(&text) {
                let text = written(&value, usize::MAX).unwrap();
                assert_eq!(written(&parse(&text).unwrap(), usize::MAX).unwrap(), text);
            }
        }
    }
}
