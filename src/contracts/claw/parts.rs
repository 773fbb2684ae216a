//! Parses the records of a session file. Unknown fields are kept beside them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::json::{self, Fields, Json, of_whole, whole};
use super::sanitize::{redact, sanitize};
use crate::model::content::RawJson;
use crate::model::record::{RecordBody, SessionRecord, SpeakerRole};
use crate::model::session::Compaction;
use crate::model::time::Timestamp;

/// Error message for a record.
pub(super) type Wrong = String;

/// Fields of a message's token usage.
pub(super) const USAGE: [&str; 4] =
    ["cache_creation_input_tokens", "cache_read_input_tokens", "input_tokens", "output_tokens"];

/// The file format that a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One record per line: session id and update time are required.
    Lines,
    /// One object for everything.
    Whole,
}

/// The file's data about its session as a whole.
#[derive(Default)]
pub(super) struct Meta {
    pub(super) version: Option<u32>,
    pub(super) id: Option<String>,
    pub(super) created: Option<Timestamp>,
    pub(super) updated: Option<Timestamp>,
    /// The parent's id and the name of the branch.
    pub(super) parent: Option<(String, Option<String>)>,
    /// Raw bytes of a path.
    pub(super) root: Option<Vec<u8>>,
    pub(super) model: Option<String>,
    /// Unknown fields.
    pub(super) rest: Fields,
}

/// Removes a field; null counts as absent.
pub(super) fn take(fields: &mut Fields, name: &str) -> Option<Json> {
    fields.remove(name).filter(|value| *value != Json::Null)
}

/// Puts the remaining fields of an object back, if there are any.
pub(super) fn keep(fields: &mut Fields, name: &str, left: Fields) {
    if !left.is_empty() {
        fields.set(name, Json::Object(left));
    }
}

/// The remaining fields of an object, if there are any.
pub(super) fn rest(fields: Fields) -> Option<RawJson> {
    if fields.is_empty() {
        return None;
    }
    let mut left = Json::Object(fields);
    left.each_text(&redact);
    Some(RawJson::trusted(json::write(&left)))
}

pub(super) fn object(value: Json, what: &str) -> Result<Fields, Wrong> {
    if let Json::Object(fields) = value { Ok(fields) } else { Err(format!("{what} has to be an object")) }
}

pub(super) fn list(value: Json, what: &str) -> Result<Vec<Json>, Wrong> {
    if let Json::Array(items) = value { Ok(items) } else { Err(format!("{what} has to be a list")) }
}

