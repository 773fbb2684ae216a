//! The MCP server `nanoclaw` that the agent's tools come from, served in this process: JSON-RPC messages in, answers out.

use serde_json::{Value, json};

use crate::report::{Report, TurnError};

/// The server of one provider's process.
#[derive(Debug)]
pub(crate) struct Server {}

impl Server {
    pub(crate) fn new() -> Self {
        Self {}
    }

    /// Does what a message asks for; its answer, or none if it will come later or the message wants none.
    #[expect(clippy::unnecessary_wraps, reason = "tools that write can fail")]
    pub(crate) fn take(&mut self, message: Value, _report: &mut Report<'_>) -> Result<Option<Value>, TurnError> {
        let Some(id) = message.get("id").cloned() else { return Ok(None) };
        let result = match message.get("method").and_then(Value::as_str).unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message.pointer("/params/protocolVersion").cloned().unwrap_or("2025-06-18".into()),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "nanoclaw", "version": "2.0.0"},
            }),
            "ping" => json!({}),
            "tools/list" => json!({"tools": []}),
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                return Ok(Some(json!({"jsonrpc": "2.0", "id": id, "error": error})));
            }
        };
        Ok(Some(json!({"jsonrpc": "2.0", "id": id, "result": result})))
    }

    /// Answers that have come meanwhile, with the ids of what they answer.
    #[expect(clippy::unnecessary_wraps, reason = "tools that write can fail")]
    pub(crate) fn settle(&mut self, _report: &mut Report<'_>) -> Result<Vec<(Value, Value)>, TurnError> {
        Ok(Vec::new())
    }
}
