//! Renders a session-state file: indented by two spaces, ASCII, without a final newline. Values are stored in this
//! form.

use crate::Result;
use crate::model::group::{StateExport, StateField, StatePart, ascii};
use crate::model::id::AgentId;
use crate::state::{Digest, SeenIdKey, StateFieldKey};
use crate::state_file::merge::{IDS, MUTED, SESSIONS};
use crate::tx::Tx;

/// An object whose fields are rows of their own.
pub(crate) const OBJECT: &str = "{}";

/// An array whose items are rows of their own.
pub(crate) const ARRAY: &str = "[]";

/// The JSON value `true`.
pub(crate) const YES: &str = "true";

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", ascii(text))
}

/// The content of the file.
pub(crate) fn render(tx: &Tx<'_, '_>, agent: AgentId) -> Result<StateExport> {
    let mut fields = Vec::new();
    for (StateFieldKey { part, .. }, field) in tx.db.state_fields.collect_prefix(tx, &agent, usize::MAX)? {
        fields.push((part, field));
    }
    fields.sort_by_key(|(_, field)| field.position);
    let mut ids = Vec::new();
    for (_, key) in tx.db.seen_ids_by_position.collect_last(tx, &agent, tx.policy.seen_ids_max)?.into_iter().rev() {
        ids.push(tx.db.seen_ids.require(tx, &SeenIdKey { agent, id: key })?.id);
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

/// Lines in brackets, indented. No text in them contains a newline.
fn enclosed(open: char, lines: impl Iterator<Item = String>, close: char) -> String {
    let lines: Vec<String> = lines.map(|line| format!("\n  {}", line.replace('\n', "\n  "))).collect();
    if lines.is_empty() { format!("{open}{close}") } else { format!("{open}{}\n{close}", lines.join(",")) }
}
