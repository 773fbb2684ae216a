//! The prompt elements of tasks, webhooks and system answers.

use serde_json::Value;

use super::escape::{tamed, tamed_json};
use super::{Prompt, PromptMessage, attribute, text};

const UNKNOWN: &str = "unknown";

impl Prompt<'_> {
    pub(super) fn task(&self, message: &PromptMessage<'_>) -> String {
        let content = message.content;
        let attributes = [attribute("from", self.from(message)), attribute("time", Some(self.time(message)))].concat();
        let output = content.get("scriptOutput").filter(|output| says_something(output));
        let output = output.map(|output| format!("Script output:\n{}\n\n", pretty(output))).unwrap_or_default();
        let words = content.as_str().or_else(|| text(content, "prompt")).map(tamed).unwrap_or_default();
        format!("<task{attributes}>{output}Instructions:\n{words}</task>")
    }

    pub(super) fn webhook(&self, message: &PromptMessage<'_>) -> String {
        let content = message.content;
        let word = |field| Some(text(content, field).unwrap_or(UNKNOWN));
        let attributes = [
            attribute("from", self.from(message)),
            attribute("source", word("source")),
            attribute("event", word("event")),
        ]
        .concat();
        let payload = content.get("payload").filter(|payload| says_something(payload)).unwrap_or(content);
        format!("<webhook{attributes}>{}</webhook>", pretty(payload))
    }

    pub(super) fn system(&self, message: &PromptMessage<'_>) -> String {
        let content = message.content;
        let word = |field| Some(text(content, field).unwrap_or(UNKNOWN));
        let attributes = [
            attribute("from", self.from(message)),
            attribute("action", word("action")),
            attribute("status", word("status")),
        ]
        .concat();
        let result = content.get("result").filter(|result| says_something(result)).unwrap_or(&Value::Null);
        format!("<system_response{attributes}>{}</system_response>", tamed_json(&result.to_string()))
    }
}

/// Whether a value is truthy in JavaScript.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) | Value::Array(_) | Value::Object(_) => true,
    }
}

/// Indented JSON. Values that were parsed can always be written.
fn pretty(value: &Value) -> String {
    tamed_json(&serde_json::to_string_pretty(value).unwrap_or_default())
}
