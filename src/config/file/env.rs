//! `env` of agents and of MCP servers.

use toml::Spanned;
use toml::de::DeValue;

use super::section::{Keys, Problems, Section, excerpt, with_article};
use crate::config::env::is_env_name;
use crate::model::entity::EnvValue;

/// Message for invalid names.
pub(super) const NO_VARIABLE: &str =
    "is not the name of a variable; use letters, digits and `_`, not beginning with a digit";

/// `NAME = { value = "…" }`: always plain text, even if it looks like a reference.
const TEXT: Keys = Keys { place: "the value of a variable", known: &["value"], later: &[] };

/// Reads a table of variables, sorted by name. Values are never part of a message: one may be a secret that should have
/// been a reference.
pub(super) fn variables(
    problems: &mut Problems<'_>,
    section: &Section<'_>,
    is_owned: fn(&str) -> bool,
) -> Vec<(String, EnvValue)> {
    let Some(table) = section.get("env") else { return Vec::new() };
    let Some(table) = table.get_ref().as_table() else {
        section.wrong_type(problems, "env", "a table, in braces");
        return Vec::new();
    };
    let mut variables = Vec::new();
    for (name, value) in table {
        let (at, name) = (name.span().start, name.get_ref().as_ref());
        if !is_env_name(name) {
            problems.add(at, format!("`{}` {NO_VARIABLE}", excerpt(name)));
        } else if is_owned(name) {
            problems.add(at, format!("`{name}` is set by Hearth for every agent; remove it"));
        }
        variables.extend(variable(problems, name, value).map(|value| (name.to_owned(), value)));
    }
    variables.sort_by(|a: &(String, EnvValue), b| a.0.cmp(&b.0));
    variables
}

/// A string is text or a reference, by how it begins; the string in a table is text.
fn variable(problems: &mut Problems<'_>, name: &str, value: &Spanned<DeValue<'_>>) -> Option<EnvValue> {
    let at = value.span().start;
    let read = match value.get_ref() {
        DeValue::String(text) => text_or_reference(text),
        DeValue::Table(table) => {
            let section = Section::new(&TEXT, at, table);
            section.check_keys(problems);
            plain(section.needed(problems, "value")?.1)
        }
        other => {
            let found = with_article(other.type_str());
            problems.add(at, format!("`env.{}` is {found}; write a string, in quotes", excerpt(name)));
            return None;
        }
    };
    read.map_err(|what| problems.add(at, format!("the value of `{}` {what}", excerpt(name)))).ok()
}

fn plain(text: &str) -> Result<EnvValue, &'static str> {
    match text.contains('\0') {
        true => Err("contains a NUL character, which no variable can hold; remove it"),
        false => Ok(EnvValue::Plain(text.to_owned())),
    }
}

fn text_or_reference(text: &str) -> Result<EnvValue, &'static str> {
    let reference = |good: bool, what| if good { Ok(EnvValue::Reference(text.to_owned())) } else { Err(what) };
    match text.split_once(':') {
        _ if text.contains('\0') => plain(text),
        Some(("env", name)) => reference(is_env_name(name), "names no variable; write \"env:NAME\""),
        Some(("file", path)) => reference(path.starts_with('/'), "names no absolute path; write \"file:/path\""),
        Some(("cmd", line)) => reference(!line.trim().is_empty(), "names no command; write \"cmd:program argument\""),
        _ => plain(text),
    }
}
