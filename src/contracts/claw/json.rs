//! JSON as these files have it: every number is kept as it was written, keys are sorted, and one form is written.
//!
//! What is read is RFC 8259, a little wider: one comma too many at the end of a list or an object and control characters
//! within texts are let through, since programs that write these files let them through as well. Half of a surrogate pair
//! becomes U+FFFD, because no text can have it.

use std::collections::BTreeMap;

/// Fields of an object; a key that came twice has its last value.
pub(super) type Fields = BTreeMap<String, Json>;

/// Objects and lists within each other.
const DEPTH_MAX: usize = 128;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Fields),
}

/// A text that is no JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadJson {
    /// It stops before its end.
    #[error("it ends too early")]
    Early,
    /// It goes on after its end.
    #[error("something comes after its end")]
    Trailing,
    /// Something else is wrong; where, in bytes from its beginning.
    #[error("{what} at byte {at}")]
    Wrong {
        /// What.
        what: &'static str,
        /// Where.
        at: usize,
    },
}

impl Json {
    /// Reads one value.
    pub(super) fn parse(text: &str) -> Result<Self, BadJson> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let value = parser.value()?;
        parser.blanks();
        if parser.at == text.len() { Ok(value) } else { Err(BadJson::Trailing) }
    }

    /// A whole number that is not negative, however it is written.
    pub(super) fn whole(&self) -> Option<u64> {
        let Self::Number(text) = self else { return None };
        let exact = || {
            let number: f64 = text.parse().ok()?;
            let safe = number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&number);
            safe.then(|| format!("{number:.0}").parse().ok()).flatten()
        };
        text.parse().ok().or_else(exact)
    }

    /// A whole number as it is written.
    pub(super) fn of_whole(number: u64) -> Self {
        Self::Number(number.to_string())
    }

    /// The text of a text.
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Changes every text in it; keys stay.
    pub(super) fn each_text(&mut self, change: &impl Fn(&str) -> String) {
        match self {
            Self::Text(text) => *text = change(text),
            Self::List(items) => items.iter_mut().for_each(|item| item.each_text(change)),
            Self::Object(fields) => fields.values_mut().for_each(|value| value.each_text(change)),
            Self::Null | Self::Bool(_) | Self::Number(_) => {}
        }
    }

    /// Writes it without blanks, keys in the order of their bytes.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(text) => out.push_str(text),
            Self::Text(text) => write_text(text, out),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(fields) => write_object(fields, out),
        }
    }

    /// What [`Self::write`] writes.
    pub(super) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

fn write_object(fields: &Fields, out: &mut String) {
    out.push('{');
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(key, out);
        out.push(':');
        value.write(out);
    }
    out.push('}');
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Parser<'a> {
    text: &'a str,
    /// Bytes that were read; always between characters.
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Result<char, BadJson> {
        let c = self.peek().ok_or(BadJson::Early)?;
        self.at += c.len_utf8();
        Ok(c)
    }

    fn wrong(&self, what: &'static str) -> BadJson {
        BadJson::Wrong { what, at: self.at }
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn value(&mut self) -> Result<Json, BadJson> {
        self.blanks();
        match self.peek().ok_or(BadJson::Early)? {
            '{' => self.nested(Self::object),
            '[' => self.nested(Self::list),
            '"' => self.string().map(Json::Text),
            't' => self.word("true", Json::Bool(true)),
            'f' => self.word("false", Json::Bool(false)),
            'n' => self.word("null", Json::Null),
            '-' | '0'..='9' => self.number(),
            _ => Err(self.wrong("no value begins like this")),
        }
    }

    fn word(&mut self, word: &'static str, value: Json) -> Result<Json, BadJson> {
        let rest = self.rest();
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(if word.starts_with(rest) { BadJson::Early } else { self.wrong("an unknown word") })
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Json, BadJson>) -> Result<Json, BadJson> {
        if self.depth >= DEPTH_MAX {
            return Err(self.wrong("nested too deeply"));
        }
        self.depth += 1;
        self.next()?;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Json, BadJson> {
        let mut fields = Fields::new();
        loop {
            self.blanks();
            match self.peek().ok_or(BadJson::Early)? {
                '}' => {
                    self.next()?;
                    return Ok(Json::Object(fields));
                }
                '"' => {}
                _ => return Err(self.wrong("a key was expected")),
            }
            let key = self.string()?;
            self.blanks();
            if self.next()? != ':' {
                return Err(self.wrong("a colon was expected"));
            }
            let value = self.value()?;
            fields.insert(key, value);
            if self.is_last('}')? {
                return Ok(Json::Object(fields));
            }
        }
    }

    fn list(&mut self) -> Result<Json, BadJson> {
        let mut items = Vec::new();
        loop {
            self.blanks();
            if self.peek() == Some(']') {
                self.next()?;
                return Ok(Json::List(items));
            }
            items.push(self.value()?);
            if self.is_last(']')? {
                return Ok(Json::List(items));
            }
        }
    }

    /// After a member: whether the end follows, else a comma has to.
    fn is_last(&mut self, end: char) -> Result<bool, BadJson> {
        self.blanks();
        match self.next()? {
            ',' => Ok(false),
            c if c == end => Ok(true),
            _ => Err(self.wrong("a comma or the end was expected")),
        }
    }

    fn number(&mut self) -> Result<Json, BadJson> {
        let start = self.at;
        self.skip('-');
        if !self.skip('0') {
            self.digits()?;
        }
        if self.skip('.') {
            self.digits()?;
        }
        if self.skip('e') || self.skip('E') {
            let _signed = self.skip('+') || self.skip('-');
            self.digits()?;
        }
        Ok(Json::Number(self.text.get(start..self.at).unwrap_or_default().to_owned()))
    }

    fn skip(&mut self, c: char) -> bool {
        let there = self.peek() == Some(c);
        self.at += usize::from(there);
        there
    }

    fn digits(&mut self) -> Result<(), BadJson> {
        let rest = self.rest();
        let count = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if count == 0 {
            return Err(if rest.is_empty() { BadJson::Early } else { self.wrong("a digit was expected") });
        }
        self.at += count;
        Ok(())
    }

    fn string(&mut self) -> Result<String, BadJson> {
        self.next()?;
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.find(['"', '\\']).ok_or(BadJson::Early)?;
            text.push_str(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            if self.next()? == '"' {
                return Ok(text);
            }
            let c = self.escape()?;
            text.push(c);
        }
    }

    fn escape(&mut self) -> Result<char, BadJson> {
        Ok(match self.next()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            c @ ('"' | '\\' | '/') => c,
            'u' => return self.unit().and_then(|unit| self.character(unit)),
            _ => return Err(self.wrong("an unknown escape")),
        })
    }

    fn unit(&mut self) -> Result<u32, BadJson> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.next()?.to_digit(16).ok_or_else(|| self.wrong("four hexadecimal digits were expected"))?;
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }

    fn character(&mut self, unit: u32) -> Result<char, BadJson> {
        if (0xd800..0xdc00).contains(&unit) && self.rest().starts_with("\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.unit()?;
            if (0xdc00..0xe000).contains(&low) {
                let point = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        Json::parse(text).map_or_else(|bad| bad.to_string(), |json| json.to_text())
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
            ("{} {}", "something comes after its end"),
            ("[1,,2]", "no value begins like this at byte 3"),
            ("01", "something comes after its end"),
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
            assert_eq!(Json::parse(text).unwrap().whole(), number, "{text}");
        }
    }
}
