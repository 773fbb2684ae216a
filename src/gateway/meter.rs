//! Counts the tokens of an answer from what the server says in it, without holding the answer up. Pure.

use serde_json::Value;

use crate::model::gateway::Operation;
use crate::model::spend::Tokens;

/// Longest line of a stream that is looked at. Longer ones are text, not counts.
const LINE_MAX: usize = 4 << 20;
/// Longest answer in one piece that is looked at.
const WHOLE_MAX: usize = 16 << 20;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Server-sent events.
    Events,
    /// One JSON value.
    Whole,
}

/// Reads an answer as it passes.
#[derive(Debug)]
pub(super) struct Meter {
    operation: Operation,
    form: Form,
    /// The line that has begun, or the whole answer.
    text: Vec<u8>,
    /// The line, or the answer, is too long to look at.
    skips: bool,
    usage: Option<Tokens>,
    model: Option<String>,
    /// The stream said that it is at its end.
    ended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) usage: Option<Tokens>,
    /// The model, as the server calls it.
    pub(super) model: Option<String>,
    /// Whether the answer was seen to its end.
    pub(super) complete: bool,
}

impl Meter {
    pub(super) const fn new(operation: Operation, form: Form) -> Self {
        Self { operation, form, text: Vec::new(), skips: false, usage: None, model: None, ended: false }
    }

    /// Takes the next piece.
    pub(super) fn take(&mut self, piece: &[u8]) {
        if self.form == Form::Whole {
            return self.keep(piece, WHOLE_MAX);
        }
        let mut pieces = piece.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = pieces.next() {
            self.keep(part, LINE_MAX);
            if pieces.peek().is_some() {
                let line = std::mem::take(&mut self.text);
                if !std::mem::take(&mut self.skips) {
                    self.line(&line);
                }
            }
        }
    }

    /// The count. `whole`: whether the connection ended as it should.
    pub(super) fn finish(mut self, whole: bool) -> Count {
        let mut complete = self.ended && whole;
        if self.form == Form::Whole && !self.skips {
            let value = serde_json::from_slice::<Value>(&self.text).ok();
            complete = whole && value.is_some();
            // Gemini streams an array if it is not asked for events.
            match value {
                Some(Value::Array(values)) => values.iter().for_each(|value| self.value(value)),
                Some(value) => self.value(&value),
                None => {}
            }
        }
        Count { usage: self.usage, model: self.model, complete }
    }

    fn keep(&mut self, part: &[u8], max: usize) {
        if self.skips || self.text.len().saturating_add(part.len()) > max {
            (self.skips, self.text) = (true, Vec::new());
        } else {
            self.text.extend_from_slice(part);
        }
    }

    fn line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else { return };
        if data == b"[DONE]" {
            self.ended = true;
        } else if matters(data)
            && let Ok(value) = serde_json::from_slice(data)
        {
            self.value(&value);
        }
    }

    fn value(&mut self, value: &Value) {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        self.ended |= matches!(kind, "message_stop" | "response.completed" | "response.incomplete" | "response.failed");
        // Events have the message or the response inside.
        let inner = ["message", "response"].iter().find_map(|name| value.get(*name).filter(|value| value.is_object()));
        let inner = inner.unwrap_or(value);
        self.model = text(inner, "model").or_else(|| text(inner, "modelVersion")).or(self.model.take());
        if let Some(found) = inner.get("usage").or_else(|| value.get("usage")).filter(|usage| usage.is_object()) {
            let known = self.usage.unwrap_or_default();
            self.usage = Some(match self.operation {
                Operation::Messages => anthropic(found, known),
                _ => openai(found),
            });
        }
        if let Some(found) = value.get("usageMetadata").filter(|usage| usage.is_object()) {
            self.usage = Some(gemini(found));
            let finished = |one: &Value| one.get("finishReason").is_some_and(|reason| !reason.is_null());
            let candidates = value.get("candidates").and_then(Value::as_array);
            self.ended |= candidates.is_some_and(|all| all.iter().any(finished));
        }
    }
}

/// Whether a line may have something to count. Most have text only.
fn matters(data: &[u8]) -> bool {
    let has = |word: &[u8]| data.windows(word.len()).any(|part| part == word);
    has(b"\"usage") || has(b"message_stop") || has(b"\"response.")
}

fn number(usage: &Value, path: &[&str]) -> Option<u64> {
    path.iter().try_fold(usage, |value, name| value.get(*name)).and_then(Value::as_u64)
}

/// The first event has the prompt's tokens, later ones the totals so far.
fn anthropic(usage: &Value, known: Tokens) -> Tokens {
    let of = |name: &str, known: u64| number(usage, &[name]).unwrap_or(known);
    Tokens {
        input: of("input_tokens", known.input),
        output: of("output_tokens", known.output),
        cache_read: of("cache_read_input_tokens", known.cache_read),
        cache_write: of("cache_creation_input_tokens", known.cache_write),
        reasoning: 0,
    }
}

/// Both of OpenAI's forms. What was read from a cache is part of the prompt there.
fn openai(usage: &Value) -> Tokens {
    let either = |paths: [&[&str]; 2]| paths.iter().find_map(|path| number(usage, path)).unwrap_or(0);
    let prompt = either([&["prompt_tokens"], &["input_tokens"]]);
    let cache_read = either([&["prompt_tokens_details", "cached_tokens"], &["input_tokens_details", "cached_tokens"]]);
    Tokens {
        input: prompt.saturating_sub(cache_read),
        output: either([&["completion_tokens"], &["output_tokens"]]),
        cache_read,
        cache_write: 0,
        reasoning: either([
            &["completion_tokens_details", "reasoning_tokens"],
            &["output_tokens_details", "reasoning_tokens"],
        ]),
    }
}

