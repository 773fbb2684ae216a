//! Numbers, stored as text.

/// How the text of numbers is normalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Unchanged.
    AsWritten,
    /// As Python writes numbers: integers unchanged, all others as the shortest text of a 64-bit float.
    AsPython,
}

/// A number as text, so that no digit is lost. Includes `NaN`, `Infinity` and `-Infinity`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(String);

/// The first integer that a 64-bit float cannot tell from its successor.
const SAFE_MAX: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// A number from its text, which must follow the grammar.
    pub(crate) fn read(text: &str, numbers: Numbers) -> Self {
        let is_integer = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        Self(match (numbers, is_integer) {
            (Numbers::AsPython, true) if text == "-0" => "0".to_owned(),
            (Numbers::AsPython, false) => text.parse().map_or_else(|_| text.to_owned(), python),
            (Numbers::AsWritten, _) | (Numbers::AsPython, true) => text.to_owned(),
        })
    }

    /// A 64-bit float: the shortest text that reads as the same number. A whole one ends in `.0`.
    #[must_use]
    pub fn of_float(value: f64) -> Self {
        Self(format!("{value:?}"))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it has neither a fraction nor an exponent.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        self.0.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    }

    /// Its value, if it is written as an integer that fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// Its value, if it is a non-negative integer, in any notation: `7`, `7.0` and `0.7e1` are the same.
    #[must_use]
    pub fn whole(&self) -> Option<u64> {
        let exact = || {
            let number: f64 = self.0.parse().ok()?;
            let is_safe = number.fract() == 0.0 && (0.0..SAFE_MAX).contains(&number);
            is_safe.then(|| format!("{number:.0}").parse().ok()).flatten()
        };
        self.0.parse().ok().or_else(exact)
    }

    /// Whether it is greater than `bound`. `NaN` never is.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "bounds are small")]
    pub fn exceeds(&self, bound: i64) -> bool {
        match self.as_i64() {
            Some(value) => value > bound,
            None => self.0.parse().unwrap_or(f64::NAN) > bound as f64,
        }
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(value.to_string())
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self(value.to_string())
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Self {
        Self(value.to_string())
    }
}

/// The shortest text that parses as this number, in Python's notation.
fn python(number: f64) -> String {
    if !number.is_finite() {
        return match number {
            n if n.is_nan() => "NaN",
            n if n > 0.0 => "Infinity",
            _ => "-Infinity",
        }
        .to_owned();
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
