//! Builds the lines written to the CLI: messages, the runner's requests, and answers to the CLI's requests. Pure.

use serde_json::{Value, json};

use crate::images::Image;

/// The hooks that the runner subscribes to; each name is also its callback id.
const HOOKS: [&str; 4] = ["PreToolUse", "PostToolUse", "PostToolUseFailure", "PreCompact"];
/// How long the CLI waits for the answer to a hook, in seconds: a person may have to decide. The host ends the wait
/// earlier.
const HOOK_SECONDS: u64 = 7_800;
/// Name of the MCP server in this process.
pub(super) const SERVER: &str = "nanoclaw";

/// Id of the request whether the CLI lives.
pub(super) const ALIVE: &str = "hearth-alive";

/// A message of a turn, with blocks of images before its text. The CLI refers to it by `uuid`.
pub(super) fn user(text: &str, images: Vec<Image>, uuid: &str) -> String {
    let content = if images.is_empty() {
        text.into()
    } else {
        let text = json!({"type": "text", "text": text});
        let image = |Image { kind, data }| json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}});
        images.into_iter().map(image).chain([text]).collect::<Value>()
    };
    let message = json!({"role": "user", "content": content});
    json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": "", "uuid": uuid}).to_string()
}

/// The first line. The instructions replace those that a resumed conversation started with.
pub(super) fn initialize(instructions: &str) -> String {
    let hook = |hook: &&str| ((*hook).to_owned(), json!([{"hookCallbackIds": [hook], "timeout": HOOK_SECONDS}]));
    let hooks: Value = HOOKS.iter().map(hook).collect();
    request(
        "hearth-initialize",
        &json!({
            "subtype": "initialize",
            "hooks": hooks,
            "sdkMcpServers": [SERVER],
            "appendSystemPrompt": instructions,
            "systemPromptSnapshot": false,
        }),
    )
}

/// Interrupts the CLI, like a person pressing a key.
pub(super) fn interrupt() -> String {
    request("hearth-interrupt", &json!({"subtype": "interrupt"}))
}

/// Asks whether the CLI lives. Any answer will do, and costs no tokens.
pub(super) fn ask_alive() -> String {
    request(ALIVE, &json!({"subtype": "mcp_status"}))
}

fn request(id: &str, request: &Value) -> String {
    json!({"type": "control_request", "request_id": id, "request": request}).to_string()
}

/// The answer to a request of the CLI.
pub(super) fn answer(request_id: &str, answer: &Value) -> String {
    let response = json!({"subtype": "success", "request_id": request_id, "response": answer});
    json!({"type": "control_response", "response": response}).to_string()
}

/// The answer to an MCP message.
pub(super) fn mcp_answer(request_id: &str, message: &Value) -> String {
    answer(request_id, &json!({"mcp_response": message}))
}

/// The CLI expects an answer even to MCP notifications.
pub(super) fn mcp_nothing() -> Value {
    json!({"jsonrpc": "2.0", "result": {}, "id": 0})
}

/// Rejects a request, so that the CLI does not wait forever.
pub(super) fn refusal(request_id: &str) -> String {
    let response = json!({"subtype": "error", "request_id": request_id, "error": "not supported"});
    json!({"type": "control_response", "response": response}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_named_after_their_events() {
        let line: Value = serde_json::from_str(&initialize("be kind")).unwrap();
        assert_eq!(
            line["request"]["hooks"]["PreCompact"],
            json!([{"hookCallbackIds": ["PreCompact"], "timeout": 7_800}])
        );
        assert_eq!(line["request"]["sdkMcpServers"], json!(["nanoclaw"]));
        assert_eq!(line["request"]["systemPromptSnapshot"], false);
    }
}
