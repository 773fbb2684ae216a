//! What an agent offers for a session: modes, models, efforts, and how one is chosen. Pure.

use serde_json::{Value, json};

/// The mode in which a known agent asks for no permission. The defaults of some are modes in which a model decides
/// about permissions, which costs further calls.
const ASKS_NOTHING: [(&str, &str); 4] = [
    ("gemini-cli", "yolo"),
    ("@agentclientprotocol/codex-acp", "agent-full-access"),
    ("@agentclientprotocol/claude-agent-acp", "bypassPermissions"),
    ("qwen-code", "yolo"),
];

/// Something to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Mode,
    Model,
    Effort,
}

impl Choice {
    const fn word(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
            Self::Effort => "effort",
        }
    }

    /// The category among the options of a session.
    const fn category(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
            Self::Effort => "thought_level",
        }
    }

    /// Where older agents list it: the list, the field with an id, and the method and parameter that choose one.
    const fn older(self) -> Option<Older> {
        match self {
            Self::Mode => {
                Some(Older { list: "/modes/availableModes", id: "id", method: "session/set_mode", parameter: "modeId" })
            }
            Self::Model => Some(Older {
                list: "/models/availableModels",
                id: "modelId",
                method: "session/set_model",
                parameter: "modelId",
            }),
            Self::Effort => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Older {
    list: &'static str,
    id: &'static str,
    method: &'static str,
    parameter: &'static str,
}

/// A request that chooses something; the session's id is still to be added.
#[derive(Debug, PartialEq)]
pub(super) struct ChoiceRequest {
    pub(super) method: &'static str,
    pub(super) params: Value,
}

/// The mode that is set for an agent of this name.
pub(super) fn mode_of(agent: &str) -> Option<&'static str> {
    ASKS_NOTHING.iter().find(|(name, _)| *name == agent).map(|(_, mode)| *mode)
}

/// The request that chooses `wanted`. `session` is the agent's answer to the beginning of the session.
///
/// # Errors
/// Why it cannot be chosen, with the values on offer.
pub(super) fn choose(choice: Choice, wanted: &str, session: &Value) -> Result<ChoiceRequest, String> {
    let word = choice.word();
    let options = session.get("configOptions").and_then(Value::as_array);
    let option = options.into_iter().flatten().find(|option| text(option, "category") == Some(choice.category()));
    if let Some(option) = option {
        check(word, wanted, &values(option.get("options"), "value"))?;
        let params = json!({"configId": option.get("id"), "value": wanted});
        return Ok(ChoiceRequest { method: "session/set_config_option", params });
    }
    let older = choice.older().and_then(|older| Some((older, session.pointer(older.list)?)));
    let Some((older, list)) = older else {
        return Err(format!("the agent offers no choice of {word}; remove `{word}` from its configuration"));
    };
    check(word, wanted, &values(Some(list), older.id))?;
    Ok(ChoiceRequest { method: older.method, params: json!({ older.parameter: wanted }) })
}

/// The values of a list, whose items may be groups of further items.
fn values<'a>(list: Option<&'a Value>, field: &str) -> Vec<&'a str> {
    let items = |list: Option<&'a Value>| list.and_then(Value::as_array).into_iter().flatten();
    let all = items(list).flat_map(|item| std::iter::once(item).chain(items(item.get("options"))));
    all.filter_map(|item| text(item, field)).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

fn check(word: &str, wanted: &str, offered: &[&str]) -> Result<(), String> {
    if offered.contains(&wanted) {
        return Ok(());
    }
    Err(format!("the agent does not offer the {word} {wanted:?}; it offers: {}", offered.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_session_are_chosen_by_their_category() {
        let session = json!({"configOptions": [
            {"id": "model", "category": "model", "options": [{"value": "a/small"}, {"group": "b", "options": [{"value": "b/large"}]}]},
            {"id": "think", "category": "thought_level", "options": [{"value": "low"}]},
        ]});
        let chosen = choose(Choice::Model, "b/large", &session).unwrap();
        assert_eq!(chosen.method, "session/set_config_option");
        assert_eq!(chosen.params, json!({"configId": "model", "value": "b/large"}));
        assert_eq!(choose(Choice::Effort, "low", &session).unwrap().params["configId"], "think");
        let refused = choose(Choice::Model, "c", &session).unwrap_err();
        assert_eq!(refused, "the agent does not offer the model \"c\"; it offers: a/small, b/large");
        assert!(choose(Choice::Mode, "x", &session).unwrap_err().contains("no choice of mode"));
    }

    #[test]
    fn older_agents_have_lists_of_their_own() {
        let session = json!({
            "modes": {"currentModeId": "default", "availableModes": [{"id": "default"}, {"id": "yolo"}]},
            "models": {"availableModels": [{"modelId": "m"}]},
        });
        let mode = choose(Choice::Mode, "yolo", &session).unwrap();
        assert_eq!(mode, ChoiceRequest { method: "session/set_mode", params: json!({"modeId": "yolo"}) });
        assert_eq!(choose(Choice::Model, "m", &session).unwrap().params, json!({"modelId": "m"}));
        assert!(choose(Choice::Effort, "high", &session).unwrap_err().contains("no choice of effort"));
    }

    #[test]
    fn nonsense_offers_nothing() {
        for session in [json!(null), json!({"configOptions": 5}), json!({"modes": {"availableModes": [1, {}]}})] {
            assert!(choose(Choice::Mode, "x", &session).is_err(), "{session}");
        }
    }
}
