//! Parses the CLI's lines. Pure. The order of keys is not fixed, and new versions add unknown types.

use serde_json::Value;

use super::control;
use super::hooks::declared_timeout;
use super::usage::{self, StatedUsage};

/// The content of a line, as far as the runner needs it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StreamLine {
    /// A turn begins; contains the CLI's version.
    Init(String),
    /// The model wrote text or calls tools.
    Assistant { session: Option<String>, text: String, calls: Vec<Call> },
    /// Tools ended; contains the ids of their calls.
    ToolResults(Vec<String>),
    /// A turn is over.
    Result { session: Option<String>, outcome: Result<String, Complaint>, usage: StatedUsage },
    /// The CLI answered the request whether it lives.
    Alive,
    /// A piece of the text that the model is writing.
    Text(String),
    /// The model begins to write another text.
    Begins,
    /// Another piece of the model's output.
    Flows,
    /// The CLI queued a message, and will report when it reads it.
    Queued,
    /// The CLI has read a queued message.
    Took(String),
    /// Whether the CLI is working.
    Busy(bool),
    /// How many tasks run in the background now.
    Background(usize),
    /// The conversation was compacted; contains its former number of tokens.
    Compacted(Option<u64>),
    /// The API did not answer and the request is retried; contains the status and the error's name.
    Retries { status: Option<u64>, error: String },
    /// The quota is exhausted until this time, in seconds since 1970.
    Exhausted { until: Option<u64> },
    /// A request of the CLI: its id and content.
    Asks(String, Value),
    /// The CLI cancels a request.
    Withdraws(String),
    /// Anything else; only shows activity.
    Other,
    /// Not JSON.
    Noise,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) timeout_ms: Option<u64>,
}

/// Why a turn failed: the CLI's message, and the HTTP status of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) text: String,
    pub(super) status: Option<u64>,
}

pub(super) fn parse(line: &str) -> StreamLine {
    let Ok(mut line) = serde_json::from_str::<Value>(line) else { return StreamLine::Noise };
    match text(&line, "type") {
        "assistant" => StreamLine::Assistant {
            session: session(&line),
            text: if is_of_subagent(&line) { String::new() } else { written(&line) },
            calls: blocks(&line, "tool_use").map(call).collect(),
        },
        "user" => {
            StreamLine::ToolResults(blocks(&line, "tool_result").map(|b| text(b, "tool_use_id").to_owned()).collect())
        }
        "stream_event" => stream_event(&line),
        "result" => {
            StreamLine::Result { session: session(&line), outcome: outcome(&line), usage: usage::stated(&line) }
        }
        "command_lifecycle" if text(&line, "state") == "started" => {
            StreamLine::Took(text(&line, "command_uuid").to_owned())
        }
        "command_lifecycle" if text(&line, "state") == "queued" => StreamLine::Queued,
        "system" => system(&line),
        "rate_limit_event" => rate_limit(&line),
        "control_request" => {
            let id = text(&line, "request_id").to_owned();
            StreamLine::Asks(id, line.get_mut("request").map(Value::take).unwrap_or_default())
        }
        "control_response" if line.pointer("/response/request_id").is_some_and(|id| id == control::ALIVE) => {
            StreamLine::Alive
        }
        "control_cancel_request" => StreamLine::Withdraws(text(&line, "request_id").to_owned()),
        _ => StreamLine::Other,
    }
}

/// Whether a subagent wrote it. Subagents write for the agent, not for people.
fn is_of_subagent(line: &Value) -> bool {
    line.get("parent_tool_use_id").is_some_and(|parent| !parent.is_null())
}

/// The text of a message of the model.
fn written(line: &Value) -> String {
    blocks(line, "text").map(|block| text(block, "text")).collect()
}

/// A piece of the model's output.
fn stream_event(line: &Value) -> StreamLine {
    let Some(event) = line.get("event").filter(|_| !is_of_subagent(line)) else {
        return StreamLine::Flows;
    };
    match (text(event, "type"), event.get("delta")) {
        // A text stays visible while the tools run that the model calls after it.
        ("content_block_start", _) if event.pointer("/content_block/type").is_some_and(|kind| kind == "text") => {
            StreamLine::Begins
        }
        ("content_block_delta", Some(delta)) if text(delta, "type") == "text_delta" => {
            StreamLine::Text(text(delta, "text").to_owned())
        }
        _ => StreamLine::Flows,
    }
}

fn system(line: &Value) -> StreamLine {
    match text(line, "subtype") {
        "init" => StreamLine::Init(text(line, "claude_code_version").to_owned()),
        "background_tasks_changed" => {
            StreamLine::Background(line.get("tasks").and_then(Value::as_array).map_or(0, Vec::len))
        }
        "session_state_changed" => StreamLine::Busy(text(line, "state") == "running"),
        "compact_boundary" => {
            StreamLine::Compacted(line.pointer("/compact_metadata/pre_tokens").and_then(Value::as_u64))
        }
        "api_retry" => {
            StreamLine::Retries { status: number(line, "error_status"), error: text(line, "error").to_owned() }
        }
        _ => StreamLine::Other,
    }
}

