//! The answer of the model as it comes: lines of server-sent events with parts of it. Pure.

use hearth_wire::Usage;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::trouble::ApiError;

/// Maximum bytes of an answer, and calls of tools in one.
const BYTES: usize = 8 << 20;
const CALLS: usize = 64;

/// An answer, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    calls: Vec<ToolCall>,
    usage: Option<Reported>,
    model: Option<String>,
    finish: Option<String>,
    bytes: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolCall {
    /// Its place in the answer, as the server says.
    index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    arguments: String,
}

impl ToolCall {
    /// The arguments, if they are a JSON object. None at all are an empty one.
    pub(super) fn arguments(&self) -> Option<Map<String, Value>> {
        if self.arguments.trim().is_empty() {
            return Some(Map::new());
        }
        serde_json::from_str(&self.arguments).ok()
    }
}

#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Reported>,
    model: Option<String>,
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

/// A part. Reasoning comes in fields of several names, and is never part of an answer.
#[derive(Debug, Default, Deserialize)]
struct Delta {
    content: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    #[serde(default)]
    function: FunctionDelta,
}

#[derive(Debug, Default, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    /// Some servers send an object.
    #[serde(default)]
    arguments: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Reported {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl Answer {
    /// Adds what a line says.
    ///
    /// # Errors
    /// The error that the server wrote into the answer, or that the answer is too large.
    pub(super) fn take(&mut self, line: &str) -> Result<(), ApiError> {
        let Some(data) = line.trim().strip_prefix("data:").map(str::trim) else { return Ok(()) };
        self.bytes += data.len();
        if self.bytes > BYTES {
            return Err(ApiError::lasting("the model's answer is too large"));
        }
        let Ok(chunk) = serde_json::from_str::<Chunk>(data) else { return Ok(()) };
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(ApiError::in_answer(&error));
        }
        self.usage = chunk.usage.or(self.usage.take());
        self.model = self.model.take().or(chunk.model);
        if let Some(choice) = chunk.choices.into_iter().next() {
            self.finish = choice.finish_reason.or(self.finish.take());
            let Delta { content, tool_calls } = choice.delta.unwrap_or_default();
            self.text.push_str(content.as_deref().unwrap_or_default());
            tool_calls.into_iter().flatten().for_each(|call| self.call(call));
        }
        Ok(())
    }

    /// Adds a part of a call. An id that was not seen begins a new one: some servers give all the same index, others
    /// none.
    fn call(&mut self, part: CallDelta) {
        let CallDelta { index, id, function: FunctionDelta { name, arguments } } = part;
        let id = id.filter(|id| !id.is_empty());
        let known = match (&id, index) {
            (Some(id), _) => self.calls.iter().position(|call| call.id == *id),
            (None, Some(index)) => self.calls.iter().rposition(|call| call.index == Some(index)),
            (None, None) if name.is_none() => self.calls.len().checked_sub(1),
            (None, None) => None,
        };
        let place = known.unwrap_or(self.calls.len());
        if place >= CALLS {
            return;
        }
        if known.is_none() {
            let id = id.unwrap_or_else(|| format!("call_{place}"));
            self.calls.push(ToolCall { index, id, ..ToolCall::default() });
        }
        let Some(call) = self.calls.get_mut(place) else { return };
        call.name.push_str(name.as_deref().unwrap_or_default());
        match arguments {
            Value::String(text) => call.arguments.push_str(&text),
            Value::Null => {}
            whole => call.arguments.push_str(&whole.to_string()),
        }
    }

    /// Whether the model has ended its answer. Otherwise the connection broke.
    pub(super) const fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    pub(super) fn is_refused(&self) -> bool {
        self.finish.as_deref() == Some("content_filter")
    }

    /// Whether it reached the limit of the model.
    pub(super) fn is_cut_off(&self) -> bool {
        self.finish.as_deref() == Some("length")
    }

    /// The text. Thoughts that the model writes before it are left out.
    pub(super) fn text(&self) -> &str {
        let text = self.text.trim();
        match text.strip_prefix("<think>").map(|thoughts| thoughts.split_once("</think>")) {
            Some(Some((_, after))) => after.trim(),
            Some(None) => "",
            None => text,
        }
    }

    /// The calls. Some servers say `stop` although there are some.
    pub(super) fn calls(&self) -> &[ToolCall] {
        &self.calls
    }

    /// Tokens of the whole prompt, if the server counts.
    pub(super) fn prompt_tokens(&self) -> Option<u64> {
        self.usage.as_ref().map(|usage| usage.prompt_tokens)
    }

    /// What it used of the model that answered, or else of the one that was asked.
    pub(super) fn usage(&self, asked: &str) -> Option<Usage> {
        let Reported { prompt_tokens, completion_tokens, prompt_tokens_details, completion_tokens_details } =
            self.usage.clone()?;
        let cached = prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0).min(prompt_tokens);
        let reasoning = completion_tokens_details.and_then(|details| details.reasoning_tokens).unwrap_or(0);
        Some(Usage {
            model: Some(self.model.as_deref().filter(|model| !model.is_empty()).unwrap_or(asked).to_owned()),
            input: prompt_tokens - cached,
            output: completion_tokens,
            cache_read: cached,
            reasoning: reasoning.min(completion_tokens),
            ..Usage::default()
        })
    }

    /// The message for the history.
    pub(super) fn message(&self) -> Value {
        let call = |call: &ToolCall| {
            // Servers refuse arguments that are not JSON.
            let arguments =
                call.arguments().map_or_else(|| "{}".to_owned(), |fields| Value::Object(fields).to_string());
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        };
        let calls: Vec<Value> = self.calls.iter().map(call).collect();
        if calls.is_empty() {
            return json!({"role": "assistant", "content": self.text()});
        }
        json!({"role": "assistant", "content": self.text(), "tool_calls": calls})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(chunks: &[Value]) -> Answer {
        let mut answer = Answer::default();
        for chunk in chunks {
            answer.take(&format!("data: {chunk}")).unwrap();
        }
        answer
    }

    fn delta(delta: Value) -> Value {
        json!({"choices": [{"delta": delta}]})
    }

    fn called(chunks: &[Value]) -> Vec<(String, String)> {
        answer(chunks).calls.into_iter().map(|call| (call.name, call.arguments)).collect()
    }

    #[test]
    fn a_text_with_its_usage() {
        let mut answer = answer(&[
            delta(json!({"role": "assistant", "content": null})),
            delta(json!({"content": "<think>hm</think>\nhel", "reasoning_content": "x"})),
            delta(json!({"content": "lo"})),
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": null}),
            json!({"choices": [], "model": "m2", "usage": {"prompt_tokens": 9, "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 4}}}),
        ]);
        for noise in
            ["", ": a comment", "data: [DONE]", "data: nonsense", "event: x", "data: 7", "data: {\"choices\":5}"]
        {
            answer.take(noise).unwrap();
        }
        assert_eq!((answer.text(), answer.is_whole(), answer.prompt_tokens()), ("hello", true, Some(9)));
        let Usage { model, input, output, cache_read, .. } = answer.usage("m").unwrap();
        assert_eq!((model.as_deref(), input, output, cache_read), (Some("m2"), 5, 2, 4));
    }

    #[test]
    fn calls_in_every_form() {
        let part = |index: Value, id: Value, name: Value, arguments: &str| {
            delta(
                json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]}),
            )
        };
        let null = Value::Null;
        let expected = vec![("a".to_owned(), "{\"x\":1}".to_owned()), ("b".to_owned(), "{}".to_owned())];
        let pieces = [
            part(json!(0), json!("1"), json!("a"), ""),
            part(json!(0), null.clone(), null.clone(), "{\"x\""),
            part(json!(1), json!("2"), json!("b"), "{}"),
            part(json!(0), null.clone(), null.clone(), ":1}"),
        ];
        assert_eq!(called(&pieces), expected);
        let no_index =
            [part(null.clone(), json!("1"), json!("a"), "{\"x\":1}"), part(null.clone(), json!("2"), json!("b"), "{}")];
        assert_eq!(called(&no_index), expected);
        let zero = [part(json!(0), json!("1"), json!("a"), "{\"x\":1}"), part(json!(0), json!("2"), json!("b"), "{}")];
        assert_eq!(called(&zero), expected);
        let no_id = [
            part(null.clone(), null.clone(), json!("a"), "{\"x\":"),
            part(null.clone(), null.clone(), null.clone(), "1}"),
            part(null.clone(), null, json!("b"), "{}"),
        ];
        let made = answer(&no_id);
        assert_eq!(made.calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["call_0", "call_1"]);
        assert_eq!(called(&no_id), expected);
    }

    #[test]
    fn arguments_that_are_no_object_are_not_sent_back() {
        let answer =
            answer(&[delta(json!({"tool_calls": [{"id": "1", "function": {"name": "a", "arguments": "[1"}}]}))]);
        assert_eq!(answer.calls()[0].arguments(), None);
        assert_eq!(answer.message()["tool_calls"][0]["function"]["arguments"], "{}");
    }

    #[test]
    fn errors_within_an_answer() {
        let mut answer = Answer::default();
        assert!(answer.take(r#"data: {"error":{"message":"overloaded","code":503}}"#).is_err());
        assert!(!answer.is_whole());
        let large = format!("data: \"{}\"", "x".repeat(BYTES));
        assert!(answer.take(&large).is_err());
    }
}
