//! Parses what a runner says about tool calls. Pure and bounded.

use serde_json::Value;

use super::{Fields, filled, list, string};
use crate::mailbox::text;
use crate::model::content::RawJson;
use crate::model::time::Millis;
use crate::model::tool::{
    Call, NewToolCall, Place, ToolBasis, ToolCall, ToolField, ToolOutcome, ToolPattern, ToolPreset, ToolRule,
    ToolValue, ToolVerdict, digest,
};

/// Characters of a tool's name.
const NAME_CHARS: usize = 128;
/// Bytes of an input: a person has to read all of it.
const INPUT_BYTES: usize = 256 * 1024;
/// Characters of a path.
const PATH_CHARS: usize = 4_096;
/// Characters of the beginning of an input.
const EXCERPT_CHARS: usize = 500;
/// Characters of a pattern.
const PATTERN_CHARS: usize = 1_000;
/// Characters of a digest.
const DIGEST_CHARS: usize = 64;
/// Calls in one record.
const CALLS: usize = 64;

/// Parses the question whether a tool may be used.
pub(super) fn question(content: &Fields) -> Result<NewToolCall, String> {
    let tool = name(content).ok_or("use_tool needs the name of a tool, of at most 128 characters")?;
    let input = content.get("input").unwrap_or(&Value::Null);
    let size = input.to_string().len();
    if size > INPUT_BYTES {
        return Err(format!(
            "the input of the tool has {size} bytes, and a person would have to read all of it; at most {INPUT_BYTES} can be \
             asked about"
        ));
    }
    let folder = filled(content, "folder").filter(|folder| folder.starts_with('/'));
    let folder = folder.filter(|folder| folder.chars().count() <= PATH_CHARS).unwrap_or("/").to_owned();
    let kind: String = string(content, "kind").unwrap_or_default().chars().take(NAME_CHARS).collect();
    let place = Place { folder: folder.clone(), ..Place::default() };
    let pattern = ToolPattern::of(&Call { tool: &tool, kind: &kind, input, place: &place });
    Ok(NewToolCall {
        digest: digest(&tool, input),
        pattern: pattern.map(|pattern| pattern.to_string()),
        fields: fields(input),
        input: RawJson::trusted(input.to_string()),
        tool,
        kind,
        folder,
    })
}

fn name(content: &Fields) -> Option<String> {
    let name = filled(content, "tool").filter(|name| name.chars().count() <= NAME_CHARS)?;
    (!name.chars().any(char::is_control)).then(|| name.to_owned())
}

fn fields(input: &Value) -> Vec<ToolField> {
    let value = |value: &Value| match value {
        Value::String(text) => ToolValue::Text(text.clone()),
        other => ToolValue::Json(other.to_string()),
    };
    match input {
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| ToolField { name: name.clone(), value: value(field) }).collect()
        }
        other => vec![ToolField { name: String::new(), value: value(other) }],
    }
}

/// Parses a record of calls that are over. Those that cannot be read are left out.
pub(super) fn record(content: &Fields) -> Vec<ToolCall> {
    list(content, "calls").iter().take(CALLS).filter_map(Value::as_object).filter_map(call).collect()
}

fn call(content: &Fields) -> Option<ToolCall> {
    Some(ToolCall {
        tool: name(content)?,
        digest: string(content, "digest")?.chars().take(DIGEST_CHARS).filter(char::is_ascii_hexdigit).collect(),
        excerpt: text::cut(string(content, "excerpt").unwrap_or_default(), EXCERPT_CHARS),
        basis: basis(content),
        outcome: ToolOutcome::parse(string(content, "outcome")?)?,
        took: Millis::new(content.get("ms").and_then(Value::as_u64).unwrap_or_default()),
    })
}

