//! JSON as Python reads and writes it. What is kept of a value is its text in the form in which the file has it: ASCII, two
//! spaces, numbers exact. That takes in what stricter readers refuse and other programs write: `NaN`, halves of surrogate
//! pairs, numbers of any size, deep nesting.

use crate::model::group::push_unit;

/// Deeper nesting is refused, as Python does.
const DEPTH_MAX: usize = 960;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Names, as they stand between the quotes, and values; a name twice has its last value at its first place.
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    /// A text, as it stands between the quotes.
    Text(String),
    /// A number or a word, as it stands.
    Plain(String),
}

/// Why a text is no JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub(super) struct Bad {
    line: usize,
    column: usize,
    what: &'static str,
}

/// Reads a text.
pub(super) fn parse(text: &str) -> Result<Value, Bad> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.blank().and_then(|()| reader.value(0)).and_then(|value| {
        reader.blank()?;
        if reader.rest().is_empty() { Ok(value) } else { Err("there is something after the end") }
    });
    value.map_err(|what| {
        let before = text.get(..reader.at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
        Bad { line, column, what }
    })
}

impl Value {
    /// What kind of value it is, for people.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Object(_) => "object",
            Self::Array(_) => "list",
            Self::Text(_) => "text",
            Self::Plain(_) => "number or word",
        }
    }

    /// A value of an object.
    pub(super) fn get(&self, wanted: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value),
            _ => None,
        }
    }

    /// As the file has it. None if it would be longer than `max` bytes.
    pub(super) fn text(&self, max: usize) -> Option<String> {
        let mut out = String::new();
        self.write(&mut out, 0, max)?;
        Some(out)
    }

    fn write(&self, out: &mut String, depth: usize, max: usize) -> Option<()> {
        match self {
            Self::Text(text) => {
                out.push('"');
                out.push_str(text);
                out.push('"');
            }
            Self::Plain(plain) => out.push_str(plain),
            Self::Array(items) => {
                out.push('[');
                for (place, item) in items.iter().enumerate() {
                    begin_line(out, place, depth + 1);
                    item.write(out, depth + 1, max)?;
                }
                end_line(out, items.len(), depth);
                out.push(']');
            }
            Self::Object(fields) => {
                out.push('{');
                for (place, (name, value)) in fields.iter().enumerate() {
                    begin_line(out, place, depth + 1);
                    out.push('"');
                    out.push_str(name);
                    out.push_str("\": ");
                    value.write(out, depth + 1, max)?;
                }
                end_line(out, fields.len(), depth);
                out.push('}');
            }
        }
        (out.len() <= max).then_some(())
    }
}

fn begin_line(out: &mut String, place: usize, depth: usize) {
    out.push_str(if place > 0 { ",\n" } else { "\n" });
    out.extend(std::iter::repeat_n("  ", depth));
}

