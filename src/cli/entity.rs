//! Shared by entity commands: keys of hearth.toml as flags, and output of entities by these keys.

use serde_json::{Map, Value as Json};

use super::configuration::{self, Configuration};
use super::{Done, Failure, human_time, print};
use crate::config::Paths;
use crate::config::file::write::{Fields, Value, head, variable};
use crate::config::nearest;

/// Facts whose values are times. They are shown local, with their ages.
const TIMES: &[&str] = &["created", "denied"];

/// Given keys with their values.
pub(super) type EntityArgs<'a> = Vec<(&'a str, Option<Value>)>;

/// A string that was given.
pub(super) fn text(given: Option<&String>) -> Option<Value> {
    given.map(|text| Value::Text(text.clone()))
}

/// A given number or flag. Other values are reported by the parser of hearth.toml.
pub(super) fn typed(given: Option<&String>) -> Option<Value> {
    given.map(|text| Value::typed(text))
}

/// A given list; none if it is empty.
pub(super) fn texts(given: &[String]) -> Option<Value> {
    (!given.is_empty()).then(|| Value::Texts(given.to_vec()))
}

/// Overwrites fields with the given values.
pub(super) fn overlay(fields: &mut Fields, given: EntityArgs<'_>, clear: &[String]) {
    for key in clear {
        fields.clear(key);
    }
    for (key, value) in given {
        if let Some(value) = value {
            fields.set(key, value);
        }
    }
}

/// Serializes tables as TOML.
pub(super) fn toml(tables: &[(&str, &Fields)]) -> String {
    tables.iter().fold(head(), |text, (heading, fields)| text + &fields.toml(heading))
}

/// An entity as JSON: facts of its row, then its keys as in hearth.toml. Absent keys have their defaults.
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
        Value::Env(variables) => {
            variables.iter().map(|(name, value)| (name.clone(), json_value(&variable(value)))).collect()
        }
        Value::Table(fields) => {
            Json::Object(fields.iter().map(|(name, value)| (name.clone(), json_value(value))).collect())
        }
        Value::Tables(tables) => tables.iter().map(|table| json_value(&Value::Table(table.clone()))).collect(),
    }
}

/// Prints one entity, one line per fact and key.
pub(super) fn show(facts: &[(&str, Option<String>)], fields: &Fields) -> Done {
    for (name, value) in facts {
        if let Some(value) = value {
            line(name, &if TIMES.contains(name) { human_time::local_with_age(value) } else { value.clone() })?;
        }
    }
    fields.iter().try_for_each(|(key, value)| line(key, &value.to_string()))
}

fn line(name: &str, value: &str) -> Done {
    print::line(&format!("{name:20} {value}"))
}

/// The value of a key, for a table. Empty if the key has its default.
pub(super) fn cell(fields: &Fields, key: &str) -> String {
    fields.get(key).map(Value::to_string).unwrap_or_default()
}

/// The error for a missing entity, with a hint where to look.
pub(super) fn missing(what: &str, name: &str) -> Failure {
    Failure::Failed(format!("{what} {name} not found; see `hearth {what}s list`"))
}

/// Adds the most similar existing name to an error about a name that does not exist, wherever the error comes from.
pub(super) fn with_nearest(paths: &Paths, failure: Failure) -> Failure {
    match failure {
        Failure::Failed(text) => Failure::Failed(suggestion(paths, &text).unwrap_or(text)),
        other => other,
    }
}

fn suggestion(paths: &Paths, text: &str) -> Option<String> {
    let (before, after) = text.split_once(" not found")?;
    let words: Vec<&str> = before.split_whitespace().collect();
    let at = words.iter().rposition(|word| ["agent", "channel", "chat", "user", "wiring"].contains(word))?;
    let (what, rest) = (words.get(at)?, words.get(at.saturating_add(1)..)?);
    let name = if *what == "wiring" { rest.join(" ") } else { (*rest.first()?).to_owned() };
    let known = configuration::read(paths).ok()?.names(what);
    let nearest = nearest(&name, known.iter().map(String::as_str)).filter(|nearest| *nearest != name)?;
    if text.contains("did you mean") {
        return None;
    }
    Some(match after.strip_prefix(&format!("; see `hearth {what}s list`")) {
        Some(rest) => {
            format!("{before} not found; did you mean `{nearest}`? `hearth {what}s list` shows all{rest}")
        }
        None => format!("{text}; did you mean `{nearest}`?"),
    })
}

/// The error for a missing agent.
pub(super) fn no_agent(folder: &str) -> Failure {
    missing("agent", folder)
}

/// Rejects the name of an unknown agent.
pub(super) fn known_agent(known: &Configuration, folder: &str) -> Done {
    let found = known.agents.iter().any(|agent| agent.folder.as_str() == folder);
    if found { Ok(()) } else { Err(no_agent(folder)) }
}

/// The error for an existing entity, with a hint what to do instead.
pub(super) fn exists(what: &str, name: &str, command: &str) -> Failure {
    Failure::Failed(format!("{what} {name} already exists; `hearth {command} set` changes it"))
}
