//! Requests and output of agents and of the programs that run them.

use agent_runner::{Roots, addressed, ended, rehearse, strip_internal};
use hearth::mailbox::{Judged, judge};
use hearth::model::request::RequestedAction;
use hearth_wire::{Context, InMessage};
use serde_json::{Value, json};

const CONTEXT: &str = include_str!("../../../../container/wire/fixtures/context.json");
const MESSAGE: &str = include_str!("../../../../container/wire/fixtures/in-message.json");

/// One JSON-RPC message, or the arguments of each tool. A request gets a response with its id. A file that would be
/// written is one that the host parses, even if it refuses the request.
pub fn tools(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    let context: Context = serde_json::from_str(CONTEXT).expect("a context");
    let asked: InMessage = serde_json::from_str(MESSAGE).expect("a message");
    let asked = [asked];
    let roots = Roots::default();
    let ask = |message: Value| rehearse(message, &context, &asked, &roots);
    let listed = ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).expect("tools are listed");
    if value.get("jsonrpc").is_none() {
        for tool in listed["result"]["tools"].as_array().expect("a list") {
            let params = json!({"name": tool["name"], "arguments": value});
            let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
            answered(ask(call), &json!(7));
        }
        return;
    }
    let id = value.get("id").filter(|id| id.is_string() || id.is_number()).cloned().unwrap_or_default();
    answered(ask(value), &id);
}

fn answered(answer: Option<Value>, id: &Value) {
    let Some(answer) = answer else { return };
    match answer.get("post") {
        Some(post) => posted(post.clone()),
        None => {
            assert_eq!(&answer["id"], id, "{answer}");
            assert!(answer.get("result").is_some() != answer.get("error").is_some(), "{answer}");
        }
    }
}

fn posted(mut post: Value) {
    let ids = json!({"v": 1, "id": "3-33-12", "incarnation": 3, "number": 33, "final": false, "request_id": "3-33-12"});
    let (Value::Object(message), Value::Object(ids)) = (&mut post, ids) else { panic!("{post}") };
    message.extend(ids);
    let file = serde_json::to_vec(&post).expect("a value can be written");
    match judge("out/3-33-12.json", &file) {
        Ok(Judged::Said(said, false)) => {
            if let RequestedAction::Impossible(why) = said.action {
                assert!(!why.is_empty(), "{post}");
            }
        }
        other => panic!("{other:?}: {post}"),
    }
}

/// A line that the agent CLI writes, or its final output. A failed turn states a reason. Final output loses nothing but
/// tags, white space and internal text.
pub fn cli(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(Err(why)) = ended(text) {
        assert!(!why.trim().is_empty(), "{text}");
    }
    let words = strip_internal(text);
    let said = addressed(text);
    let mut rest = words.as_str();
    for (name, words) in &said {
        assert!(!words.is_empty() && words.trim() == words, "{words:?}");
        rest = without_empty_blocks(rest);
        if name.is_some() {
            let (named, inside) = opening(rest).unwrap_or_else(|| panic!("{name:?} is not named: {rest}"));
            assert_eq!(Some(named), name.as_deref(), "{rest}");
            rest = inside.trim_start();
        }
        rest = rest.strip_prefix(words.as_str()).unwrap_or_else(|| panic!("{words:?} are not the words of {rest}"));
        if name.is_some() {
            rest = rest.trim_start().strip_prefix(END).unwrap_or_else(|| panic!("a block goes on: {rest}"));
        }
    }
    assert_eq!(without_empty_blocks(rest), "", "{said:?}");
}

const END: &str = "</message>";

fn without_empty_blocks(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some((_, inside)) = opening(rest)
        && let Some(after) = inside.trim_start().strip_prefix(END)
    {
        rest = after.trim_start();
    }
    rest
}

/// Name and content of a block at the beginning of a text.
fn opening(text: &str) -> Option<(&str, &str)> {
    let tag = text.strip_prefix("<message")?;
    let (name, after) = tag.trim_start().strip_prefix("to=\"")?.split_once('"')?;
    let inside = after.trim_start().strip_prefix('>')?;
    let is_name = !name.is_empty() && !name.contains(['<', '>']);
    (tag.starts_with(char::is_whitespace) && is_name).then_some((name, inside))
}