fn basis(content: &Fields) -> ToolBasis {
    let short = |key: &str| string(content, key).map(|pattern| text::cut(pattern, PATTERN_CHARS));
    let verdict = |word: &str| ToolVerdict::ALL.into_iter().find(|verdict| verdict.as_str() == word);
    let preset = |word: &str| ToolPreset::ALL.into_iter().find(|preset| preset.as_str() == word);
    let is_set = |key: &str| content.get(key).and_then(Value::as_bool) == Some(true);
    let rule = || Some(ToolRule { verdict: verdict(string(content, "rule")?)?, pattern: short("pattern")? });
    if let Some(approval) = string(content, "approval").and_then(|id| id.parse().ok()) {
        ToolBasis::Asked { approval, by: None }
    } else if let Some(rule) = rule() {
        ToolBasis::Rule(rule)
    } else if let Some(pattern) = short("granted") {
        ToolBasis::Granted(pattern)
    } else if let Some(preset) = string(content, "preset").and_then(preset) {
        ToolBasis::Preset(preset)
    } else if is_set("permissions") {
        ToolBasis::Permissions
    } else if is_set("blocked") {
        ToolBasis::Blocked
    } else {
        ToolBasis::Unasked
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Fields {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_question_carries_the_whole_input() {
        let content = object(json!({
            "action": "use_tool", "tool": "Bash", "folder": "/workspace/agent",
            "input": {"command": "git push", "deep": {"a": [1, "x"]}},
        }));
        let asked = question(&content).unwrap();
        assert_eq!(asked.pattern.as_deref(), Some("Bash(command:git push)"));
        assert_eq!(asked.digest, digest("Bash", content.get("input").unwrap()));
        let field = |name: &str, value| ToolField { name: name.to_owned(), value };
        let expected = [
            field("command", ToolValue::Text("git push".to_owned())),
            field("deep", ToolValue::Json(r#"{"a":[1,"x"]}"#.to_owned())),
        ];
        assert_eq!(asked.fields, expected);
        let nothing = question(&object(json!({"tool": "x", "input": null}))).unwrap();
        assert_eq!(nothing.fields, [field("", ToolValue::Json("null".to_owned()))]);
        let large = json!({"tool": "x", "input": {"text": "y".repeat(INPUT_BYTES)}});
        for bad in [json!({}), json!({"tool": ""}), json!({"tool": "a\nb"}), json!({"tool": "x".repeat(200)}), large] {
            assert!(question(&object(bad)).is_err());
        }
    }

    #[test]
    fn records_of_calls_are_bounded() {
        let one = |more: Value| {
            let mut call = object(json!({"tool": "Bash", "digest": "ab", "excerpt": "ls", "ms": 5, "outcome": "ran"}));
            call.extend(object(more));
            Value::Object(call)
        };
        let calls = [
            one(json!({"preset": "careful"})),
            one(json!({"rule": "deny", "pattern": "Bash", "outcome": "denied"})),
            one(json!({"granted": "Bash"})),
            one(json!({"approval": "ap7"})),
            one(json!({"blocked": true})),
            one(json!({"permissions": true})),
            one(json!({"excerpt": "y".repeat(9_000), "digest": "zz/../a"})),
            one(json!({"outcome": "maybe"})),
            json!(5),
        ];
        let read = record(&object(json!({ "calls": calls })));
        let bases: Vec<ToolBasis> = read.iter().map(|call| call.basis.clone()).collect();
        assert_eq!(
            bases,
            [
                ToolBasis::Preset(ToolPreset::Careful),
                ToolBasis::Rule(ToolRule { verdict: ToolVerdict::Deny, pattern: "Bash".to_owned() }),
                ToolBasis::Granted("Bash".to_owned()),
                ToolBasis::Asked { approval: crate::model::id::ApprovalId::new(7), by: None },
                ToolBasis::Blocked,
                ToolBasis::Permissions,
                ToolBasis::Unasked,
            ]
        );
        let last = read.last().unwrap();
        assert_eq!((last.digest.as_str(), last.excerpt.chars().count()), ("a", EXCERPT_CHARS + 1));
        let many = vec![one(json!({})); 100];
        assert_eq!(record(&object(json!({ "calls": many }))).len(), CALLS);
    }
}
