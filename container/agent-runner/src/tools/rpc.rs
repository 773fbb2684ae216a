//! JSON-RPC 2.0 and the part of MCP that a tool server needs. Pure.

use serde_json::{Map, Value, json};

/// Supported versions of MCP, newest last. The parts that this server uses are the same in all of them.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Error codes of JSON-RPC.
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
/// Characters of the client's text shown in an error.
const SHOWN_CHARS: usize = 100;

/// A parsed message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Incoming {
    /// A request with this id.
    Asked { id: Value, question: Question },
    /// The call with this id is cancelled.
    Cancelled(Value),
    /// Needs no answer and no action.
    Nothing,
    /// An invalid request. Its id is null if it has no usable one.
    Wrong { id: Value, code: i32, message: String },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Question {
    Initialize { version: Option<String> },
    Ping,
    ListTools,
    Call { name: String, arguments: Value },
}

/// Parses one message. As JSON-RPC requires, a message without an `id` gets no answer, even if it is invalid.
pub(super) fn read(message: Value) -> Incoming {
    let wrong = |id: Value, message: &str| Incoming::Wrong { id, code: INVALID_REQUEST, message: message.to_owned() };
    let Value::Object(mut fields) = message else { return wrong(Value::Null, "a message is one JSON object") };
    let id = fields.remove("id");
    let usable = match id {
        Some(id @ (Value::String(_) | Value::Number(_))) => Some(id),
        Some(_) => return wrong(Value::Null, "an id is a string or a number"),
        None => None,
    };
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return wrong(usable.unwrap_or_default(), "a message has \"jsonrpc\": \"2.0\"");
    }
    let method = match fields.remove("method") {
        Some(Value::String(method)) => method,
        // An answer, although this server sends no requests.
        None if fields.contains_key("result") || fields.contains_key("error") => return Incoming::Nothing,
        _ => return wrong(usable.unwrap_or_default(), "a method is a string"),
    };
    let params = fields.remove("params").unwrap_or_default();
    match usable {
        None => notified(&method, params),
        Some(id) if matches!(params, Value::Object(_) | Value::Array(_) | Value::Null) => asked(id, &method, params),
        Some(id) => wrong(id, "params are an object"),
    }
}

fn notified(method: &str, params: Value) -> Incoming {
    let id = params.get("requestId").filter(|_| method == "notifications/cancelled");
    id.map_or(Incoming::Nothing, |id| Incoming::Cancelled(id.clone()))
}

fn asked(id: Value, method: &str, params: Value) -> Incoming {
    let mut params = match params {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let question = match method {
        "initialize" => {
            Question::Initialize { version: params.get("protocolVersion").and_then(Value::as_str).map(str::to_owned) }
        }
        "ping" => Question::Ping,
        "tools/list" => Question::ListTools,
        "tools/call" => match (params.remove("name"), params.remove("arguments")) {
            (Some(Value::String(name)), arguments) => Question::Call { name, arguments: arguments.unwrap_or_default() },
            _ => {
                let message = "tools/call needs the name of a tool".to_owned();
                return Incoming::Wrong { id, code: INVALID_PARAMS, message };
            }
        },
        other => {
            let message = format!("Method not found: {}", shown(other));
            return Incoming::Wrong { id, code: METHOD_NOT_FOUND, message };
        }
    };
    Incoming::Asked { id, question }
}

/// Describes this server, with the requested protocol version if it is supported, else the newest one.
pub(super) fn greeting(version: Option<&str>) -> Value {
    let [.., newest] = VERSIONS;
    let version = VERSIONS.into_iter().find(|known| Some(*known) == version).unwrap_or(newest);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "nanoclaw", "version": "2.0.0"},
    })
}

