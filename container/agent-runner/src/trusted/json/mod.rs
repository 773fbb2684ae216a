//! JSON that comes back out as it went in: members in their order, numbers digit by digit, and halves of surrogate
//! pairs. Files that others also write are read into this, changed in one place, and written again.
//!
//! `serde_json` cannot do this for one module alone: its features for order and exact numbers would change every JSON
//! value of the whole build, and it refuses `NaN` and lone surrogates, which other programs write into these files.

mod read;
mod write;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

pub(crate) use read::{BadJson, DEPTH_MAX, parse};
pub(crate) use write::{line, pretty};

/// A text of one value in the form of files: indented, ASCII only, members and digits as they were.
///
/// # Errors
/// Why it is not JSON, and where.
pub fn rewritten(text: &str) -> Result<String, String> {
    parse(text).map(|value| pretty(&value)).map_err(|why| why.to_string())
}

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number as it is written.
    Number(Number),
    /// A text.
    Text(Text),
    /// Values in order.
    Array(Vec<Json>),
    /// Members in order.
    Object(Object),
}

/// A number in the words it was written in, so that no digit is lost; also `NaN`, `Infinity`, `-Infinity`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Number(String);

impl Number {
    /// Whether it has neither fraction nor exponent.
    pub(crate) fn is_integer(&self) -> bool {
        self.0.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    }

    /// Its value, if it is an integer that fits.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// Whether it is beyond `bound`; no number is beyond anything.
    pub(crate) fn exceeds(&self, bound: i64) -> bool {
        match self.as_i64() {
            Some(value) => value > bound,
            None => self.as_f64() > bound_f64(bound),
        }
    }

    fn as_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }
}

#[expect(clippy::cast_precision_loss, reason = "bounds are small")]
fn bound_f64(bound: i64) -> f64 {
    bound as f64
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(value.to_string())
    }
}

/// A text, kept as what stands between the quotation marks when it is written: ASCII, everything else escaped in the
/// one way that `write.rs` escapes. Two texts are therefore equal exactly if these are, and halves of surrogate pairs
/// have a place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Text(String);

impl Text {
    /// A text of Unicode.
    pub(crate) fn new(text: &str) -> Self {
        Self::from_units(text.encode_utf16())
    }

    /// The text of UTF-16 units, paired or not.
    fn from_units(units: impl Iterator<Item = u16>) -> Self {
        let mut escaped = String::new();
        units.for_each(|unit| write::escape(unit, &mut escaped));
        Self(escaped)
    }

    /// What the system gave, a name or a variable. Bytes that are not UTF-8 become the low surrogates U+DC80 to U+DCFF,
    /// which no Unicode text has.
    pub(crate) fn of_system(text: &OsStr) -> Self {
        let units = text.as_bytes().utf8_chunks().flat_map(|chunk| {
            let strange = chunk.invalid().iter().map(|byte| 0xdc00 + u16::from(*byte));
            chunk.valid().encode_utf16().chain(strange)
        });
        Self::from_units(units)
    }

    /// For people: half of a surrogate pair is shown as a replacement character.
    pub(crate) fn shown(&self) -> String {
        String::from_utf16_lossy(&read::units(&self.0))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Members in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Object(Vec<(Text, Json)>);

impl Object {
    /// The member of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        self.find(&Text::new(name))
    }

    /// The member of this name.
    pub(crate) fn find(&self, name: &Text) -> Option<&Json> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Sets a member where it is, or at the end if there is none of that name.
    pub(crate) fn set(&mut self, name: impl Into<Text>, value: Json) {
        let name = name.into();
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, place)) => *place = value,
            None => self.0.push((name, value)),
        }
    }

    /// Takes a member out.
    pub(crate) fn remove(&mut self, name: &Text) -> Option<Json> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// The member of this name as an object, which it becomes if it is none; second what it was instead.
    pub(crate) fn object_mut(&mut self, name: &str) -> (Option<&mut Object>, Option<Json>) {
        let mut was = None;
        if !matches!(self.get(name), Some(Json::Object(_))) {
            was = self.get(name).cloned();
            self.set(name, Json::Object(Object::default()));
        }
        let name = Text::new(name);
        let object = self.0.iter_mut().find_map(|(key, value)| match value {
            Json::Object(object) if *key == name => Some(object),
            _ => None,
        });
        (object, was)
    }
}

impl FromIterator<(Text, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (Text, Json)>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

impl Json {
    /// A text of Unicode.
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(Text::new(text))
    }

    /// An integer.
    pub(crate) fn integer(value: i64) -> Self {
        Self::Number(Number::from(value))
    }

    /// A count.
    pub(crate) fn count(value: usize) -> Self {
        Self::Number(Number(value.to_string()))
    }

    /// A floating point number, the shortest that reads as the same; a whole one ends in `.0`.
    pub(crate) fn float(value: f64) -> Self {
        Self::Number(Number(format!("{value:?}")))
    }

    /// An object of these members, names all different.
    pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (Text::new(name), value)).collect())
    }

    /// What it is, in the vocabulary of the programs that these files are shared with.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "NoneType",
            Self::Bool(_) => "bool",
            Self::Number(number) if number.is_integer() => "int",
            Self::Number(_) => "float",
            Self::Text(_) => "str",
            Self::Array(_) => "list",
            Self::Object(_) => "dict",
        }
    }
}

#[cfg(test)]
mod tests;
