//! What the CLI's lines mean. Pure; the order of their keys is not fixed and unknown types come with every version.

use serde_json::{Value, json};

/// The parts of a line the runner acts upon.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Line {
    /// The model said something or calls tools.
    Assistant { session: Option<String>, calls: Vec<Call> },
    /// Tools ended; their calls.
    ToolResults(Vec<String>),
    /// The turn is over.
    Result { session: Option<String>, outcome: Result<String, String> },
    /// The CLI wants an answer of the runner; the id of its request.
    Asks(String),
    /// A message for the server of tools that lives in this process, in the CLI's request of this id.
    Mcp { request: String, message: Value },
    /// Anything else: a sign of life.
    Other,
    /// Not JSON.
    Noise,
}

/// A tool that is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) timeout_ms: Option<u64>,
}

pub(crate) fn parse(line: &str) -> Line {
    let Ok(line) = serde_json::from_str::<Value>(line) else { return Line::Noise };
    match text(&line, "type") {
        "assistant" => {
            Line::Assistant { session: session(&line), calls: blocks(&line, "tool_use").map(call).collect() }
        }
        "user" => Line::ToolResults(blocks(&line, "tool_result").map(|b| text(b, "tool_use_id").to_owned()).collect()),
        "result" => Line::Result { session: session(&line), outcome: outcome(&line) },
        "control_request" if is_for_our_tools(&line) => Line::Mcp {
            request: text(&line, "request_id").to_owned(),
            message: line.pointer("/request/message").cloned().unwrap_or_default(),
        },
        "control_request" => Line::Asks(text(&line, "request_id").to_owned()),
        _ => Line::Other,
    }
}

/// A turn's message for the CLI.
pub(crate) fn user(prompt: &str) -> String {
    let message = json!({"role": "user", "content": prompt});
    json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": ""}).to_string()
}

/// The first line for the CLI. The instructions replace those a resumed conversation began with.
pub(crate) fn initialize(instructions: &str) -> String {
    let request = json!({
        "subtype": "initialize",
        "appendSystemPrompt": instructions,
        "systemPromptSnapshot": false,
        "sdkMcpServers": ["nanoclaw"],
    });
    json!({"type": "control_request", "request_id": "hearth-initialize", "request": request}).to_string()
}

fn is_for_our_tools(line: &Value) -> bool {
    let is = |path: &str, word: &str| line.pointer(path).and_then(Value::as_str) == Some(word);
    is("/request/subtype", "mcp_message") && is("/request/server_name", "nanoclaw")
}

/// What the server of tools says to a request. The CLI wants something even where MCP wants nothing.
pub(crate) fn tools_answer(request_id: &str, answer: Option<Value>) -> String {
    let answer = answer.unwrap_or_else(|| json!({"jsonrpc": "2.0", "result": {}, "id": 0}));
    let response = json!({"subtype": "success", "request_id": request_id, "response": {"mcp_response": answer}});
    json!({"type": "control_response", "response": response}).to_string()
}

/// Says no to a request, so that the CLI does not wait for ever.
pub(crate) fn refusal(request_id: &str) -> String {
    let response = json!({"subtype": "error", "request_id": request_id, "error": "not supported"});
    json!({"type": "control_response", "response": response}).to_string()
}

/// Whether an error says that the conversation to resume does not exist. Versions say it differently; each text was
/// seen with a missing, an empty or a malformed conversation.
pub(crate) fn is_unknown_conversation(error: &str) -> bool {
    let error = error.to_lowercase();
    let follows = |first: &str, second: &str| error.split_once(first).is_some_and(|(_, rest)| rest.contains(second));
    error.contains("no conversation found")
        || error.contains("--resume requires a valid session id")
        || follows("enoent", ".jsonl")
        || follows("session", "not found")
}

/// Errors come as a successful result, too: only `is_error` tells.
fn outcome(line: &Value) -> Result<String, String> {
    let said = text(line, "result").to_owned();
    if line.get("is_error").and_then(Value::as_bool) != Some(true) {
        return Ok(said);
    }
    let errors = line.get("errors").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let mut errors: Vec<&str> = errors.chain([said.as_str()]).filter(|error| !error.is_empty()).collect();
    if errors.is_empty() {
        errors.push(text(line, "subtype"));
    }
    Err(errors.join("; "))
}

fn call(block: &Value) -> Call {
    let timeout = block.get("input").and_then(|input| input.get("timeout")).and_then(Value::as_u64);
    let name = text(block, "name").to_owned();
    let timeout_ms = timeout.filter(|_| name == "Bash");
    Call { id: text(block, "id").to_owned(), name, timeout_ms }
}

fn session(line: &Value) -> Option<String> {
    Some(text(line, "session_id").to_owned()).filter(|id| !id.is_empty())
}

fn blocks<'a>(line: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    let content = line.get("message").and_then(|message| message.get("content")).and_then(Value::as_array);
    content.into_iter().flatten().filter(move |block| text(block, "type") == kind)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_and_their_ends_are_seen() {
        let call = r#"{"message":{"content":[{"type":"text","text":"x"},
            {"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls","timeout":5000}},
            {"type":"tool_use","id":"t2","name":"Read","input":{"timeout":1}}]},"session_id":"s","type":"assistant"}"#;
        let calls = [("t1", "Bash", Some(5000)), ("t2", "Read", None)].map(|(id, name, timeout_ms)| Call {
            id: id.to_owned(),
            name: name.to_owned(),
            timeout_ms,
        });
        assert_eq!(parse(call), Line::Assistant { session: Some("s".to_owned()), calls: calls.to_vec() });
        let result = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}"#;
        assert_eq!(parse(result), Line::ToolResults(vec!["t1".to_owned()]));
        assert_eq!(parse(r#"{"type":"user","message":{"content":"typed"}}"#), Line::ToolResults(vec![]));
    }

    #[test]
    fn is_error_decides_and_not_the_subtype() {
        for (line, expected) in [
            (r#"{"type":"result","subtype":"success","is_error":false,"result":"42"}"#, Ok("42")),
            (
                r#"{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400"}"#,
                Err("API Error: 400"),
            ),
            (r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["a","b"]}"#, Err("a; b")),
            (r#"{"type":"result","subtype":"error_max_turns","is_error":true}"#, Err("error_max_turns")),
        ] {
            let outcome = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(parse(line), Line::Result { session: None, outcome }, "{line}");
        }
    }

    #[test]
    fn every_way_to_say_that_a_conversation_is_unknown() {
        for error in [
            "No conversation found with session ID: 00000000-0000-4000-8000-000000000000",
            "Error: --resume requires a valid session ID or session title when used with --print. Usage: …",
            "ENOENT: no such file or directory, open '/h/.claude/projects/x/1.jsonl'",
            "Session 1234 was not found",
        ] {
            assert!(is_unknown_conversation(error), "{error}");
        }
        for error in ["API Error: 529 overloaded", "not found", "ENOENT: no such file: /x"] {
            assert!(!is_unknown_conversation(error), "{error}");
        }
    }

    #[test]
    fn other_lines_are_signs_of_life() {
        assert_eq!(parse(r#"{"type":"system","subtype":"init"}"#), Line::Other);
        assert_eq!(parse(r#"{"type":"control_request","request_id":"r"}"#), Line::Asks("r".to_owned()));
        assert_eq!(parse("Warning: x"), Line::Noise);
    }
}
