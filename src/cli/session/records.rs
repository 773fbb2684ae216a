//! Parses records from the command line and standard input. Secrets are redacted.

use std::io::BufRead as _;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::cli::workspace::error::WorkspaceError;
use crate::clock;
use crate::contracts::claw::redacted;
use crate::model::content::RawJson;
use crate::model::record::{RecordBody, SessionRecord, SpeakerRole};
use crate::model::time::Timestamp;

/// Longest line, in bytes.
const LINE_MAX: usize = 16 << 20;

/// A message with a text.
pub(super) fn message(role: SpeakerRole, text: &str, ends_turn: Option<bool>) -> SessionRecord {
    let blocks = serde_json::json!([{ "text": redacted(text), "type": "text" }]).to_string();
    let body = RecordBody::Message { role, blocks: RawJson::trusted(blocks), usage: None, ends_turn };
    SessionRecord { at: clock::wall(), body, extra: None }
}

/// The role that a word stands for.
pub(super) fn role_of(word: &str) -> Result<SpeakerRole, String> {
    SpeakerRole::parse(word).ok_or_else(|| format!("role: `{word}` is none of system, user, assistant, tool"))
}

/// One line of a session file, as far as it is parsed here.
#[derive(Deserialize)]
struct SessionLine<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    text: Option<String>,
    timestamp_ms: Option<i64>,
    ends_turn: Option<bool>,
}

#[derive(Deserialize)]
struct Message<'a> {
    role: String,
    #[serde(borrow)]
    blocks: &'a RawValue,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

/// Reads records, one JSON object per line: `message`, `prompt_history`, and others unchanged.
pub(super) fn lines(input: impl std::io::Read) -> Result<Vec<SessionRecord>, WorkspaceError> {
    let mut input = std::io::BufReader::new(input);
    let mut all = Vec::new();
    let mut number = 0_u64;
    loop {
        let mut line = Vec::new();
        let limit = u64::try_from(LINE_MAX).unwrap_or(u64::MAX).saturating_add(1);
        let read = std::io::Read::take(&mut input, limit).read_until(b'\n', &mut line);
        let bytes = read.map_err(|error| bad(number + 1, &format!("cannot be read: {error}")))?;
        number += 1;
        if bytes == 0 {
            return Ok(all);
        }
        if line.len() > LINE_MAX {
            return Err(bad(number, &format!("has more than {LINE_MAX} bytes")));
        }
        let text = std::str::from_utf8(&line).map_err(|_| bad(number, "is not UTF-8"))?.trim();
        if !text.is_empty() {
            all.push(record(text).map_err(|why| bad(number, &why))?);
        }
    }
}

fn bad(number: u64, why: &str) -> WorkspaceError {
    let hint = r#"each line is a record like {"type":"message","message":{"role":"user","blocks":[{"type":"text","text":"…"}]}}"#;
    WorkspaceError::new("invalid_record", format!("line {number} {why}"), hint).with("line", number)
}

fn record(text: &str) -> Result<SessionRecord, String> {
    let line: SessionLine<'_> = serde_json::from_str(text).map_err(|error| format!("is not a record: {error}"))?;
    let body = match (line.kind.as_deref(), line.message) {
        (Some("message"), Some(message)) => RecordBody::Message {
            role: role_of(&message.role)?,
            blocks: blocks(message.blocks)?,
            usage: message.usage.filter(|usage| usage.get() != "null").map(object).transpose()?,
            ends_turn: line.ends_turn,
        },
        (Some("message"), None) => return Err("is missing message".to_owned()),
        (Some("prompt_history"), _) => match line.text.filter(|text| !text.is_empty()) {
            Some(text) => RecordBody::Prompt(redacted(&text)),
            None => return Err("is missing text".to_owned()),
        },
        (Some("session_meta" | "compaction"), _) => {
            return Err("describes a session: `hearth workspace sessions import` imports such files".to_owned());
        }
        (Some(_), _) => RecordBody::Foreign(RawJson::trusted(clean(text))),
        (None, _) => return Err("is missing type".to_owned()),
    };
    let at = line.timestamp_ms.map_or_else(clock::wall, Timestamp::from_millis);
    Ok(SessionRecord { at, body, extra: None })
}