fn end_line(out: &mut String, items: usize, depth: usize) {
    if items > 0 {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

type Step<T> = Result<T, &'static str>;

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        if there {
            self.at += wanted.len_utf8();
        }
        there
    }

    fn blank(&mut self) -> Step<()> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Step<Value> {
        if depth > DEPTH_MAX {
            return Err("it is nested too deeply");
        }
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"') => self.string().map(Value::Text),
            Some('-' | '0'..='9') if !self.rest().starts_with("-Infinity") => self.number().map(Value::Plain),
            Some(_) => self.word(),
            None => Err("a value is missing"),
        }
    }

    fn word(&mut self) -> Step<Value> {
        for word in ["null", "true", "false", "NaN", "Infinity", "-Infinity"] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(Value::Plain(word.to_owned()));
            }
        }
        Err("a value is missing")
    }

    fn object(&mut self, depth: usize) -> Step<Value> {
        let mut fields = Fields::default();
        self.eat('{');
        self.blank()?;
        if self.eat('}') {
            return Ok(Value::Object(Vec::new()));
        }
        loop {
            if self.peek() != Some('"') {
                return Err("a name in double quotes is missing");
            }
            let name = self.string()?;
            self.blank()?;
            if !self.eat(':') {
                return Err("a colon is missing");
            }
            self.blank()?;
            let value = self.value(depth + 1)?;
            fields.put(name, value);
            self.blank()?;
            if self.eat('}') {
                return Ok(Value::Object(fields.all));
            }
            if !self.eat(',') {
                return Err("a comma is missing");
            }
            self.blank()?;
        }
    }

    fn array(&mut self, depth: usize) -> Step<Value> {
        let mut items = Vec::new();
        self.eat('[');
        self.blank()?;
        if self.eat(']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blank()?;
            if self.eat(']') {
                return Ok(Value::Array(items));
            }
            if !self.eat(',') {
                return Err("a comma is missing");
            }
            self.blank()?;
        }
    }

    fn string(&mut self) -> Step<String> {
        let mut escaped = String::new();
        self.eat('"');
        loop {
            let Some(c) = self.peek() else { return Err("a text has no end") };
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(escaped);
                }
                '\\' => {
                    self.at += 1;
                    let unit = self.escape()?;
                    push_unit(&mut escaped, unit);
                }
                c if u32::from(c) < 0x20 => return Err("there is a control character in a text"),
                c => {
                    self.at += c.len_utf8();
                    c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| push_unit(&mut escaped, *unit));
                }
            }
        }
    }

    fn escape(&mut self) -> Step<u16> {
        let Some(c) = self.peek() else { return Err("a text has no end") };
        let unit = match c {
            '"' | '\\' | '/' => u16::try_from(u32::from(c)).unwrap_or_default(),
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'u' => {
                let digits = self.rest().get(1..5).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
                let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
                self.at += 4;
                unit.ok_or("an escape is invalid")?
            }
            _ => return Err("an escape is invalid"),
        };
        self.at += 1;
        Ok(unit)
    }

    fn number(&mut self) -> Step<String> {
        let rest = self.rest();
        let mut length = usize::from(rest.starts_with('-'));
        let digits = |from: usize| rest.get(from..).unwrap_or_default().bytes().take_while(u8::is_ascii_digit).count();
        let whole = match digits(length) {
            0 => return Err("a number has no digits"),
            // What follows a zero is not part of the number, and so a fault.
            _ if rest.get(length..).is_some_and(|rest| rest.starts_with('0')) => 1,
            many => many,
        };
        length += whole;
        let mut exact = true;
        if rest.get(length..).is_some_and(|rest| rest.starts_with('.')) && digits(length + 1) > 0 {
            length += 1 + digits(length + 1);
            exact = false;
        }
        if rest.get(length..).is_some_and(|rest| rest.starts_with(['e', 'E'])) {
            let signed = rest.get(length + 1..).is_some_and(|rest| rest.starts_with(['+', '-']));
            let first = length + 1 + usize::from(signed);
            if digits(first) > 0 {
                length = first + digits(first);
                exact = false;
            }
        }
        let number = rest.get(..length).unwrap_or_default();
        self.at += length;
        match (exact, number) {
            (true, "-0") => Ok("0".to_owned()),
            (true, number) => Ok(number.to_owned()),
            (false, number) => number.parse().map(float).map_err(|_| "a number is invalid"),
        }
    }
}

/// Fields in order; objects of many are looked up by name.
#[derive(Default)]
struct Fields {
    all: Vec<(String, Value)>,
    places: std::collections::HashMap<String, usize>,
}

impl Fields {
    fn put(&mut self, name: String, value: Value) {
        let known = self.places.get(&name).and_then(|place| self.all.get_mut(*place));
        match known {
            Some(there) => there.1 = value,
            None => {
                self.places.insert(name.clone(), self.all.len());
                self.all.push((name, value));
            }
        }
    }
}

/// The shortest text that means this number, as Python writes it.
fn float(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let shortest = format!("{number:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..16 => {
            let plain = number.to_string();
            if plain.contains('.') { plain } else { plain + ".0" }
        }
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.11 writes of what it reads.
    #[test]
    fn values_are_written_as_python_writes_them() {
        let deep = format!("{}{}", "[".repeat(900), "]".repeat(900));
        for (read, written) in [
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
            assert_eq!(parse(read).unwrap().text(usize::MAX).as_deref(), Some(written), "{read}");
            assert_eq!(parse(written).unwrap(), parse(read).unwrap(), "{read}");
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
        assert!(value.text(1_000_000).is_none());
        assert!(value.text(2_000_000).is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_in_the_way(text in "[\\[\\]{}\",:0-9eE.\\\\u\\-+ a-f]{0,40}") {
            if let Ok(value) = parse(&text) {
                let written = value.text(usize::MAX).unwrap();
                assert_eq!(parse(&written).unwrap().text(usize::MAX).unwrap(), written);
            }
        }
    }
}