pub(super) fn success(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(super) fn failure(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// The result of a tool call, or its error.
pub(super) fn tool_result(outcome: Result<String, String>) -> Value {
    match outcome {
        Ok(text) => json!({"content": [{"type": "text", "text": text}]}),
        Err(why) => failed(&format!("Error: {why}")),
    }
}

pub(super) fn unknown_tool(name: &str) -> Value {
    failed(&format!("Unknown tool: {}", shown(name)))
}

fn failed(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: Value) -> Question {
        Question::Call { name: name.to_owned(), arguments }
    }

    #[test]
    fn what_is_asked_is_understood() {
        for (message, id, question) in [
            (
                json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "x"}}),
                json!(0),
                Question::Initialize { version: Some("x".to_owned()) },
            ),
            (
                json!({"jsonrpc": "2.0", "id": "a", "method": "initialize"}),
                json!("a"),
                Question::Initialize { version: None },
            ),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), json!(1), Question::Ping),
            (
                json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"cursor": "c"}}),
                json!(2),
                Question::ListTools,
            ),
            (
                json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
                    "params": {"name": "t", "arguments": {"a": 1}, "_meta": {"claudecode/toolUseId": "u"}}}),
                json!(3),
                call("t", json!({"a": 1})),
            ),
            (
                json!({"jsonrpc": "2.0", "id": 3.5, "method": "tools/call", "params": {"name": "t"}}),
                json!(3.5),
                call("t", Value::Null),
            ),
        ] {
            assert_eq!(read(message.clone()), Incoming::Asked { id, question }, "{message}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_so_and_notifications_are_not() {
        for (message, id, code) in [
            (json!([]), json!(null), INVALID_REQUEST),
            (json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]), json!(null), INVALID_REQUEST),
            (json!("ping"), json!(null), INVALID_REQUEST),
            (json!({}), json!(null), INVALID_REQUEST),
            (json!({"id": 1, "method": "ping"}), json!(1), INVALID_REQUEST),
            (json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}), json!(1), INVALID_REQUEST),
            (json!({"jsonrpc": "2.0", "id": null, "method": "ping"}), json!(null), INVALID_REQUEST),
            (json!({"jsonrpc": "2.0", "id": [1], "method": "ping"}), json!(null), INVALID_REQUEST),
            (json!({"jsonrpc": "2.0", "id": 1}), json!(1), INVALID_REQUEST),
            (json!({"jsonrpc": "2.0", "id": 1, "method": 5}), json!(1), INVALID_REQUEST),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 5}), json!(1), INVALID_REQUEST),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}), json!(1), METHOD_NOT_FOUND),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}), json!(1), METHOD_NOT_FOUND),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call"}), json!(1), INVALID_PARAMS),
            (
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 1}}),
                json!(1),
                INVALID_PARAMS,
            ),
        ] {
            match read(message.clone()) {
                Incoming::Wrong { id: found, code: told, .. } => assert_eq!((found, told), (id, code), "{message}"),
                other => panic!("{message}: {other:?}"),
            }
        }
        for message in [
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "method": "invented", "params": 5}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}),
        ] {
            assert_eq!(read(message.clone()), Incoming::Nothing, "{message}");
        }
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        assert_eq!(read(cancelled), Incoming::Cancelled(json!(7)));
    }

    #[test]
    fn versions_are_agreed_upon() {
        for (asked, agreed) in [
            (Some("2025-06-18"), "2025-06-18"),
            (Some("2024-11-05"), "2024-11-05"),
            (Some("2099-01-01"), "2025-11-25"),
            (None, "2025-11-25"),
        ] {
            let greeting = greeting(asked);
            assert_eq!(greeting["protocolVersion"], agreed, "{asked:?}");
            assert_eq!(greeting["serverInfo"], json!({"name": "nanoclaw", "version": "2.0.0"}));
        }
    }

    #[test]
    fn errors_of_tools_are_results() {
        let unknown = json!({"content": [{"type": "text", "text": "Unknown tool: fly"}], "isError": true});
        assert_eq!(unknown_tool("fly"), unknown);
        let refused = json!({"content": [{"type": "text", "text": "Error: no"}], "isError": true});
        assert_eq!(tool_result(Err("no".to_owned())), refused);
        assert_eq!(tool_result(Ok("yes".to_owned())), json!({"content": [{"type": "text", "text": "yes"}]}));
    }
}
