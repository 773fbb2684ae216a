//! Parses a summary: seven fields, checked against the contract.

use serde_json::{Map, Value};

use crate::model::content::BlobId;
use crate::model::skip::{SkipKind, SkipReport, SkipStep, SkipTrouble};
use crate::model::time::Timestamp;

/// The supported version.
const VERSION: i64 = 1;
/// Maximum length of a reason in characters: it has to fit a message.
const REASON_MAX: usize = 4_096;
/// Maximum length of a step, and of an item, in characters.
const NAME_MAX: usize = 1_024;
/// Maximum number of items in one summary.
const ITEMS_MAX: usize = 1_000;

/// Reads the summary of a skill.
///
/// # Errors
/// [`SkipTrouble`]: what is wrong with it, and why it is not touched.
pub fn parse(skill: &str, bytes: &[u8], digest: BlobId) -> Result<SkipReport, SkipTrouble> {
    let value = serde_json::from_slice(bytes).map_err(|error| malformed(format!("it is not JSON: {error}")))?;
    let Value::Object(fields) = value else { return Err(malformed("it is not a JSON object")) };
    let version = field(&fields, "schema_version")?;
    match version.as_i64() {
        Some(VERSION) => {}
        Some(other) => return Err(SkipTrouble::Version(other)),
        None => return Err(malformed(format!("schema_version is {}, not an integer", kind(version)))),
    }
    let named = text(&fields, "skill")?;
    if named != skill {
        return Err(malformed(format!("skill is {named:?}, and the file is that of {skill}")));
    }
    Ok(SkipReport {
        digest,
        step: step(field(&fields, "step")?)?,
        reason: reason(text(&fields, "reason")?)?,
        items: items(field(&fields, "items")?)?,
        kind: match field(&fields, "technical_failure")? {
            Value::Bool(true) => SkipKind::Technical,
            Value::Bool(false) => SkipKind::Policy,
            other => return Err(malformed(format!("technical_failure is {}, not true or false", kind(other)))),
        },
        occurred: instant(text(&fields, "occurred_at")?)?,
    })
}

fn malformed(why: impl Into<String>) -> SkipTrouble {
    SkipTrouble::Malformed(why.into())
}

fn field<'f>(fields: &'f Map<String, Value>, name: &str) -> Result<&'f Value, SkipTrouble> {
    fields.get(name).ok_or_else(|| malformed(format!("{name} is missing")))
}

fn text<'f>(fields: &'f Map<String, Value>, name: &str) -> Result<&'f str, SkipTrouble> {
    let value = field(fields, name)?;
    value.as_str().ok_or_else(|| malformed(format!("{name} is {}, not a string", kind(value))))
}

fn step(value: &Value) -> Result<SkipStep, SkipTrouble> {
    if let Value::String(name) = value {
        return match name.chars().count() {
            _ if name.trim().is_empty() => Err(malformed("step is blank")),
            count if count > NAME_MAX => Err(malformed(format!("step has {count} characters, at most {NAME_MAX}"))),
            _ => Ok(SkipStep::Name(name.clone())),
        };
    }
    let number = value.as_i64().map(SkipStep::Number);
    number.ok_or_else(|| malformed(format!("step is {}, not a string or an integer", kind(value))))
}

fn reason(text: &str) -> Result<String, SkipTrouble> {
    let ends_line = |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{2028}' | '\u{2029}');
    if text.trim().is_empty() {
        return Err(malformed("reason is blank"));
    }
    if text.contains(ends_line) {
        return Err(malformed("reason has more than one line"));
    }
    match text.chars().count() {
        count if count > REASON_MAX => Err(malformed(format!("reason has {count} characters, at most {REASON_MAX}"))),
        _ => Ok(text.to_owned()),
    }
}

fn items(value: &Value) -> Result<Vec<String>, SkipTrouble> {
    let Value::Array(values) = value else {
        return Err(malformed(format!("items is {}, not an array", kind(value))));
    };
    if values.len() > ITEMS_MAX {
        return Err(malformed(format!("items has {} entries, at most {ITEMS_MAX}", values.len())));
    }
    let mut items: Vec<String> = Vec::with_capacity(values.len());
    let mut seen = std::collections::BTreeSet::new();
    for (at, value) in values.iter().enumerate() {
        let Value::String(item) = value else {
            return Err(malformed(format!("items[{at}] is {}, not a string", kind(value))));
        };
        if item.trim().is_empty() {
            return Err(malformed(format!("items[{at}] is blank")));
        }
        if item.chars().count() > NAME_MAX {
            return Err(malformed(format!("items[{at}] has more than {NAME_MAX} characters")));
        }
        if !seen.insert(item) {
            return Err(malformed(format!("items[{at}] is there twice")));
        }
        items.push(item.clone());
    }
    Ok(items)
}

/// A time of the form `YYYY-MM-DDTHH:MM:SS[.fraction]Z` and no other: offsets or missing zones are read differently by
/// different programs.
fn instant(text: &str) -> Result<Timestamp, SkipTrouble> {
    let wrong = || malformed(format!("occurred_at is {text:?}, not a time in UTC like 2026-01-31T08:00:00Z"));
    let body = text.strip_suffix('Z').ok_or_else(wrong)?;
    let (whole, fraction) = body.split_once('.').map_or((body, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let shaped = whole.len() == SHAPE.len()
        && whole.bytes().zip(SHAPE.bytes()).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        });
    let plain = fraction.is_none_or(|fraction| digits(fraction) && fraction.len() <= FRACTION_MAX);
    // Leap seconds are rejected, because other clocks do not show them.
    if !shaped || !plain || whole.ends_with(":60") {
        return Err(wrong());
    }
    Timestamp::parse(text).ok_or_else(wrong)
}

/// Template of a time to the second; zeros stand for digits.
const SHAPE: &str = "0000-00-00T00:00:00";
/// Significant digits of a fraction.
const FRACTION_MAX: usize = 9;

/// The type of a value, for people.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_i64() || number.is_u64() => "an integer",
        Value::Number(_) => "a number with a fraction",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