fn rate_limit(line: &Value) -> StreamLine {
    let info = line.get("rate_limit_info").unwrap_or(line);
    match text(info, "status") {
        "rejected" => StreamLine::Exhausted { until: number(info, "resetsAt") },
        _ => StreamLine::Other,
    }
}

/// Whether an error says that the conversation to resume does not exist, or that the id of a new one is in use. The
/// texts differ between versions; each was observed with a missing, an empty or a malformed conversation.
pub(super) fn is_unknown_conversation(error: &str) -> bool {
    let error = error.to_lowercase();
    let follows = |first: &str, second: &str| error.split_once(first).is_some_and(|(_, rest)| rest.contains(second));
    error.contains("no conversation found")
        || error.contains("--resume requires a valid session id")
        || follows("enoent", ".jsonl")
        || follows("session", "not found")
        || follows("session id", "is already in use")
}

/// Errors also arrive as successful results: only `is_error` is reliable.
fn outcome(line: &Value) -> Result<String, Complaint> {
    let said = text(line, "result").to_owned();
    if line.get("is_error").and_then(Value::as_bool) != Some(true) {
        // An answer may be empty, but it must be a string.
        return match line.get("result") {
            Some(Value::String(_)) => Ok(said),
            _ => Err(Complaint {
                text: "the agent CLI ended its turn with a result that is not text".to_owned(),
                status: None,
            }),
        };
    }
    let errors = line.get("errors").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let kind = text(line, "subtype");
    let mut errors: Vec<&str> = errors.chain([said.as_str()]).filter(|error| !error.trim().is_empty()).collect();
    if errors.is_empty() {
        let silent = "the agent CLI ended its turn with an error and does not say which";
        errors.push(if kind.trim().is_empty() { silent } else { kind });
    }
    Err(Complaint { text: errors.join("; "), status: number(line, "api_error_status") })
}

fn call(block: &Value) -> Call {
    let name = text(block, "name").to_owned();
    let timeout_ms = block.get("input").and_then(|input| declared_timeout(&name, input));
    Call { id: text(block, "id").to_owned(), name, timeout_ms }
}

fn session(line: &Value) -> Option<String> {
    Some(text(line, "session_id").to_owned()).filter(|id| !id.is_empty())
}

fn blocks<'a>(line: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    let content = line.get("message").and_then(|message| message.get("content")).and_then(Value::as_array);
    content.into_iter().flatten().filter(move |block| text(block, "type") == kind)
}