fn blocks(raw: &RawValue) -> Result<RawJson, String> {
    match serde_json::from_str::<Vec<Map<String, Value>>>(raw.get()) {
        Ok(_) => Ok(RawJson::trusted(clean(raw.get()))),
        Err(error) => Err(format!("has blocks that are not an array of objects: {error}")),
    }
}

/// Redacts secrets in the strings of a JSON text. Without secrets, the text stays unchanged.
fn clean(json: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(json) else { return json.to_owned() };
    if clean_value(&mut value) { value.to_string() } else { json.to_owned() }
}

/// Redacts a value. Returns whether anything was redacted.
fn clean_value(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            let cleaned = redacted(text);
            let changed = cleaned != *text;
            *text = cleaned;
            changed
        }
        Value::Array(all) => all.iter_mut().fold(false, |changed, one| clean_value(one) | changed),
        Value::Object(fields) => fields.values_mut().fold(false, |changed, one| clean_value(one) | changed),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn object(raw: &RawValue) -> Result<RawJson, String> {
    match serde_json::from_str::<Map<String, Value>>(raw.get()) {
        Ok(_) => Ok(RawJson::trusted(raw.get().to_owned())),
        Err(error) => Err(format!("has usage that is not an object: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_kept() {
        let RecordBody::Message { blocks, .. } = message(SpeakerRole::User, "a OPENAI_API_KEY=abc b", None).body else {
            panic!()
        };
        assert_eq!(blocks.as_str(), r#"[{"text":"a OPENAI_API_KEY=[redacted] b","type":"text"}]"#);
        for (json, cleaned) in [
            (r#"{"type":"note", "n":1.50}"#, r#"{"type":"note", "n":1.50}"#),
            (r#"[{"input":"{\"k\":\"XAI_API_KEY=abc\"}"}]"#, r#"[{"input":"{\"k\":\"XAI_API_KEY=[redacted]\"}"}]"#),
        ] {
            assert_eq!(clean(json), cleaned);
        }
    }

    #[test]
    fn lines_are_records_or_say_what_is_wrong() {
        let message = r#"{"type":"message","message":{"role":"tool","blocks":[{"type":"x"}],"usage":{"a":1}}}"#;
        let all = format!(
            "{message}\n\r\n {{\"type\":\"prompt_history\",\"text\":\"p\",\"timestamp_ms\":5}}\r\n{{\"type\":\"note\",\"a\":1}}"
        );
        let all = lines(all.as_bytes()).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!((all[1].at, &all[1].body), (Timestamp::from_millis(5), &RecordBody::Prompt("p".to_owned())));
        assert_eq!(all[2].body, RecordBody::Foreign(RawJson::trusted(r#"{"type":"note","a":1}"#.to_owned())));
        for (line, why) in [
            ("{", "line 1 is not a record"),
            ("[]", "line 1 is not a record"),
            ("{}", "line 1 is missing type"),
            (r#"{"type":"message"}"#, "line 1 is missing message"),
            (r#"{"type":"message","message":{"role":"x","blocks":[]}}"#, "line 1 role: `x`"),
            (r#"{"type":"message","message":{"role":"user","blocks":{}}}"#, "line 1 has blocks"),
            (r#"{"type":"message","message":{"role":"user","blocks":[1]}}"#, "line 1 has blocks"),
            (r#"{"type":"message","message":{"role":"user","blocks":[],"usage":[]}}"#, "line 1 has usage"),
            (r#"{"type":"prompt_history","text":""}"#, "line 1 is missing text"),
            (r#"{"type":"session_meta"}"#, "line 1 describes a session"),
        ] {
            let heard = lines(line.as_bytes()).unwrap_err();
            assert!(heard.message.starts_with(why), "{line}: {}", heard.message);
        }
        assert_eq!(lines(&b"\n\xff"[..]).unwrap_err().message, "line 2 is not UTF-8");
    }
}
