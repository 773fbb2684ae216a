//! A session-state file as text: two spaces, ASCII, no end of line at the end. The values are written like that already.

use crate::engine::{Cx, Result};
use crate::model::group::{StateExport, StateField, StatePart, ascii};
use crate::model::id::AgentId;
use crate::state::{Digest, Read};

use super::merge::{IDS, MUTED, SESSIONS};

/// An object whose fields are rows of their own.
pub(super) const OBJECT: &str = "{}";
/// An array whose items are rows of their own.
pub(super) const ARRAY: &str = "[]";

/// What is true.
pub(super) const YES: &str = "true";

/// A text.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", ascii(text))
}

/// What the file has to say.
pub(super) fn render(cx: &Cx<'_>, txn: &Read<'_>, agent: AgentId) -> Result<StateExport> {
    let mut fields = Vec::new();
    for ((_, part, _), field) in cx.db.state_fields.collect_prefix(txn, &agent, usize::MAX)? {
        fields.push((part, field));
    }
    fields.sort_by_key(|(_, field)| field.position);
    let mut ids = Vec::new();
    for (_, key) in cx.db.seen_ids_by_position.collect_last(txn, &agent, cx.policy.seen_ids_max)?.into_iter().rev() {
        ids.push(cx.db.seen_ids.require(txn, &(agent, key))?.id);
    }
    let text = text(&fields, &ids);
    let digest = Digest::of(text.as_bytes()).blob();
    Ok(StateExport { text, digest })
}

fn text(fields: &[(StatePart, StateField)], ids: &[String]) -> String {
    let of = |wanted: StatePart| fields.iter().filter(move |(part, _)| *part == wanted).map(|(_, field)| field);
    let lines = of(StatePart::Top).filter_map(|field| {
        let value = field.value.as_ref()?.as_str();
        let value = match (field.name.as_str(), value) {
            (SESSIONS, OBJECT) => object(of(StatePart::Sessions).filter_map(line)),
            (MUTED, OBJECT) => object(of(StatePart::Muted).filter_map(line)),
            (IDS, ARRAY) => enclosed('[', ids.iter().cloned(), ']'),
            (_, value) => value.to_owned(),
        };
        Some(format!("\"{}\": {value}", field.name.as_str()))
    });
    object(lines)
}

fn line(field: &StateField) -> Option<String> {
    Some(format!("\"{}\": {}", field.name.as_str(), field.value.as_ref()?.as_str()))
}

fn object(lines: impl Iterator<Item = String>) -> String {
    enclosed('{', lines, '}')
}

/// Lines in brackets, each with what is in it moved in. No text in them has an end of line of its own.
fn enclosed(open: char, lines: impl Iterator<Item = String>, close: char) -> String {
    let lines: Vec<String> = lines.map(|line| format!("\n  {}", line.replace('\n', "\n  "))).collect();
    if lines.is_empty() { format!("{open}{close}") } else { format!("{open}{}\n{close}", lines.join(",")) }
}
