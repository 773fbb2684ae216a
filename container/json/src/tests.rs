//! Parsing and writing preserves the text, for each user of this crate.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::*;

type Value = Json<Text>;

const DEPTH_MAX: usize = 1000;
const PYTHON: Rules =
    Rules { dialect: Dialect::Python, nesting: Nesting::Containers(DEPTH_MAX), numbers: Numbers::AsWritten };

const LENIENT: Rules =
    Rules { dialect: Dialect::Lenient, nesting: Nesting::Containers(DEPTH_MAX), numbers: Numbers::AsWritten };

fn read(text: &str) -> Result<Value, BadJson> {
    parse(text, PYTHON)
}

fn line(value: &Value) -> String {
    write(value, Form::Line)
}

fn pretty(value: &Value) -> String {
    write(value, Form::Pretty)
}

#[test]
fn what_goes_in_comes_out() {
    for (input, output) in [
        ("null", "null"),
        (" [ 1 , 2 ] ", "[1, 2]"),
        ("{}", "{}"),
        ("[]", "[]"),
        (r#"{"b":1,"a":{"z":[],"y":{}}}"#, r#"{"b": 1, "a": {"z": [], "y": {}}}"#),
        // The last of several equal names counts, at the position of the first.
        (r#"{"a":1,"b":2,"a":3}"#, r#"{"a": 3, "b": 2}"#),
        (r#"{"a":1,"\u0061":2}"#, r#"{"a": 2}"#),
        // Numbers keep their spelling.
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("[-0.0, 1e5, 1E+2, 0.10, -7]", "[-0.0, 1e5, 1E+2, 0.10, -7]"),
        ("[NaN, Infinity, -Infinity]", "[NaN, Infinity, -Infinity]"),
        // Texts are written as ASCII, in a unique form.
        ("\"\u{e4}\u{1f600}\u{7f}\"", r#""\u00e4\ud83d\ude00\u007f""#),
        (r#""\uD83D\uDE00""#, r#""\ud83d\ude00""#),
        (r#""\ud800""#, r#""\ud800""#),
        (r#""\udc00\ud800x""#, r#""\udc00\ud800x""#),
        (r#""\/\b\f\n\r\t\"\\\u001F""#, r#""/\b\f\n\r\t\"\\\u001f""#),
    ] {
        let value = read(input).unwrap();
        assert_eq!(line(&value), output, "{input}");
        assert_eq!(read(output).unwrap(), value, "{input}");
        assert_eq!(read(&pretty(&value)).unwrap(), value, "{input}");
    }
}

#[test]
fn nesting_has_a_bound_and_is_not_called_malformed() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deep = read(&nested(DEPTH_MAX)).unwrap();
    assert_eq!(line(&deep), nested(DEPTH_MAX));
    let too_deep = |at| BadJson { problem: Problem::TooDeep, at };
    assert_eq!(read(&nested(DEPTH_MAX + 1)), Err(too_deep(DEPTH_MAX)));
    assert_eq!(read(&"{\"a\":".repeat(100_000)), Err(too_deep(5 * DEPTH_MAX)));
    // The other limit also counts values that are neither arrays nor objects.
    let around = |text: &str| parse::<Text>(text, Rules { nesting: Nesting::Around(2), ..PYTHON }).err();
    assert_eq!([around("[[[]]]"), around("[[1]]")], [None, None]);
    assert_eq!([around("[[[1]]]"), around("[[[[]]]]")], [Some(too_deep(3)); 2]);
}

#[test]
fn files_are_indented_by_two() {
    let value = read(r#"{"a":{"b":[1,{}],"c":[]}}"#).unwrap();
    let text = "{\n  \"a\": {\n    \"b\": [\n      1,\n      {}\n    ],\n    \"c\": []\n  }\n}";
    assert_eq!(pretty(&value), text);
}

#[test]
fn texts_are_looked_into() {
    assert_eq!(Text::new("\u{e4}\u{1f600}\n").shown(), "\u{e4}\u{1f600}\n");
    let Json::Text(half) = read(r#""a\ud800""#).unwrap() else { panic!() };
    assert_eq!(half.shown(), "a\u{fffd}");
    let strange = Text::of_system(OsStr::from_bytes(b"a\xff\xc3\xa4"));
    assert_eq!(line(&Json::Text(strange)), r#""a\udcff\u00e4""#);
}

#[test]
fn members_are_changed_in_their_place() {
    let Json::Object(mut object) = read(r#"{"a":1,"b":[2],"c":3}"#).unwrap() else { panic!() };
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
        let Json::Number(number) = read(text).unwrap() else { panic!() };
        assert_eq!(number.exceeds(1), exceeds, "{text}");
    }
}

/// Each row has the first error of Python's dialect and of the lenient one.
#[test]
fn problems_are_found_where_they_are() {
    let found = |text: &str, rules| parse::<Text>(text, rules).err().map(|bad| (bad.problem, bad.at));
    let same = |problem, at| [Some((problem, at)); 2];
    for (text, expected) in [
        ("", same(Problem::Value, 0)),
        ("[1,nul]", same(Problem::Value, 3)),
        ("[,]", same(Problem::Value, 1)),
        ("{,}", same(Problem::Name, 1)),
        ("{1:2}", same(Problem::Name, 1)),
        ("{\"a\" 1}", same(Problem::Colon, 5)),
        ("[1 2]", same(Problem::Comma, 3)),
        ("[1", same(Problem::Comma, 2)),
        ("1 \u{e4}", same(Problem::Trailing, 2)),
        ("01", same(Problem::Trailing, 1)),
        ("[\"ab", same(Problem::Endless { begin: 1 }, 4)),
        ("[\"\\", same(Problem::Endless { begin: 1 }, 3)),
        ("\"\\x\"", same(Problem::Escape, 2)),
        ("\"\\u12\"", same(Problem::Unicode { letter: 2 }, 5)),
        ("\"\\ud800\\u+123\"", same(Problem::Unicode { letter: 8 }, 9)),
        ("-", [Some((Problem::Value, 0)), Some((Problem::Digit, 1))]),
        ("1.x", [Some((Problem::Trailing, 1)), Some((Problem::Digit, 2))]),
        ("[1.5e+]", [Some((Problem::Comma, 4)), Some((Problem::Digit, 6))]),
        ("[1,]", [Some((Problem::Value, 3)), None]),
        ("{\"a\":1 , }", [Some((Problem::Name, 9)), None]),
        ("[1,,]", same(Problem::Value, 3)),
        ("\"a\n\"", [Some((Problem::Control, 2)), None]),
        ("NaN", [None, Some((Problem::Value, 0))]),
        ("[-Infinity]", [None, Some((Problem::Digit, 2))]),
    ] {
        assert_eq!([found(text, PYTHON), found(text, LENIENT)], expected, "{text}");
    }
}

#[test]
fn positions_are_counted_in_characters() {
    let position = |at| Position::of("\u{e4}\n\u{e4}b", at);
    assert_eq!(position(0), Position { line: 1, column: 1, character: 0 });
    assert_eq!(position(5), Position { line: 2, column: 2, character: 3 });
    assert_eq!(position(4), position(6), "within a character");
    assert_eq!(position(99), position(6), "behind the end");
}

#[test]
fn one_canonical_text_stands_for_a_value() {
    for (input, output) in [
        (r#" { "b" : 1 , "a" : [ true , { } ] , "b" : 2.50 , } "#, r#"{"a":[true,{}],"b":2.50}"#),
        // Unpaired surrogates are replaced, also in names, which may become equal by that.
        (r#"{"\ud800":1,"\udc00":2}"#, "{\"\u{fffd}\":2}"),
        (r#""\ud83e\udd9e\ud83e""#, "\"\u{1f99e}\u{fffd}\""),
        ("\"\u{e4}\u{2028}\u{1}\u{7f}\u{9f}\n/\"", "\"\u{e4}\u{2028}\\u0001\\u007f\\u009f\\n/\""),
        // Names are sorted by their bytes.
        ("{\"\u{1f600}\":1,\"\u{ffff}\":2,\"a\":3,\"B\":4}", "{\"B\":4,\"a\":3,\"\u{ffff}\":2,\"\u{1f600}\":1}"),
    ] {
        let value: Json<String> = parse(input, LENIENT).unwrap();
        assert_eq!(write(&value, Form::Canonical), output, "{input}");
    }
}

#[test]
fn numbers_are_kept_as_python_writes_them() {
    for (input, output) in [
        ("[-0, 7, 123456789012345678901234567890]", "[0, 7, 123456789012345678901234567890]"),
        ("[1e5, 1e16, 1.5e-7, 0.0001, -0.0]", "[100000.0, 1e+16, 1.5e-07, 0.0001, -0.0]"),
        ("[1E400, -1e400, NaN, -Infinity]", "[Infinity, -Infinity, NaN, -Infinity]"),
    ] {
        let value: Value = parse(input, Rules { numbers: Numbers::AsPython, ..PYTHON }).unwrap();
        assert_eq!(line(&value), output, "{input}");
    }
}

#[test]
fn missing_members_are_added_at_any_depth() {
    let [mut known, more] = [r#"{"a":1,"b":{"x":1},"c":{"x":1}}"#, r#"{"d":4,"b":{"y":{"z":2},"x":9},"a":7,"c":3}"#]
        .map(|text| match read(text).unwrap() {
            Json::Object(object) => object,
            other => panic!("{other:?}"),
        });
    known.add_missing(more);
    assert_eq!(line(&Json::Object(known)), r#"{"a": 1, "b": {"x": 1, "y": {"z": 2}}, "c": {"x": 1}, "d": 4}"#);
}

#[test]
fn texts_that_are_too_long_are_not_written() {
    let deep = read(&format!("{}1{}", "[".repeat(900), "]".repeat(900))).unwrap();
    let length = pretty(&deep).len();
    assert_eq!(write_within(&deep, Form::Pretty, length - 1), None);
    assert_eq!(write_within(&deep, Form::Pretty, length), Some(pretty(&deep)));
}

/// Every parsed value is written in a form that gives the same value and the same text again.
fn settles<T: TextForm>(text: &str, rules: Rules, form: Form) -> bool {
    let Ok(value) = parse::<T>(text, rules) else { return false };
    let written = write(&value, form);
    let again = parse::<T>(&written, rules).unwrap_or_else(|bad| panic!("{bad:?}: {written:?} of {text:?}"));
    assert_eq!(write(&again, form), written, "{text:?}");
    assert!(form == Form::Canonical || again == value, "{text:?}");
    true
}

/// Parses a text with the rules of the runner, of the host's state files, and of claw's session files.
fn settles_for_each_user(text: &str) -> usize {
    let host = Rules { nesting: Nesting::Around(960), numbers: Numbers::AsPython, ..PYTHON };
    let claw = Rules { nesting: Nesting::Containers(128), ..LENIENT };
    let settled = [
        settles::<Text>(text, PYTHON, Form::Pretty),
        settles::<Text>(text, PYTHON, Form::Line),
        settles::<Text>(text, host, Form::Pretty),
        settles::<String>(text, claw, Form::Canonical),
    ];
    settled.into_iter().filter(|settled| *settled).count()
}

/// Inputs that the fuzzer found for one user are tried with the rules of all users: complete, line by line, and
/// truncated.
#[test]
fn what_the_fuzzer_found_is_read_for_each_user() {
    let mut settled = 0;
    for corpus in ["json", "session_state", "claw"] {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/corpus/").to_owned() + corpus;
        for file in std::fs::read_dir(&dir).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            let starts = text.char_indices().map(|(at, _)| &text[..at]).take(2_000);
            settled += starts.chain(text.lines()).chain([&*text]).map(settles_for_each_user).sum::<usize>();
        }
    }
    assert!(settled > 200, "{settled}");
}

proptest::proptest! {
    #[test]
    fn what_is_read_settles(text in "[\\[\\]{}\",:0-9eE.\\\\u\\-+ a-f\u{1f600}\n]{0,40}") {
        let _settled = settles_for_each_user(&text);
    }

    #[test]
    fn texts_come_back(text in "(?s).{0,20}", name in "(?s).{0,20}") {
        let value = Json::object([(name.as_str(), Json::text(&text))]);
        assert_eq!(read(&pretty(&value)).unwrap(), value);
        let value = Json::object([(name.as_str(), Json::text(&text))]);
        assert_eq!(parse::<String>(&write(&value, Form::Canonical), LENIENT).unwrap(), value);
        let escaped = Text::new(&text);
        assert!(escaped == *text.as_str() && escaped.shown() == text);
    }
}
