//! Parses a session-state file.

use std::collections::HashSet;

use super::BYTES_MAX;
use super::json::{self, Fields, Value};
use crate::model::content::RawJson;
use crate::model::group::{
    DocumentField, DocumentPending, FieldName, STATE_FIELDS_MAX, StateDocument, StatePart, StateTrouble,
};
use crate::model::time::Timestamp;

/// Maximum number of ids; the newest ones are kept.
const IDS_MAX: usize = 20_000;

/// Result of parsing.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The fields, and the ids of `seen_email_ids` without duplicates, in order.
    Fields(StateDocument, Vec<String>),
    /// Not a JSON object, with the reason.
    Unreadable(String),
    /// A version that Hearth must not touch, or too large.
    Refused(StateTrouble),
}

/// Parses a file.
#[must_use]
pub fn parse(bytes: &[u8]) -> Parsed {
    let Ok(text) = std::str::from_utf8(bytes) else { return Parsed::Unreadable("it is not UTF-8".to_owned()) };
    let value = match json::parse(text) {
        Ok(value) => value,
        Err(bad) => return Parsed::Unreadable(bad.to_string()),
    };
    let Value::Object(fields) = &value else {
        return Parsed::Unreadable(format!("it is not a JSON object, but a {}", json::kind(&value)));
    };
    if let Some(trouble) = version_trouble(fields.get("schema_version")) {
        return Parsed::Refused(trouble);
    }
    let mut document = Document::default();
    for field in fields.iter() {
        if let Err(why) = document.take(field.name.as_escaped(), &field.value) {
            return Parsed::Refused(StateTrouble::Unusable(why.to_owned()));
        }
    }
    document.fields.ids = u64::try_from(document.ids.len()).unwrap_or(u64::MAX);
    let old = document.ids.len().saturating_sub(IDS_MAX);
    Parsed::Fields(document.fields, document.ids.split_off(old))
}

/// Checks the version: only the integer 1 is supported.
fn version_trouble(version: Option<&Value>) -> Option<StateTrouble> {
    let number = if let Some(Value::Number(number)) = version { number.as_str() } else { "" };
    match number {
        "1" => None,
        "" | "0" => Some(StateTrouble::Older),
        number if number.bytes().all(|b| b.is_ascii_digit()) => {
            Some(StateTrouble::Newer(number.chars().take(20).collect()))
        }
        _ => Some(StateTrouble::Older),
    }
}

#[derive(Default)]
struct Document {
    fields: StateDocument,
    ids: Vec<String>,
}

const TOO_LARGE: &str = "it is too large: Hearth reads at most 4 MiB and 1,000 fields";

impl Document {
    fn take(&mut self, name: &str, value: &Value) -> Result<(), &'static str> {
        match (name, value) {
            ("sessions", Value::Object(fields)) => self.take_object(name, StatePart::Sessions, fields),
            ("muted_threads", Value::Object(fields)) => self.take_object(name, StatePart::Muted, fields),
            ("seen_email_ids", Value::Array(items)) => {
                let mut seen = HashSet::new();
                for item in items {
                    let id = text(item)?;
                    if seen.insert(id.clone()) {
                        self.ids.push(id);
                    }
                }
                self.push(StatePart::Top, name, "[]".to_owned())
            }
            ("pending_response", value) => {
                let text = text(value)?;
                if text != "null" {
                    self.fields.pending = Some(pending(value, &text));
                }
                self.push(StatePart::Top, name, text)
            }
            _ => self.push(StatePart::Top, name, text(value)?),
        }
    }

    fn take_object(&mut self, name: &str, part: StatePart, fields: &Fields) -> Result<(), &'static str> {
        self.push(StatePart::Top, name, "{}".to_owned())?;
        fields.iter().try_for_each(|field| self.push(part, field.name.as_escaped(), text(&field.value)?))
    }

    fn push(&mut self, part: StatePart, name: &str, value: String) -> Result<(), &'static str> {
        if self.fields.fields.len() >= STATE_FIELDS_MAX {
            return Err(TOO_LARGE);
        }
        let (name, value) = (FieldName::escaped(name.to_owned()), RawJson::trusted(value));
        self.fields.fields.push(DocumentField { part, name, value });
        Ok(())
    }
}

fn text(value: &Value) -> Result<String, &'static str> {
    json::written(value, usize::try_from(BYTES_MAX).unwrap_or(usize::MAX)).ok_or(TOO_LARGE)
}

fn pending(value: &Value, whole: &str) -> DocumentPending {
    let field = |name: &str| if let Value::Object(fields) = value { fields.get(name) } else { None };
    let message = match field("message_id") {
        Some(Value::Text(id)) => id.as_escaped().to_owned(),
        Some(id @ (Value::Null | Value::Bool(_) | Value::Number(_))) => json::line(id),
        Some(Value::Array(_) | Value::Object(_)) | None => whole.to_owned(),
    };
    let reacted = match field("reacted_at") {
        // A time without a time zone is ambiguous.
        Some(Value::Text(time)) if time.as_escaped().ends_with('Z') => Timestamp::parse(time.as_escaped()),
        _ => None,
    };
    DocumentPending { message, value: RawJson::trusted(whole.to_owned()), reacted }
}