/// Reasoning is not part of the candidates' tokens there, and is paid for like them.
fn gemini(usage: &Value) -> Tokens {
    let of = |name: &str| number(usage, &[name]).unwrap_or(0);
    let (cache_read, reasoning) = (of("cachedContentTokenCount"), of("thoughtsTokenCount"));
    Tokens {
        input: of("promptTokenCount").saturating_add(of("toolUsePromptTokenCount")).saturating_sub(cache_read),
        output: of("candidatesTokenCount").saturating_add(reasoning),
        cache_read,
        cache_write: 0,
        reasoning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(operation: Operation, form: Form, text: &str, size: usize) -> Count {
        let mut meter = Meter::new(operation, form);
        text.as_bytes().chunks(size).for_each(|piece| meter.take(piece));
        meter.finish(true)
    }

    /// In pieces of every size.
    fn counted(operation: Operation, form: Form, text: &str) -> Count {
        let first = count(operation, form, text, text.len());
        for size in 1..40 {
            assert_eq!(count(operation, form, text, size), first, "{size}");
        }
        first
    }

    fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64, reasoning: u64) -> Option<Tokens> {
        Some(Tokens { input, output, cache_read, cache_write, reasoning })
    }

    #[test]
    fn anthropic_streams_and_answers() {
        let stream = concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-x\",\"usage\":",
            "{\"input_tokens\":12,\"cache_read_input_tokens\":300,\"cache_creation_input_tokens\":40,\"output_tokens\":1}}}\n\n",
            "event: content_block_delta\r\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"the usage\"}}\r\n\r\n",
            "data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":77}}\n\n",
            "data: {\"type\":\"message_stop\"}\n\n",
        );
        let found = counted(Operation::Messages, Form::Events, stream);
        assert_eq!(found, Count { usage: usage(12, 77, 300, 40, 0), model: Some("claude-x".into()), complete: true });
        let begun = stream.split_once("data: {\"type\":\"message_delta").unwrap().0;
        let found = counted(Operation::Messages, Form::Events, begun);
        assert_eq!((found.usage, found.complete), (usage(12, 1, 300, 40, 0), false));
        let whole = r#"{"type":"message","model":"m","usage":{"input_tokens":5,"output_tokens":6}}"#;
        let found = counted(Operation::Messages, Form::Whole, whole);
        assert_eq!(found, Count { usage: usage(5, 6, 0, 0, 0), model: Some("m".into()), complete: true });
        assert!(!counted(Operation::Messages, Form::Whole, &whole[..30]).complete);
    }

    #[test]
    fn openai_streams_and_answers() {
        let last = r#"{"model":"gpt","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":8}}}"#;
        let stream = format!(
            "data: {{\"model\":\"gpt\",\"choices\":[{{}}],\"usage\":null}}\n\ndata: {last}\n\ndata: [DONE]\n\n"
        );
        let expected = Count { usage: usage(40, 20, 60, 0, 8), model: Some("gpt".into()), complete: true };
        assert_eq!(counted(Operation::Chat, Form::Events, &stream), expected);
        assert_eq!(counted(Operation::Chat, Form::Whole, last), expected);
        let response = r#"{"model":"gpt","usage":{"input_tokens":100,"output_tokens":20,"input_tokens_details":{"cached_tokens":60},"output_tokens_details":{"reasoning_tokens":8}}}"#;
        let stream = format!("event: x\ndata: {{\"type\":\"response.completed\",\"response\":{response}}}\n\n");
        assert_eq!(counted(Operation::Responses, Form::Events, &stream), expected);
        assert_eq!(counted(Operation::Responses, Form::Whole, response), expected);
    }

    #[test]
    fn gemini_streams_and_answers() {
        let last = r#"{"candidates":[{"finishReason":"STOP"}],"modelVersion":"g","usageMetadata":{"promptTokenCount":50,"candidatesTokenCount":7,"thoughtsTokenCount":3,"cachedContentTokenCount":20}}"#;
        let expected = Count { usage: usage(30, 10, 20, 0, 3), model: Some("g".into()), complete: true };
        let stream = format!("data: {{\"usageMetadata\":{{\"promptTokenCount\":50}}}}\r\n\r\ndata: {last}\r\n\r\n");
        assert_eq!(counted(Operation::Generate, Form::Events, &stream), expected);
        assert_eq!(counted(Operation::Generate, Form::Whole, last), expected);
        let array = format!("[{{\"usageMetadata\":{{\"promptTokenCount\":50}}}},\n{last}]");
        assert_eq!(counted(Operation::Generate, Form::Whole, &array), expected);
    }

    #[test]
    fn hostile_answers_cost_no_memory_and_count_nothing() {
        let mut meter = Meter::new(Operation::Messages, Form::Events);
        for _ in 0..100 {
            meter.take(&[b'x'; 64 << 10]);
            assert!(meter.text.len() <= LINE_MAX);
        }
        meter.take(
            b"\ndata: {\"usage\":{\"input_tokens\":-1,\"output_tokens\":\"x\"}}\ndata: {\"usage\":[]}\ndata: {\n",
        );
        assert_eq!(meter.finish(true), Count { usage: usage(0, 0, 0, 0, 0), model: None, complete: false });
        let broken = Meter::new(Operation::Messages, Form::Whole).finish(true);
        assert_eq!(broken, Count { usage: None, model: None, complete: false });
    }
}
