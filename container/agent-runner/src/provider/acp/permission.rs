//! Answers an agent's requests for permission. Pure.
//!
//! Tools are allowed once each, since what confines the agent is its container or its process. Permission is never given
//! for ever: some agents write that into files that outlive the turn.

use serde_json::{Value, json};

use crate::provider::is_blocked;

/// The answer to a request for permission for the tool `tool`.
pub(super) fn decide(params: &Value, tool: &str, blocked: &[String]) -> Value {
    let wanted = if is_blocked(tool, blocked) { "reject_once" } else { "allow_once" };
    let options = params.get("options").and_then(Value::as_array);
    let option = options.into_iter().flatten().find(|option| text(option, "kind") == Some(wanted));
    match option.and_then(|option| text(option, "optionId")) {
        Some(id) => json!({"outcome": {"outcome": "selected", "optionId": id}}),
        None => cancelled(),
    }
}

/// Whether an answer to a request allows the tool.
pub(super) fn allows(answer: &Value, params: &Value) -> bool {
    let chosen = answer.pointer("/outcome/optionId").and_then(Value::as_str);
    let options = params.get("options").and_then(Value::as_array).into_iter().flatten();
    let mut chosen = options.filter(|option| chosen.is_some() && text(option, "optionId") == chosen);
    chosen.any(|option| text(option, "kind") == Some("allow_once"))
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// The answer that decides nothing.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kinds: &[&str]) -> Value {
        let options: Vec<Value> =
            kinds.iter().map(|kind| json!({"optionId": format!("o-{kind}"), "name": "x", "kind": kind})).collect();
        json!({ "options": options })
    }

    fn chosen(kinds: &[&str], tool: &str) -> Option<String> {
        let answer = decide(&asked(kinds), tool, &["web*".to_owned()]);
        answer["outcome"]["optionId"].as_str().map(str::to_owned)
    }

    #[test]
    fn permission_is_given_once_and_never_for_ever() {
        assert_eq!(chosen(&["allow_always", "allow_once", "reject_once"], "bash").as_deref(), Some("o-allow_once"));
        assert_eq!(chosen(&["allow_always", "reject_always"], "bash"), None);
        assert_eq!(chosen(&[], "bash"), None);
        assert_eq!(decide(&json!(5), "bash", &[]), cancelled());
    }

    #[test]
    fn a_blocked_tool_is_refused() {
        assert_eq!(chosen(&["allow_once", "reject_once"], "web_fetch").as_deref(), Some("o-reject_once"));
        assert_eq!(chosen(&["allow_once"], "web_fetch"), None);
    }
}
