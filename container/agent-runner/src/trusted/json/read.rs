//! Text as values: what RFC 8259 allows, and `NaN`, `Infinity`, `-Infinity` and lone surrogates besides, because other
//! writers of these files produce them and a file that is not understood cannot be kept.

use std::collections::HashMap;

use super::{Json, Number, Object, Text};

/// Levels of arrays and objects within each other.
pub(crate) const DEPTH_MAX: usize = 1000;

/// Why a text is no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadJson {
    /// It is not JSON.
    #[error("{what}: {at}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Where.
        at: Position,
    },
    /// It may be JSON, and is not looked at any further.
    #[error("more than {DEPTH_MAX} levels of nesting")]
    TooDeep,
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    line: usize,
    column: usize,
    character: usize,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {} column {} (char {})", self.line, self.column, self.character)
    }
}

/// Reads exactly one value with nothing but white space around it.
///
/// # Errors
/// What is wrong and where. Of members with the same name the last one counts, in the place of the first.
pub(crate) fn parse(text: &str) -> Result<Json, BadJson> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    if text.starts_with('\u{feff}') {
        return Err(reader.bad("Unexpected UTF-8 BOM"));
    }
    reader.space();
    let value = reader.value()?;
    reader.space();
    if reader.peek().is_some() { Err(reader.bad("Extra data")) } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    /// Offset in bytes, always between characters.
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes these words, if they are next.
    fn take(&mut self, words: &str) -> bool {
        let there = self.rest().starts_with(words);
        if there {
            self.at += words.len();
        }
        there
    }

    fn bad(&self, what: &'static str) -> BadJson {
        self.bad_at(what, self.at)
    }

    fn bad_at(&self, what: &'static str, at: usize) -> BadJson {
        let before = self.text.get(..at).unwrap_or(self.text);
        let last = before.rsplit('\n').next().unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let at = Position { line, column: last.chars().count() + 1, character: before.chars().count() };
        BadJson::Malformed { what, at }
    }

    fn value(&mut self) -> Result<Json, BadJson> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.text().map(Json::Text),
            _ if self.take("null") => Ok(Json::Null),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            _ => self.number().map(|number| Json::Number(Number(number.to_owned()))),
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Json, BadJson>) -> Result<Json, BadJson> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(BadJson::TooDeep);
        }
        self.at += 1;
        self.space();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Json, BadJson> {
        let mut items = Vec::new();
        if self.take("]") {
            return Ok(Json::Array(items));
        }
        loop {
            self.space();
            items.push(self.value()?);
            if !self.goes_on("]")? {
                return Ok(Json::Array(items));
            }
        }
    }

    fn object(&mut self) -> Result<Json, BadJson> {
        let mut members: Vec<(Text, Json)> = Vec::new();
        let mut places: HashMap<Text, usize> = HashMap::new();
        if self.take("}") {
            return Ok(Json::Object(Object(members)));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.bad("Expecting property name enclosed in double quotes"));
            }
            let name = self.text()?;
            self.space();
            if !self.take(":") {
                return Err(self.bad("Expecting ':' delimiter"));
            }
            self.space();
            let value = self.value()?;
            let place = *places.entry(name.clone()).or_insert(members.len());
            match members.get_mut(place) {
                Some((_, earlier)) => *earlier = value,
                None => members.push((name, value)),
            }
            if !self.goes_on("}")? {
                return Ok(Json::Object(Object(members)));
            }
        }
    }

    /// Whether another item follows, or the end.
    fn goes_on(&mut self, end: &str) -> Result<bool, BadJson> {
        self.space();
        if self.take(",") {
            return Ok(true);
        }
        if self.take(end) { Ok(false) } else { Err(self.bad("Expecting ',' delimiter")) }
    }

    fn number(&mut self) -> Result<&'a str, BadJson> {
        let begin = self.at;
        let negative = self.take("-");
        if !self.take("Infinity") && (negative || !self.take("NaN")) {
            self.digits(begin)?;
        }
        Ok(self.text.get(begin..self.at).unwrap_or_default())
    }

    fn digits(&mut self, begin: usize) -> Result<(), BadJson> {
        let zero = self.take("0");
        if !zero && self.run() == 0 {
            return Err(self.bad_at("Expecting value", begin));
        }
        // What does not belong to the number is left for whoever comes next, who will not want it.
        let before = self.at;
        if self.take(".") && self.run() == 0 {
            self.at = before;
            return Ok(());
        }
        let before = self.at;
        if self.take("e") || self.take("E") {
            let _signed = self.take("+") || self.take("-");
            if self.run() == 0 {
                self.at = before;
            }
        }
        Ok(())
    }

    /// Takes digits, and says how many.
    fn run(&mut self) -> usize {
        let count = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += count;
        count
    }

    fn text(&mut self) -> Result<Text, BadJson> {
        let begin = self.at;
        self.at += 1;
        let mut units: Vec<u16> = Vec::new();
        loop {
            let Some(next) = self.rest().chars().next() else {
                return Err(self.bad_at("Unterminated string starting at", begin));
            };
            match next {
                '"' => {
                    self.at += 1;
                    return Ok(Text::from_units(units.into_iter()));
                }
                '\\' => units.push(self.escaped(begin)?),
                '\0'..='\u{1f}' => return Err(self.bad("Invalid control character at")),
                plain => {
                    self.at += plain.len_utf8();
                    units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
                }
            }
        }
    }

    fn escaped(&mut self, begin: usize) -> Result<u16, BadJson> {
        let mut rest = self.rest().chars().skip(1);
        let Some(letter) = rest.next() else {
            return Err(self.bad_at("Unterminated string starting at", begin));
        };
        if letter == 'u' {
            let digits = self.rest().get(2..6).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
            // The words are those of Python's own reader, whose users know them: it points at the letter.
            let unit = unit.ok_or_else(|| self.bad_at("Invalid \\uXXXX escape", self.at + 1))?;
            self.at += 6;
            return Ok(unit);
        }
        let unit = simple_escape(letter).ok_or_else(|| self.bad("Invalid \\escape"))?;
        self.at += 2;
        Ok(unit)
    }
}

fn simple_escape(letter: char) -> Option<u16> {
    let byte = match letter {
        '"' | '\\' | '/' => u8::try_from(letter).ok()?,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        _ => return None,
    };
    Some(u16::from(byte))
}

/// The units of a text as `write.rs` escapes it.
pub(super) fn units(escaped: &str) -> Vec<u16> {
    let mut units = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(next) = rest.chars().next() {
        let (unit, length) = match (next, rest.chars().nth(1)) {
            ('\\', Some('u')) => (rest.get(2..6).and_then(|digits| u16::from_str_radix(digits, 16).ok()), 6),
            ('\\', Some(letter)) => (simple_escape(letter), 2),
            (plain, _) => (u16::try_from(u32::from(plain)).ok(), plain.len_utf8()),
        };
        units.extend(unit);
        rest = rest.get(length..).unwrap_or_default();
    }
    units
}
