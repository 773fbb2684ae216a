//! The lines of the protocol: JSON-RPC 2.0, one object in each. Pure.

use serde::Deserialize;
use serde_json::{Value, json};

/// The code of an unknown method.
const METHOD_NOT_FOUND: i32 = -32601;

/// A line of the agent.
#[derive(Debug)]
pub(super) enum Line {
    /// The answer to a request of this side.
    Answer {
        id: u64,
        outcome: Result<Value, Refusal>,
    },
    /// A request of the agent.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notice {
        method: String,
        params: Value,
    },
    /// Nothing that can be understood.
    Noise,
}

/// The error that a request was answered with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Refusal {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) data: Value,
}

/// The parts that a line may have.
#[derive(Deserialize)]
struct Parts {
    #[serde(default)]
    id: Value,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<Refusal>,
}

pub(super) fn parse(line: &str) -> Line {
    let Ok(Parts { id, method, params, result, error }) = serde_json::from_str(line) else { return Line::Noise };
    match (method, id) {
        (Some(method), Value::Null) => Line::Notice { method, params },
        (Some(method), id) => Line::Request { id, method, params },
        (None, id) => match id.as_u64() {
            Some(id) => Line::Answer { id, outcome: error.map_or(Ok(result), Err) },
            None => Line::Noise,
        },
    }
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

pub(super) fn notice(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

pub(super) fn answer(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// The answer to a request that this side does not offer.
pub(super) fn unknown_method(id: &Value, method: &str) -> String {
    let message = format!("Method not found: {method}");
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": METHOD_NOT_FOUND, "message": message}}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_kind() {
        assert!(matches!(
            parse(r#"{"id":3,"result":{"a":1}}"#),
            Line::Answer { id: 3, outcome: Ok(result) } if result["a"] == 1
        ));
        let refused = parse(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"no"}}"#);
        assert!(matches!(refused, Line::Answer { outcome: Err(Refusal { code: -32000, .. }), .. }));
        assert!(matches!(parse(r#"{"id":"x","method":"m"}"#), Line::Request { .. }));
        assert!(matches!(parse(r#"{"method":"m","params":{}}"#), Line::Notice { .. }));
    }

    #[test]
    fn nonsense_is_noise() {
        for line in ["", "null", "[]", "7", "this is not JSON", "{}", r#"{"id":-1,"result":1}"#, r#"{"id":null}"#] {
            assert!(matches!(parse(line), Line::Noise), "{line}");
        }
        let parse_error = r#"{"id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
        assert!(matches!(parse(parse_error), Line::Noise));
    }
}
