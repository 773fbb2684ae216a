//! What goes in comes out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::*;

#[test]
fn what_goes_in_comes_out() {
    for (input, output) in [
        ("null", "null"),
        (" [ 1 , 2 ] ", "[1, 2]"),
        ("{}", "{}"),
        ("[]", "[]"),
        (r#"{"b":1,"a":{"z":[],"y":{}}}"#, r#"{"b": 1, "a": {"z": [], "y": {}}}"#),
        // The last of several counts, where the first stands.
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"a": 3, "b": 2}"#),
        (r#"{"a":1,"\u0061":2}"#, r#"{"a": 2}"#),
        // Numbers stay as they are written.
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("[-0.0, 1e5, 1E+2, 0.10, -7]", "[-0.0, 1e5, 1E+2, 0.10, -7]"),
        ("[NaN, Infinity, -Infinity]", "[NaN, Infinity, -Infinity]"),
        // Texts are ASCII, in one form.
        ("\"\u{e4}\u{1f600}\u{7f}\"", r#""\u00e4\ud83d\ude00\u007f""#),
        (r#""\uD83D\uDE00""#, r#""\ud83d\ude00""#),
        (r#""\ud800""#, r#""\ud800""#),
        (r#""\udc00\ud800x""#, r#""\udc00\ud800x""#),
        (r#""\/\b\f\n\r\t\"\\\u001F""#, r#""/\b\f\n\r\t\"\\\u001f""#),
    ] {
        let value = parse(input).unwrap();
        assert_eq!(line(&value), output, "{input}");
        assert_eq!(parse(output).unwrap(), value, "{input}");
        assert_eq!(parse(&pretty(&value)).unwrap(), value, "{input}");
    }
}

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

#[test]
fn nesting_has_a_bound_and_is_not_called_malformed() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deep = parse(&nested(DEPTH_MAX)).unwrap();
    assert_eq!(line(&deep), nested(DEPTH_MAX));
    assert_eq!(parse(&nested(DEPTH_MAX + 1)), Err(BadJson::TooDeep));
    assert_eq!(parse(&"{\"a\":".repeat(100_000)), Err(BadJson::TooDeep));
}

#[test]
fn files_are_indented_by_two() {
    let value = parse(r#"{"a":{"b":[1,{}],"c":[]}}"#).unwrap();
    let text = "{\n  \"a\": {\n    \"b\": [\n      1,\n      {}\n    ],\n    \"c\": []\n  }\n}";
    assert_eq!(pretty(&value), text);
}

#[test]
fn texts_are_looked_into() {
    assert_eq!(Text::new("\u{e4}\u{1f600}\n").shown(), "\u{e4}\u{1f600}\n");
    let Json::Text(half) = parse(r#""a\ud800""#).unwrap() else { panic!() };
    assert_eq!(half.shown(), "a\u{fffd}");
    let strange = Text::of_system(OsStr::from_bytes(b"a\xff\xc3\xa4"));
    assert_eq!(line(&Json::Text(strange)), r#""a\udcff\u00e4""#);
}

#[test]
fn members_are_changed_in_their_place() {
    let Json::Object(mut object) = parse(r#"{"a":1,"b":[2],"c":3}"#).unwrap() else { panic!() };
    object.set("a", Json::Null);
    object.set("d", Json::integer(4));
    assert_eq!(object.remove(&Text::new("c")), Some(Json::integer(3)));
    let (inner, was) = object.object_mut("b");
    inner.unwrap().set("x", Json::float(2.0));
    assert_eq!(was, Some(Json::Array(vec![Json::integer(2)])));
    assert_eq!(line(&Json::Object(object)), r#"{"a": null, "b": {"x": 2.0}, "d": 4}"#);
}

#[test]
fn numbers_are_compared_without_losing_digits() {
    for (text, exceeds) in [
        ("0", false),
        ("1", false),
        ("1.0", false),
        ("2", true),
        ("1.5", true),
        ("1e3", true),
        ("99999999999999999999999", true),
        ("-99999999999999999999999", false),
        ("NaN", false),
        ("Infinity", true),
        ("-Infinity", false),
    ] {
        let Json::Number(number) = parse(text).unwrap() else { panic!() };
        assert_eq!(number.exceeds(1), exceeds, "{text}");
    }
}
