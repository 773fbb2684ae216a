//! Decides about the CLI's tool calls. Pure.

use serde_json::{Value, json};

use crate::provider::is_blocked;

/// Built-in tools that Hearth replaces, or that need a person at the terminal.
pub(super) const NEVER: [&str; 9] = [
    "CronCreate",
    "CronDelete",
    "CronList",
    "ScheduleWakeup",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "EnterWorktree",
    "ExitWorktree",
];

/// Prefix of this process's own tools, which declare timeouts in seconds.
const OWN: &str = "mcp__nanoclaw__";
/// For other servers' tools, smaller timeouts are taken as seconds, larger ones as milliseconds.
const LIKELY_SECONDS: f64 = 1000.0;

/// Why a tool may not be used, if so, worded for the agent.
pub(super) fn refusal(tool: &str, blocked: &[String]) -> Option<String> {
    if NEVER.contains(&tool) {
        return Some(format!("Tool '{tool}' is not available in this environment — use the nanoclaw equivalent."));
    }
    is_blocked(tool, blocked).then(|| {
        format!(
            "Tool '{tool}' is blocked for this agent: `blocked_tools` of its configuration names it, and only its \
             operator can change that."
        )
    })
}

/// The answer to a hook that allows the CLI to continue.
pub(super) fn go_on() -> Value {
    json!({"continue": true})
}

/// The answer to a hook that denies a tool; the turn continues.
pub(super) fn deny(reason: &str) -> Value {
    let output = json!({
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
    });
    json!({ "hookSpecificOutput": output })
}

/// The timeout that a tool call declares, in milliseconds, whatever its name and unit.
pub(super) fn declared_timeout(tool: &str, input: &Value) -> Option<u64> {
    let given = |name: &str| input.get(name).and_then(Value::as_f64).filter(|number| *number > 0.0);
    let of_unit = [("timeout_ms", 1.0), ("timeoutMs", 1.0), ("timeout_seconds", 1e3), ("timeout_minutes", 6e4)];
    let plain = || {
        let number = given("timeout")?;
        let seconds = tool.starts_with(OWN) || (tool.starts_with("mcp__") && number < LIKELY_SECONDS);
        Some(if seconds { number * 1e3 } else { number })
    };
    let found = of_unit.iter().find_map(|(name, factor)| given(name).map(|number| number * factor)).or_else(plain)?;
    std::time::Duration::try_from_secs_f64(found / 1e3).ok().and_then(|time| u64::try_from(time.as_millis()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_why() {
        let blocked = ["WebFetch".to_owned(), "mcp__web__*".to_owned(), "Bash(rm:*)".to_owned()];
        assert_eq!(
            refusal("CronCreate", &blocked).unwrap(),
            "Tool 'CronCreate' is not available in this environment — use the nanoclaw equivalent."
        );
        assert!(refusal("WebFetch", &blocked).unwrap().contains("`blocked_tools` of its configuration"));
        assert!(refusal("mcp__web__get", &blocked).is_some());
        for tool in ["Bash", "WebSearch", "mcp__webs__get", ""] {
            assert_eq!(refusal(tool, &blocked), None, "{tool}");
        }
    }

    #[test]
    fn timeouts_are_milliseconds_in_the_end() {
        for (tool, input, expected) in [
            ("Bash", json!({"timeout": 5000}), Some(5000)),
            ("Bash", json!({"timeout": 500}), Some(500)),
            ("TaskOutput", json!({"timeout": 30_000}), Some(30_000)),
            ("mcp__nanoclaw__ask_user_question", json!({"timeout": 300}), Some(300_000)),
            ("mcp__nanoclaw__ask_user_question", json!({"timeout": 7200}), Some(7_200_000)),
            ("mcp__web__get", json!({"timeout": 30}), Some(30_000)),
            ("mcp__web__get", json!({"timeout": 30_000}), Some(30_000)),
            ("mcp__web__get", json!({"timeout_seconds": 2.5}), Some(2500)),
            ("mcp__web__get", json!({"timeout_minutes": 2, "timeout": 1}), Some(120_000)),
            ("mcp__web__get", json!({"timeoutMs": 7}), Some(7)),
            ("Bash", json!({"timeout": "5000"}), None),
            ("Bash", json!({"timeout": -1}), None),
            ("Bash", json!({"timeout": 1e300}), None),
            ("Bash", json!({}), None),
            ("Bash", json!(null), None),
        ] {
            assert_eq!(declared_timeout(tool, &input), expected, "{tool} {input}");
        }
    }
}
