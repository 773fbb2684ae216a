//! Removes the values of an agent's secrets from its output before anything else processes it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::model::secrets::Secrets;

/// The secrets of an agent, as used in one collection.
#[derive(Debug)]
pub(super) struct Cleaner<'a> {
    pub(super) secrets: &'a Secrets,
    /// Names of the secrets that were found.
    pub(super) found: BTreeSet<String>,
}

impl<'a> Cleaner<'a> {
    pub(super) const fn new(secrets: &'a Secrets) -> Self {
        Self { secrets, found: BTreeSet::new() }
    }

    /// Removes them from a JSON value: texts, field names, numbers. The JSON is already parsed, so escapes hide
    /// nothing.
    pub(super) fn clean(&mut self, value: Value) -> Value {
        if self.secrets.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(list) => list.into_iter().map(|item| self.clean(item)).collect(),
            Value::Object(fields) => {
                let fields: Map<_, _> =
                    fields.into_iter().map(|(name, value)| (self.text(name), self.clean(value))).collect();
                Value::Object(fields)
            }
            Value::Number(number) if self.secrets.find(number.to_string().as_bytes()).is_some() => {
                Value::String(self.text(number.to_string()))
            }
            other => other,
        }
    }

    /// Removes them from a text.
    pub(super) fn text(&mut self, text: String) -> String {
        match self.secrets.clean(&text, &mut self.found) {
            std::borrow::Cow::Borrowed(_) => text,
            std::borrow::Cow::Owned(clean) => clean,
        }
    }
}