fn number(value: &Value, field: &str) -> Option<u64> {
    value.get(field).and_then(Value::as_u64)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_and_their_ends_are_seen() {
        let call = r#"{"message":{"content":[{"type":"text","text":"x"},
            {"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls","timeout":5000}},
            {"type":"tool_use","id":"t2","name":"Read","input":{}}]},"session_id":"s","type":"assistant"}"#;
        let calls = [("t1", "Bash", Some(5000)), ("t2", "Read", None)].map(|(id, name, timeout_ms)| Call {
            id: id.to_owned(),
            name: name.to_owned(),
            timeout_ms,
        });
        let (session, text) = (Some("s".to_owned()), "x".to_owned());
        assert_eq!(parse(call), StreamLine::Assistant { session, text, calls: calls.to_vec() });
        let sub =
            r#"{"type":"assistant","parent_tool_use_id":"t1","message":{"content":[{"type":"text","text":"x"}]}}"#;
        assert_eq!(parse(sub), StreamLine::Assistant { session: None, text: String::new(), calls: vec![] });
        let result = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}"#;
        assert_eq!(parse(result), StreamLine::ToolResults(vec!["t1".to_owned()]));
        assert_eq!(parse(r#"{"type":"user","message":{"content":"typed"}}"#), StreamLine::ToolResults(vec![]));
    }

    /// Lines of the CLI 2.1.329.
    #[test]
    fn the_text_that_the_model_writes_is_seen() {
        let event = |event: &str, parent: &str| {
            format!(
                r#"{{"type":"stream_event","event":{event},"session_id":"740267ae","parent_tool_use_id":{parent},"uuid":"4d58f633"}}"#
            )
        };
        let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello th"}}"#;
        for (line, expected) in [
            (event(delta, "null"), StreamLine::Text("Hello th".to_owned())),
            (event(delta, "\"toolu_1\""), StreamLine::Flows),
            (
                event(r#"{"type":"message_start","message":{"id":"msg_fake0007","content":[]}}"#, "null"),
                StreamLine::Flows,
            ),
            (
                event(
                    r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t"}}"#,
                    "null",
                ),
                StreamLine::Flows,
            ),
            (
                event(r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#, "null"),
                StreamLine::Begins,
            ),
            (
                event(
                    r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
                    "null",
                ),
                StreamLine::Flows,
            ),
            (
                event(
                    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"x"}}"#,
                    "null",
                ),
                StreamLine::Flows,
            ),
            (
                event(r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":7}}"#, "null"),
                StreamLine::Text(String::new()),
            ),
            (event(r#"{"type":"content_block_stop","index":0}"#, "null"), StreamLine::Flows),
            (event("7", "null"), StreamLine::Flows),
            (r#"{"type":"stream_event"}"#.to_owned(), StreamLine::Flows),
        ] {
            assert_eq!(parse(&line), expected, "{line}");
        }
    }

    #[test]
    fn is_error_decides_and_not_the_subtype() {
        let complaint = |text: &str, status| Err(Complaint { text: text.to_owned(), status });
        for (line, outcome) in [
            (r#"{"type":"result","subtype":"success","is_error":false,"result":"42"}"#, Ok("42".to_owned())),
            (
                r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400","api_error_status":400}"#,
                complaint("API Error: 400", Some(400)),
            ),
            (
                r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["a","b"]}"#,
                complaint("a; b", None),
            ),
            (r#"{"type":"result","subtype":"error_max_turns","is_error":true}"#, complaint("error_max_turns", None)),
            (
                r#"{"type":"result","is_error":true,"errors":[" "]}"#,
                complaint("the agent CLI ended its turn with an error and does not say which", None),
            ),
            (r#"{"type":"result","is_error":false,"result":""}"#, Ok(String::new())),
            (
                r#"{"type":"result","result":7}"#,
                complaint("the agent CLI ended its turn with a result that is not text", None),
            ),
            (r#"{"type":"result"}"#, complaint("the agent CLI ended its turn with a result that is not text", None)),
        ] {
            assert_eq!(
                parse(line),
                StreamLine::Result { session: None, outcome, usage: StatedUsage::default() },
                "{line}"
            );
        }
    }

    #[test]
    fn every_way_to_say_that_a_conversation_is_unknown() {
        for error in [
            "No conversation found with session ID: 00000000-0000-4000-8000-000000000000",
            "Error: --resume requires a valid session ID or session title when used with --print. Usage: …",
            "ENOENT: no such file or directory, open '/h/.claude/projects/x/1.jsonl'",
            "Session 1234 was not found",
            "Error: Session ID 00000000-0000-4000-8000-000000000000 is already in use.",
        ] {
            assert!(is_unknown_conversation(error), "{error}");
        }
        for error in ["API Error: 529 overloaded", "not found", "ENOENT: no such file: /x"] {
            assert!(!is_unknown_conversation(error), "{error}");
        }
    }

    #[test]
    fn other_lines_are_signs_of_life() {
        for (line, expected) in [
            (r#"{"type":"system","subtype":"status"}"#, StreamLine::Other),
            (
                r#"{"type":"system","subtype":"init","claude_code_version":"2.1.329"}"#,
                StreamLine::Init("2.1.329".to_owned()),
            ),
            (
                r#"{"type":"control_request","request_id":"r","request":{"subtype":"x"}}"#,
                StreamLine::Asks("r".to_owned(), json!({"subtype": "x"})),
            ),
            (r#"{"type":"control_request","request_id":"r"}"#, StreamLine::Asks("r".to_owned(), Value::Null)),
            (r#"{"type":"control_cancel_request","request_id":"r"}"#, StreamLine::Withdraws("r".to_owned())),
            (
                r#"{"type":"control_response","response":{"subtype":"error","request_id":"hearth-alive"}}"#,
                StreamLine::Alive,
            ),
            (r#"{"type":"control_response","response":{"request_id":"hearth-interrupt"}}"#, StreamLine::Other),
            (r#"{"type":"command_lifecycle","command_uuid":"u","state":"queued"}"#, StreamLine::Queued),
            (r#"{"type":"command_lifecycle","command_uuid":"u","state":"completed"}"#, StreamLine::Other),
            (r#"{"type":"command_lifecycle","command_uuid":"u","state":"started"}"#, StreamLine::Took("u".to_owned())),
            (r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#, StreamLine::Busy(false)),
            (
                r#"{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b9lzk7pxf","task_type":"local_bash","description":"build it"}]}"#,
                StreamLine::Background(1),
            ),
            (r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#, StreamLine::Background(0)),
            (r#"{"type":"system","subtype":"background_tasks_changed","tasks":7}"#, StreamLine::Background(0)),
            (
                r#"{"type":"system","subtype":"compact_boundary","compact_metadata":{"pre_tokens":19146}}"#,
                StreamLine::Compacted(Some(19_146)),
            ),
            (
                r#"{"type":"system","subtype":"api_retry","error_status":null,"error":"unknown"}"#,
                StreamLine::Retries { status: None, error: "unknown".to_owned() },
            ),
            (
                r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":17}}"#,
                StreamLine::Exhausted { until: Some(17) },
            ),
            (
                r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":17}}"#,
                StreamLine::Other,
            ),
            ("[1]", StreamLine::Other),
            ("Warning: x", StreamLine::Noise),
            ("", StreamLine::Noise),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