fn text(fields: &mut Fields, name: &str) -> Result<Option<String>, Wrong> {
    match take(fields, name) {
        None => Ok(None),
        Some(Json::Text(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{name} has to be a text")),
    }
}

fn needed<T>(value: Option<T>, name: &str) -> Result<T, Wrong> {
    value.ok_or_else(|| format!("{name} is missing"))
}

fn count(fields: &mut Fields, name: &str) -> Result<Option<u32>, Wrong> {
    let Some(value) = take(fields, name) else { return Ok(None) };
    let number = whole(&value).and_then(|number| u32::try_from(number).ok());
    number.map(Some).ok_or_else(|| format!("{name} is out of range"))
}

fn time(fields: &mut Fields, name: &str) -> Result<Option<Timestamp>, Wrong> {
    let Some(value) = take(fields, name) else { return Ok(None) };
    let ms = whole(&value).and_then(|number| i64::try_from(number).ok());
    ms.map(|ms| Some(Timestamp::from_millis(ms))).ok_or_else(|| format!("{name} is out of range"))
}

pub(super) fn meta(mut fields: Fields, form: Form) -> Result<Meta, Wrong> {
    let version = Some(needed(count(&mut fields, "version")?, "version")?);
    let mut id = text(&mut fields, "session_id")?;
    let updated = time(&mut fields, "updated_at_ms")?;
    if form == Form::Lines {
        id = Some(needed(id, "session_id")?);
        needed(updated, "updated_at_ms")?;
    }
    let created = time(&mut fields, "created_at_ms")?;
    let root = text(&mut fields, "workspace_root")?.map(String::into_bytes);
    let bytes = text(&mut fields, "workspace_root_bytes")?.map(|bytes| STANDARD.decode(bytes));
    let bytes = bytes.transpose().map_err(|_| "workspace_root_bytes has to be base64")?;
    let model = text(&mut fields, "model")?;
    let parent = match take(&mut fields, "fork") {
        None => None,
        Some(value) => {
            let mut fork = object(value, "fork")?;
            let parent = needed(text(&mut fork, "parent_session_id")?, "parent_session_id")?;
            let branch = text(&mut fork, "branch_name")?;
            let branch = branch.map(|branch| branch.trim().to_owned()).filter(|branch| !branch.is_empty());
            keep(&mut fields, "fork", fork);
            Some((parent, branch))
        }
    };
    Ok(Meta { version, id, created, updated, parent, root: bytes.or(root), model, rest: fields })
}

pub(super) fn compaction(mut fields: Fields) -> Result<(Compaction, Fields), Wrong> {
    let times = needed(count(&mut fields, "count")?, "count")?;
    let removed = needed(take(&mut fields, "removed_message_count"), "removed_message_count")?;
    let removed = needed(whole(&removed), "a whole number as removed_message_count")?;
    let summary = needed(text(&mut fields, "summary")?, "summary")?;
    Ok((Compaction { count: times, removed, summary: sanitize(&summary) }, fields))
}

/// A prompt that the user typed. An incomplete entry is kept as it is.
pub(super) fn prompt(mut fields: Fields) -> SessionRecord {
    let ms = fields.get("timestamp_ms").and_then(whole).and_then(|ms| i64::try_from(ms).ok());
    let typed = fields.get("text").and_then(Json::as_str).filter(|text| !text.is_empty()).map(sanitize);
    let (Some(ms), Some(typed)) = (ms, typed) else {
        fields.set("type", Json::Text("prompt_history".to_owned()));
        return foreign(fields);
    };
    for known in ["type", "timestamp_ms", "text"] {
        fields.remove(known);
    }
    SessionRecord { at: Timestamp::from_millis(ms), body: RecordBody::Prompt(typed), extra: rest(fields) }
}

/// A record of an unknown kind.
pub(super) fn foreign(fields: Fields) -> SessionRecord {
    let mut record = Json::Object(fields);
    record.each_text(&redact);
    let body = RecordBody::Foreign(RawJson::trusted(json::write(&record)));
    SessionRecord { at: Timestamp::from_millis(0), body, extra: None }
}

pub(super) fn message(mut fields: Fields) -> Result<SessionRecord, Wrong> {
    fields.remove("type");
    let mut said = object(needed(take(&mut fields, "message"), "message")?, "message")?;
    let role = role(&needed(text(&mut said, "role")?, "role")?)?;
    let blocks = list(needed(take(&mut said, "blocks"), "blocks")?, "blocks")?;
    let blocks = blocks.into_iter().map(block).collect::<Result<_, _>>()?;
    let usage = take(&mut said, "usage").map(usage).transpose()?;
    keep(&mut fields, "message", said);
    let body = RecordBody::Message {
        role,
        blocks: RawJson::trusted(json::write(&Json::Array(blocks))),
        usage: usage.map(|usage| RawJson::trusted(json::write(&usage))),
        ends_turn: None,
    };
    Ok(SessionRecord { at: Timestamp::from_millis(0), body, extra: rest(fields) })
}

fn role(text: &str) -> Result<SpeakerRole, Wrong> {
    SpeakerRole::parse(text).ok_or_else(|| format!("`{}` is not a role", text.chars().take(40).collect::<String>()))
}

fn usage(value: Json) -> Result<Json, Wrong> {
    let mut fields = object(value, "usage")?;
    for name in USAGE {
        let number = needed(count(&mut fields, name)?, name)?;
        fields.set(name, of_whole(number.into()));
    }
    Ok(Json::Object(fields))
}

/// A block: checked if its kind is known, and without secrets in any case.
pub(super) fn block(value: Json) -> Result<Json, Wrong> {
    let mut fields = object(value, "a block")?;
    let kind = needed(fields.get("type").and_then(Json::as_str), "the type of a block")?.to_owned();
    let (texts, optional, flags): (&[&str], &[&str], &[&str]) = match kind.as_str() {
        "text" => (&["text"], &[], &[]),
        "thinking" => (&["thinking"], &["signature"], &[]),
        "tool_use" => (&["id", "name", "input"], &[], &[]),
        "tool_result" => (&["tool_use_id", "tool_name", "output"], &[], &["is_error"]),
        _ => {
            let mut block = Json::Object(fields);
            block.each_text(&redact);
            return Ok(block);
        }
    };
    for name in texts.iter().chain(optional) {
        let known = text(&mut fields, name)?;
        if let Some(text) = known {
            let named = matches!(*name, "name" | "tool_name");
            fields.set(*name, Json::Text(if named { text } else { sanitize(&text) }));
        } else if texts.contains(name) {
            return Err(format!("{name} is missing in a block of type {kind}"));
        }
    }
    for name in flags {
        if !matches!(fields.get(*name), Some(Json::Bool(_))) {
            return Err(format!("{name} is missing in a block of type {kind}"));
        }
    }
    let known = |name: &String| name == "type" || texts.contains(&name.as_str()) || optional.contains(&name.as_str());
    for field in fields.iter_mut().filter(|field| !known(&field.name)) {
        field.value.each_text(&redact);
    }
    Ok(Json::Object(fields))
}
