//! JSON of files that Python programs also read and write. Values keep their spelling, and errors have the wording of
//! Python's parser, which the users of those programs know.

use hearth_json::{Dialect, Form, Nesting, Numbers, Position, Problem, Rules};

pub(crate) use hearth_json::Text;

/// Nesting limit of arrays and objects.
pub(crate) const DEPTH_MAX: usize = 1000;

const RULES: Rules =
    Rules { dialect: Dialect::Python, nesting: Nesting::Containers(DEPTH_MAX), numbers: Numbers::AsWritten };

pub(crate) type Json = hearth_json::Json<Text>;
/// Members of an object, in order.
pub(crate) type Object = hearth_json::Object<Text>;

/// Why a text is not a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadJson {
    /// It is not JSON.
    #[error("{what}: line {} column {} (char {})", at.line, at.column, at.character)]
    Malformed {
        /// What is wrong.
        what: &'static str,
        at: Position,
    },
    /// Nested too deeply; it may be valid JSON.
    #[error("more than {DEPTH_MAX} levels of nesting")]
    TooDeep,
}

/// Parses exactly one value.
///
/// # Errors
/// What is wrong, and where.
pub(crate) fn parse(text: &str) -> Result<Json, BadJson> {
    hearth_json::parse(text, RULES).map_err(|bad| {
        // Python does not report the faulty character, but the beginning of its token.
        let (what, at) = match bad.problem {
            Problem::TooDeep => return BadJson::TooDeep,
            Problem::Value if text.starts_with('\u{feff}') => ("Unexpected UTF-8 BOM", bad.at),
            Problem::Value | Problem::Digit => ("Expecting value", bad.at),
            Problem::Name => ("Expecting property name enclosed in double quotes", bad.at),
            Problem::Colon => ("Expecting ':' delimiter", bad.at),
            Problem::Comma => ("Expecting ',' delimiter", bad.at),
            Problem::Trailing => ("Extra data", bad.at),
            Problem::Endless { begin } => ("Unterminated string starting at", begin),
            Problem::Control => ("Invalid control character at", bad.at),
            Problem::Escape => ("Invalid \\escape", bad.at.saturating_sub(1)),
            Problem::Unicode { letter } => ("Invalid \\uXXXX escape", letter),
        };
        BadJson::Malformed { what, at: Position::of(text, at) }
    })
}

/// Indented, ASCII only: the format of files.
pub(crate) fn pretty(value: &Json) -> String {
    hearth_json::write(value, Form::Pretty)
}

/// On one line, ASCII only: the format of standard output.
pub(crate) fn line(value: &Json) -> String {
    hearth_json::write(value, Form::Line)
}

/// The type of a value, in Python's terms.
pub(crate) fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "NoneType",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_integer() => "int",
        Json::Number(_) => "float",
        Json::Text(_) => "str",
        Json::Array(_) => "list",
        Json::Object(_) => "dict",
    }
}

/// Rewrites a JSON text in the format of files: indented, ASCII only, with members and digits unchanged.
///
/// # Errors
/// Why it is not JSON, and where.
pub fn rewritten(text: &str) -> Result<String, String> {
    parse(text).map(|value| pretty(&value)).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of Python's `json`, word by word.
    #[test]
    fn what_is_not_json_says_where() {
        for (input, message) in [
            ("", "Expecting value: line 1 column 1 (char 0)"),
            ("nope", "Expecting value: line 1 column 1 (char 0)"),
            ("-NaN", "Expecting value: line 1 column 1 (char 0)"),
            ("{\"a\": 1", "Expecting ',' delimiter: line 1 column 8 (char 7)"),
            ("{\n  \"\u{e4}\" 1}", "Expecting ':' delimiter: line 2 column 7 (char 8)"),
            ("{a: 1}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
            ("{\"a\": 1,}", "Expecting property name enclosed in double quotes: line 1 column 9 (char 8)"),
            ("[1,]", "Expecting value: line 1 column 4 (char 3)"),
            ("[1] x", "Extra data: line 1 column 5 (char 4)"),
            ("01", "Extra data: line 1 column 2 (char 1)"),
            ("1.", "Extra data: line 1 column 2 (char 1)"),
            ("1e", "Extra data: line 1 column 2 (char 1)"),
            ("\"a", "Unterminated string starting at: line 1 column 1 (char 0)"),
            ("\"a\\", "Unterminated string starting at: line 1 column 1 (char 0)"),
            ("\"a\nb\"", "Invalid control character at: line 1 column 3 (char 2)"),
            ("\"\\x\"", "Invalid \\escape: line 1 column 2 (char 1)"),
            ("\"\\u12\"", "Invalid \\uXXXX escape: line 1 column 3 (char 2)"),
            ("\"\\u+123\"", "Invalid \\uXXXX escape: line 1 column 3 (char 2)"),
            ("[\"x\", \"\\u00g0\"]", "Invalid \\uXXXX escape: line 1 column 9 (char 8)"),
            ("\u{feff}{}", "Unexpected UTF-8 BOM: line 1 column 1 (char 0)"),
        ] {
            assert_eq!(parse(input).unwrap_err().to_string(), message, "{input:?}");
        }
    }
}
