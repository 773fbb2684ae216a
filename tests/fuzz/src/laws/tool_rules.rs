//! Rules about tool calls.

use hearth::model::tool::{
    Call, Place, ToolPattern, ToolPolicy, ToolPreset, ToolRule, ToolVerdict, digest, grants_text,
};
use serde_json::Value;

use super::headed;

/// A pattern, the name of a tool in the second line, and its input: JSON, or else a shell command. A pattern is written
/// as it is read. Another `deny` never allows more, another `allow` never overrides an `ask` or a `deny`, and what a
/// pattern allows it also denies. A call is allowed by the answer that is made of it.
pub fn tool_rules(bytes: &[u8]) {
    let Some((pattern, rest)) = headed(bytes) else { return };
    let Some((tool, input)) = headed(rest) else { return };
    let text = String::from_utf8_lossy(input);
    let input = serde_json::from_str::<Value>(&text).unwrap_or_else(|_| serde_json::json!({ "command": text }));
    match ToolPattern::parse(pattern) {
        Ok(read) => assert_eq!(ToolPattern::parse(&read.to_string()).as_ref(), Ok(&read)),
        Err(why) => assert!(!why.is_empty()),
    }
    let folder = "/workspace/agent".to_owned();
    let place = Place { inside: vec![folder.clone(), "/tmp".to_owned()], folder, ..Place::default() };
    let call = Call { tool, kind: "", input: &input, place: &place };
    let rule = |verdict, pattern: &str| ToolRule { verdict, pattern: pattern.to_owned() };
    for preset in ToolPreset::ALL {
        for first in ToolVerdict::ALL {
            let policy = |rules: Vec<ToolRule>| ToolPolicy { preset, rules, granted: vec![pattern.to_owned()] };
            let judged = |rules: Vec<ToolRule>| policy(rules).judge(&call).verdict;
            let before = judged(vec![rule(first, "*")]);
            let denied = judged(vec![rule(first, "*"), rule(ToolVerdict::Deny, pattern)]);
            assert!(denied == before || denied == ToolVerdict::Deny, "{before:?} becomes {denied:?}");
            let allowed = judged(vec![rule(first, "*"), rule(ToolVerdict::Allow, pattern)]);
            assert_eq!(allowed, before);
        }
    }
    let locked = |rules| ToolPolicy { preset: ToolPreset::Locked, rules, granted: Vec::new() }.judge(&call).verdict;
    let is_covered = locked(vec![rule(ToolVerdict::Allow, pattern)]) < locked(Vec::new());
    assert!(!is_covered || locked(vec![rule(ToolVerdict::Deny, pattern)]) == ToolVerdict::Deny);
    if let Some(made) = ToolPattern::of(&call) {
        assert!(grants_text(&made.to_string(), tool, &input.to_string(), &place.folder), "{made}");
    }
    assert_eq!(digest(tool, &input).len(), 64);
}
