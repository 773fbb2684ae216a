//! The parser.

use std::collections::HashMap;

use crate::number::{Number, Numbers};
use crate::text::{TextForm, short_escape};
use crate::value::{Json, Member, Object};

/// Parameters of the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Extensions of RFC 8259.
    pub dialect: Dialect,
    /// The nesting limit.
    pub nesting: Nesting,
    /// How numbers are normalized.
    pub numbers: Numbers,
}

/// Extensions of RFC 8259.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Accepts `NaN`, `Infinity` and `-Infinity`. Of a number like `1.` without further digits, the `1` is parsed, and
    /// the error is at the text after it.
    Python,
    /// Accepts a comma after the last item or member, and control characters in texts.
    Lenient,
}

/// The nesting limit, which protects the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nesting {
    /// Maximum number of nested arrays and objects, whatever the innermost one contains.
    Containers(usize),
    /// Maximum number of arrays and objects around any value.
    Around(usize),
}

/// Why a text is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadJson {
    /// What is wrong.
    pub problem: Problem,
    /// Position in bytes: the first invalid character, or the end of the text.
    pub at: usize,
}

/// Kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// A value is missing. In [`Dialect::Python`] that includes a minus sign without digits.
    Value,
    /// A digit is missing in a number, in [`Dialect::Lenient`].
    Digit,
    /// The name of a member is missing.
    Name,
    /// The colon after a name is missing.
    Colon,
    /// Neither a comma nor the end follows an item or a member.
    Comma,
    /// Something follows the value.
    Trailing,
    /// A text is not terminated.
    Endless {
        /// Position of its opening quotation mark.
        begin: usize,
    },
    /// A control character in a text.
    Control,
    /// An unknown letter after a backslash.
    Escape,
    /// `\u` has fewer than four hexadecimal digits.
    Unicode {
        /// Position of the letter `u`.
        letter: usize,
    },
    /// Nested deeper than [`Nesting`] allows. It may be valid JSON.
    TooDeep,
}

/// A position in a text for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Character of the line, from 1.
    pub column: usize,
    /// Character of the text, from 0.
    pub character: usize,
}

impl Position {
    /// The position of a byte. An offset inside of a character means the end.
    #[must_use]
    pub fn of(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let last = before.rsplit('\n').next().unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Self { line, column: last.chars().count() + 1, character: before.chars().count() }
    }
}

/// Parses exactly one value, which may be surrounded by white space.
///
/// # Errors
/// What is wrong and where. Of duplicate names the last value counts, at the position of the first.
pub fn parse<T: TextForm>(text: &str, rules: Rules) -> Result<Json<T>, BadJson> {
    let mut reader = Reader { text, at: 0, depth: 0, rules };
    reader.space();
    let value = reader.value()?;
    reader.space();
    if reader.peek().is_some() { Err(reader.bad(Problem::Trailing)) } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    /// Offset in bytes, always on a character boundary.
    at: usize,
    /// Number of arrays and objects around the current position.
    depth: usize,
    rules: Rules,
}

