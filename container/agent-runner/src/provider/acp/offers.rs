//! What an agent offers for a session: modes, models, efforts, and how one is chosen. Pure.

use serde_json::{Value, json};

use crate::handshake::Offered;

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
            Self::Mode => Some(Older {
                list: "/modes/availableModes",
                current: "/modes/currentModeId",
                id: "id",
                method: "session/set_mode",
                parameter: "modeId",
            }),
            Self::Model => Some(Older {
                list: "/models/availableModels",
                current: "/models/currentModelId",
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
    current: &'static str,
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

/// What a session offers of one kind.
#[derive(Debug)]
struct Offer<'a> {
    /// The values, and their names for people.
    items: Vec<(&'a str, Option<&'a str>)>,
    current: Option<&'a str>,
    /// The request that chooses one, but for the value.
    how: How<'a>,
}

#[derive(Debug)]
enum How<'a> {
    Option(Option<&'a Value>),
    Older(Older),
}

/// The request that chooses `wanted`; none if it is chosen already. `session` is the agent's answer to the beginning of
/// the session.
///
/// # Errors
/// Why it cannot be chosen, with the values on offer.
pub(super) fn choose(choice: Choice, wanted: &str, session: &Value) -> Result<Option<ChoiceRequest>, String> {
    let word = choice.word();
    let Some(Offer { items, current, how }) = offer(choice, session) else {
        return Err(format!("the agent offers no choice of {word}; remove `{word}` from its configuration"));
    };
    let named = |(value, name): &(&str, Option<&str>)| Some(*value) == current && *name == Some(wanted);
    if current == Some(wanted) || items.iter().any(named) {
        return Ok(None);
    }
    if !items.iter().any(|(value, _)| *value == wanted) {
        let offered: Vec<&str> = items.iter().map(|(value, _)| *value).collect();
        return Err(format!("the agent does not offer the {word} {wanted:?}; it offers: {}", offered.join(", ")));
    }
    Ok(Some(match how {
        How::Option(id) => {
            ChoiceRequest { method: "session/set_config_option", params: json!({"configId": id, "value": wanted}) }
        }
        How::Older(older) => ChoiceRequest { method: older.method, params: json!({ older.parameter: wanted }) },
    }))
}

/// Whether the agent offers a choice.
pub(super) fn offers(choice: Choice, session: &Value) -> bool {
    offer(choice, session).is_some()
}

/// The values on offer, and the current one.
pub(super) fn offered(choice: Choice, session: &Value) -> Offered {
    let Some(Offer { items, current, .. }) = offer(choice, session) else { return Offered::default() };
    let values = items.into_iter().map(|(value, _)| value.to_owned()).collect();
    Offered { values, current: current.map(str::to_owned) }
}

fn offer(choice: Choice, session: &Value) -> Option<Offer<'_>> {
    let options = session.get("configOptions").and_then(Value::as_array);
    let option = options.into_iter().flatten().find(|option| text(option, "category") == Some(choice.category()));
    if let Some(option) = option {
        let items = values(option.get("options"), "value");
        return Some(Offer { items, current: text(option, "currentValue"), how: How::Option(option.get("id")) });
    }
    let older = choice.older()?;
    let items = values(Some(session.pointer(older.list)?), older.id);
    let current = session.pointer(older.current).and_then(Value::as_str);
    Some(Offer { items, current, how: How::Older(older) })
}

/// The values of a list and their names. Its items may be groups of further items.
fn values<'a>(list: Option<&'a Value>, field: &str) -> Vec<(&'a str, Option<&'a str>)> {
    let items = |list: Option<&'a Value>| list.and_then(Value::as_array).into_iter().flatten();
    let all = items(list).flat_map(|item| std::iter::once(item).chain(items(item.get("options"))));
    all.filter_map(|item| Some((text(item, field)?, text(item, "name")))).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
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
        let chosen = choose(Choice::Model, "b/large", &session).unwrap().unwrap();
        assert_eq!(chosen.method, "session/set_config_option");
        assert_eq!(chosen.params, json!({"configId": "model", "value": "b/large"}));
        assert_eq!(choose(Choice::Effort, "low", &session).unwrap().unwrap().params["configId"], "think");
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
        assert_eq!(mode, Some(ChoiceRequest { method: "session/set_mode", params: json!({"modeId": "yolo"}) }));
        assert_eq!(choose(Choice::Mode, "default", &session).unwrap(), None, "it is set");
        assert_eq!(choose(Choice::Model, "m", &session).unwrap().unwrap().params, json!({"modelId": "m"}));
        assert!(choose(Choice::Effort, "high", &session).unwrap_err().contains("no choice of effort"));
    }

    /// An agent may give a model that it was started with an id of its own.
    #[test]
    fn what_is_current_is_not_chosen_again() {
        let session = json!({"models": {"currentModelId": "$runtime|m", "availableModels": [
            {"modelId": "$runtime|m", "name": "m"}, {"modelId": "x", "name": "other"}]}});
        assert_eq!(choose(Choice::Model, "m", &session).unwrap(), None);
        assert!(choose(Choice::Model, "other", &session).is_err(), "a name is no value");
        let unlisted = json!({"models": {"currentModelId": "m", "availableModels": [{"modelId": "x"}]}});
        assert_eq!(choose(Choice::Model, "m", &unlisted).unwrap(), None);
    }

    #[test]
    fn nonsense_offers_nothing() {
        for session in [json!(null), json!({"configOptions": 5}), json!({"modes": {"availableModes": [1, {}]}})] {
            assert!(choose(Choice::Mode, "x", &session).is_err(), "{session}");
        }
    }
}
