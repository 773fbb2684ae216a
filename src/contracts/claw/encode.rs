//! Writes a session as the lines of a file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::VERSION;
use super::json::{self, Fields, Json, of_whole};
use super::parts::block;
use super::sanitize::{redact, sanitize};
use crate::model::content::RawJson;
use crate::model::record::{RecordBody, SessionRecord};
use crate::model::session::Compaction;
use crate::model::take_in::SessionHead;
use crate::model::time::Timestamp;

/// Writes a session as lines: its head, what was skipped, prompts and messages, each with the fields that only the
/// producing program understands. `head.source.root` is the workspace that the file names.
#[must_use]
pub fn encode(head: &SessionHead, records: &[SessionRecord]) -> String {
    let extra = head.source.extra.as_ref().map(parse_fields).unwrap_or_default();
    let beside =
        |name: &str| if let Some(Json::Object(fields)) = extra.get(name) { fields.clone() } else { Fields::default() };
    let mut out = String::new();
    line(typed("session_meta", meta(head)), beside("session_meta"), &mut out);
    if let Some(compaction) = &head.compaction {
        line(typed("compaction", left_out(compaction)), beside("compaction"), &mut out);
    }
    let (prompts, others): (Vec<_>, Vec<_>) =
        records.iter().partition(|record| matches!(record.body, RecordBody::Prompt(_)));
    for record in prompts.into_iter().chain(others) {
        let beside = record.extra.as_ref().map(parse_fields).unwrap_or_default();
        line(record_fields(record), beside, &mut out);
    }
    out
}

fn line(mut fields: Fields, beside: Fields, out: &mut String) {
    let mut beside = Json::Object(beside);
    beside.each_text(&redact);
    if let Json::Object(beside) = beside {
        fields.add_missing(beside);
    }
    out.push_str(&json::write(&Json::Object(fields)));
    out.push('\n');
}

fn parse_fields(json: &RawJson) -> Fields {
    if let Ok(Json::Object(fields)) = json::parse(json.as_str()) { fields } else { Fields::default() }
}

fn text(text: &str) -> Json {
    Json::Text(text.to_owned())
}

fn ms(at: Timestamp) -> Json {
    of_whole(u64::try_from(at.millis()).unwrap_or(0))
}

fn typed<const N: usize>(kind: &str, known: [(&str, Option<Json>); N]) -> Fields {
    let fields = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    fields.chain([("type".to_owned(), text(kind))]).collect()
}

fn meta(head: &SessionHead) -> [(&'static str, Option<Json>); 8] {
    let fork = head.parent.as_ref().map(|(parent, branch)| {
        let branch = branch.as_ref().map(|branch| ("branch_name".to_owned(), text(branch)));
        let fields = [("parent_session_id".to_owned(), text(parent))];
        Json::Object(fields.into_iter().chain(branch).collect())
    });
    let root = head.source.root.as_deref();
    let shown = root.map(|root| Json::Text(String::from_utf8_lossy(root).into_owned()));
    let bytes = root.filter(|root| std::str::from_utf8(root).is_err());
    [
        ("version", Some(of_whole(VERSION.into()))),
        ("session_id", Some(text(head.label.as_str()))),
        ("created_at_ms", Some(ms(head.created))),
        ("updated_at_ms", Some(ms(head.updated))),
        ("fork", fork),
        ("workspace_root", shown),
        ("workspace_root_bytes", bytes.map(|bytes| Json::Text(STANDARD.encode(bytes)))),
        ("model", head.model.as_deref().map(text)),
    ]
}

fn left_out(compaction: &Compaction) -> [(&'static str, Option<Json>); 3] {
    [
        ("count", Some(of_whole(compaction.count.into()))),
        ("removed_message_count", Some(of_whole(compaction.removed))),
        ("summary", Some(Json::Text(sanitize(&compaction.summary)))),
    ]
}

fn record_fields(record: &SessionRecord) -> Fields {
    match &record.body {
        RecordBody::Prompt(typed_text) => typed(
            "prompt_history",
            [("text", Some(Json::Text(sanitize(typed_text)))), ("timestamp_ms", Some(ms(record.at)))],
        ),
        RecordBody::Foreign(json) => {
            let mut record = Json::Object(parse_fields(json));
            record.each_text(&redact);
            if let Json::Object(fields) = record { fields } else { Fields::default() }
        }
        RecordBody::Message { role, blocks, usage, .. } => {
            let said = [("role", text(role.as_str())), ("blocks", Json::Array(all_blocks(blocks)))];
            let usage = usage.as_ref().map(|usage| ("usage", Json::Object(parse_fields(usage))));
            let said = said.into_iter().chain(usage).map(|(name, value)| (name.to_owned(), value));
            typed("message", [("message", Some(Json::Object(said.collect())))])
        }
    }
}

/// The blocks of a message. A value that is not a block becomes the text of one.
fn all_blocks(json: &RawJson) -> Vec<Json> {
    let as_text = |value: &Json| {
        let said = value.as_str().map_or_else(|| json::write(value), str::to_owned);
        let fields = [("type", text("text")), ("text", Json::Text(sanitize(&said)))];
        Json::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    };
    match json::parse(json.as_str()) {
        Ok(Json::Array(items)) => {
            items.into_iter().map(|item| block(item.clone()).unwrap_or_else(|_| as_text(&item))).collect()
        }
        Ok(other) => vec![as_text(&other)],
        Err(_) => vec![as_text(&text(json.as_str()))],
    }
}