type Read<T> = Result<T, BadJson>;

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

    /// Consumes these characters, if they are next.
    fn take(&mut self, expected: &str) -> bool {
        let is_next = self.rest().starts_with(expected);
        if is_next {
            self.at += expected.len();
        }
        is_next
    }

    const fn bad(&self, problem: Problem) -> BadJson {
        BadJson { problem, at: self.at }
    }

    fn value<T: TextForm>(&mut self) -> Read<Json<T>> {
        if matches!(self.rules.nesting, Nesting::Around(max) if self.depth > max) {
            return Err(self.bad(Problem::TooDeep));
        }
        match self.peek() {
            Some(b'{') => self.nested(Self::object).map(Json::Object),
            Some(b'[') => self.nested(Self::array).map(Json::Array),
            Some(b'"') => self.text().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Json::Number),
            _ if self.take("null") => Ok(Json::Null),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            _ => self.strange_number().map(Json::Number),
        }
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if matches!(self.rules.nesting, Nesting::Containers(max) if self.depth >= max) {
            return Err(self.bad(Problem::TooDeep));
        }
        self.depth += 1;
        self.at += 1;
        self.space();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array<T: TextForm>(&mut self) -> Read<Vec<Json<T>>> {
        let mut items = Vec::new();
        if self.take("]") {
            return Ok(items);
        }
        loop {
            items.push(self.value()?);
            if !self.goes_on("]")? {
                return Ok(items);
            }
        }
    }

    fn object<T: TextForm>(&mut self) -> Read<Object<T>> {
        let mut members: Vec<Member<T>> = Vec::new();
        let mut places: HashMap<T, usize> = HashMap::new();
        if self.take("}") {
            return Ok(Object::of(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.bad(Problem::Name));
            }
            let name: T = self.text()?;
            self.space();
            if !self.take(":") {
                return Err(self.bad(Problem::Colon));
            }
            self.space();
            let value = self.value()?;
            let place = *places.entry(name.clone()).or_insert(members.len());
            match members.get_mut(place) {
                Some(earlier) => earlier.value = value,
                None => members.push(Member { name, value }),
            }
            if !self.goes_on("}")? {
                return Ok(Object::of(members));
            }
        }
    }

    /// Consumes the separator before the next item or member, or the end. Returns whether another one follows.
    fn goes_on(&mut self, end: &str) -> Read<bool> {
        self.space();
        if self.take(end) {
            return Ok(false);
        }
        if !self.take(",") {
            return Err(self.bad(Problem::Comma));
        }
        self.space();
        Ok(self.rules.dialect != Dialect::Lenient || !self.take(end))
    }

    fn number(&mut self) -> Read<Number> {
        let begin = self.at;
        if self.rules.dialect == Dialect::Python && self.take("-Infinity") {
            return Ok(self.number_from(begin));
        }
        let _negative = self.take("-");
        if !self.take("0") && self.digits() == 0 {
            let (problem, at) = match self.rules.dialect {
                Dialect::Python => (Problem::Value, begin),
                Dialect::Lenient => (Problem::Digit, self.at),
            };
            return Err(BadJson { problem, at });
        }
        let whole = self.at;
        if self.take(".") && self.digits() == 0 {
            return Err(self.no_digit(whole));
        }
        let mantissa = self.at;
        if self.take("e") || self.take("E") {
            let _signed = self.take("+") || self.take("-");
            if self.digits() == 0 {
                return Err(self.no_digit(mantissa));
            }
        }
        Ok(self.number_from(begin))
    }

    /// The error for a fraction or an exponent without digits, which begins here.
    const fn no_digit(&self, begin: usize) -> BadJson {
        match self.rules.dialect {
            Dialect::Python if self.depth == 0 => BadJson { problem: Problem::Trailing, at: begin },
            Dialect::Python => BadJson { problem: Problem::Comma, at: begin },
            Dialect::Lenient => self.bad(Problem::Digit),
        }
    }

    fn strange_number(&mut self) -> Read<Number> {
        let begin = self.at;
        if self.rules.dialect == Dialect::Python && (self.take("NaN") || self.take("Infinity")) {
            return Ok(self.number_from(begin));
        }
        Err(self.bad(Problem::Value))
    }

    fn number_from(&self, begin: usize) -> Number {
        Number::read(self.text.get(begin..self.at).unwrap_or_default(), self.rules.numbers)
    }

    /// Consumes digits and returns their number.
    fn digits(&mut self) -> usize {
        let count = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += count;
        count
    }

    fn text<T: TextForm>(&mut self) -> Read<T> {
        let begin = self.at;
        self.at += 1;
        let mut text = T::default();
        loop {
            let rest = self.rest();
            let plain = rest.find(|c| matches!(c, '"' | '\\') || self.is_refused(c)).unwrap_or(rest.len());
            text.push(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => self.escaped(begin, &mut text)?,
                Some(_) => return Err(self.bad(Problem::Control)),
                None => return Err(self.bad(Problem::Endless { begin })),
            }
        }
    }

    fn is_refused(&self, c: char) -> bool {
        self.rules.dialect == Dialect::Python && c < ' '
    }

    /// Parses an escape, or two that form a surrogate pair.
    fn escaped<T: TextForm>(&mut self, begin: usize, text: &mut T) -> Read<()> {
        self.at += 1;
        let letter = self.rest().chars().next().ok_or_else(|| self.bad(Problem::Endless { begin }))?;
        if letter != 'u' {
            let c = short_escape(letter).ok_or_else(|| self.bad(Problem::Escape))?;
            self.at += 1;
            text.push(c.encode_utf8(&mut [0; 4]));
            return Ok(());
        }
        let letter = self.at;
        self.at += 1;
        let first = unit(self.rest()).map_err(|digits| {
            let at = self.at + digits;
            BadJson { problem: Problem::Unicode { letter }, at }
        })?;
        self.at += 4;
        let low = self.rest().strip_prefix("\\u").and_then(|rest| unit(rest).ok());
        let pair = low.and_then(|low| char::decode_utf16([first, low]).next()?.ok()).filter(|c| c.len_utf16() == 2);
        match (pair, char::from_u32(first.into())) {
            (Some(c), _) => {
                self.at += 6;
                text.push(c.encode_utf8(&mut [0; 4]));
            }
            (None, Some(c)) => text.push(c.encode_utf8(&mut [0; 4])),
            (None, None) => text.push_half(first),
        }
        Ok(())
    }
}

/// The UTF-16 unit of four hexadecimal digits. The error is the number of digits found.
fn unit(rest: &str) -> Result<u16, usize> {
    let count = rest.bytes().take(4).take_while(u8::is_ascii_hexdigit).count();
    rest.get(..4).filter(|_| count == 4).and_then(|digits| u16::from_str_radix(digits, 16).ok()).ok_or(count)
}
