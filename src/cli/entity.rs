//! What the commands for entities share: keys of hearth.toml given as flags, and entities shown by these keys.

use serde_json::{Map, Value as Json};

use super::configuration::Configuration;
use super::{Done, Failure, out};
use crate::config::file::write::{Fields, Value, head};

/// Keys that were given, each with its value.
pub(super) type Given<'a> = Vec<(&'a str, Option<Value>)>;

/// A string that was given.
pub(super) fn text(given: Option<&String>) -> Option<Value> {
    given.map(|text| Value::Text(text.clone()))
}

/// A number or a flag that was given; the reader of hearth.toml says what is wrong with anything else.
pub(super) fn typed(given: Option<&String>) -> Option<Value> {
    given.map(|text| Value::typed(text))
}

/// A list that was given; nothing given is no list.
pub(super) fn texts(given: &[String]) -> Option<Value> {
    (!given.is_empty()).then(|| Value::Texts(given.to_vec()))
}

/// Puts what was given over what is there.
pub(super) fn overlay(fields: &mut Fields, given: Given<'_>, clear: &[String]) {
    for key in clear {
        fields.clear(key);
    }
    for (key, value) in given {
        if let Some(value) = value {
            fields.set(key, value);
        }
    }
}

/// A file with one table in it.
pub(super) fn toml(tables: &[(&str, &Fields)]) -> String {
    tables.iter().fold(head(), |text, (heading, fields)| text + &fields.toml(heading))
}

/// An entity as JSON: facts of its row, then its keys as hearth.toml names them. A key that is not there has its default.
pub(super) fn json(facts: &[(&str, Option<String>)], fields: &Fields) -> Json {
    let mut map = Map::new();
    for (name, value) in facts {
        map.insert((*name).to_owned(), value.clone().map_or(Json::Null, Json::String));
    }
    for (key, value) in fields.iter() {
        map.insert(key.to_owned(), json_value(value));
    }
    Json::Object(map)
}

fn json_value(value: &Value) -> Json {
    match value {
        Value::Text(text) => Json::String(text.clone()),
        Value::Plain(text) => serde_json::from_str(text).unwrap_or(Json::Null),
        Value::Texts(texts) => texts.iter().cloned().map(Json::String).collect(),
        Value::Pairs(pairs) => {
            Json::Object(pairs.iter().map(|(name, text)| (name.clone(), Json::String(text.clone()))).collect())
        }
        Value::Table(fields) => {
            Json::Object(fields.iter().map(|(name, value)| (name.clone(), json_value(value))).collect())
        }
        Value::Tables(tables) => tables.iter().map(|table| json_value(&Value::Table(table.clone()))).collect(),
    }
}

/// Shows one entity, a line per fact and key.
pub(super) fn show(facts: &[(&str, Option<String>)], fields: &Fields) -> Done {
    for (name, value) in facts {
        if let Some(value) = value {
            line(name, value)?;
        }
    }
    fields.iter().try_for_each(|(key, value)| line(key, &value.to_string()))
}

fn line(name: &str, value: &str) -> Done {
    out::line(&format!("{name:20} {value}"))
}

/// Shows a list, as a table or as JSON under a name; an empty one in words.
pub(super) fn list(name: &str, as_json: bool, entities: Vec<Json>, columns: &[(&str, &str)]) -> Done {
    if as_json {
        let mut map = Map::new();
        map.insert(name.to_owned(), Json::Array(entities));
        return out::json(&map);
    }
    if entities.is_empty() {
        return out::line(&format!("no {name}"));
    }
    let cell = |entity: &Json, key: &str| match entity.get(key) {
        None | Some(Json::Null) => String::new(),
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(list)) => list.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(", "),
        Some(other) => other.to_string(),
    };
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    let row = |entity: &Json| columns.iter().map(|(_, key)| cell(entity, key)).collect();
    out::table(&headings, entities.iter().map(row).collect())
}

/// That something is not there, and where to look.
pub(super) fn missing(what: &str, name: &str) -> Failure {
    Failure::Failed(format!("there is no {what} {name}; see `hearth {what}s list`"))
}

/// Refuses the name of an agent that is not there.
pub(super) fn known_agent(known: &Configuration, folder: &str) -> Done {
    let found = known.agents.iter().any(|agent| agent.folder.as_str() == folder);
    if found { Ok(()) } else { Err(missing("agent", folder)) }
}

/// That something is there already, and what to do instead.
pub(super) fn exists(what: &str, name: &str, command: &str) -> Failure {
    let article = if what.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    Failure::Failed(format!("there is {article} {what} {name} already; change it with `hearth {command} set`"))
}
