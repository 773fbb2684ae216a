//! Parses the content of a session file.

use super::json::{self, BadJson, Fields, Json};
use super::parts::{Form, Meta, Wrong, compaction, foreign, keep, list, message, meta, object, prompt, rest, take};
use super::sanitize::redact_bytes;
use super::{VERSION, names};
use crate::model::record::{RecordBody, SessionRecord};
use crate::model::session::{Compaction, SessionLabel, SessionSource};
use crate::model::take_in::{FileSession, SessionHead};
use crate::model::time::Timestamp;

/// Longest file that is read, in bytes.
pub const FILE_MAX: u64 = 256 << 20;
/// Lines of this length and more are too long.
pub const LINE_MAX: usize = 64 << 20;
/// Most bytes that are kept of a truncated line.
const TAIL_MAX: usize = 1 << 20;

/// Why a file cannot be imported as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A line is longer than the limit.
    #[error("line {line} has {bytes} bytes; lines must be shorter than {LINE_MAX} bytes")]
    LineTooLong {
        /// Its number, counted from 1.
        line: u64,
        bytes: usize,
    },
    /// Part of the file is not a record.
    #[error("{}{why}; {recoverable} records of it can be read", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    Record {
        /// The first such line, counted from 1; `None` for the single-object form.
        line: Option<u64>,
        /// The problem of the line.
        why: String,
        /// How many records can be read.
        recoverable: u64,
    },
}

/// Parses a session. `stem` is the file's name without its extensions and `modified` its modification time; they
/// replace what the file does not say.
///
/// # Errors
/// [`Damage`] if the content is not certain.
pub fn decode(bytes: &[u8], stem: &str, modified: Timestamp) -> Result<FileSession, Damage> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for (number, line) in (1_u64..).zip(bytes.split(|b| *b == b'\n')) {
        if line.len() >= LINE_MAX {
            return Err(Damage::LineTooLong { line: number, bytes: line.len() });
        }
    }
    let mut reading = Reading::default();
    let whole = bytes.trim_ascii_start().starts_with(b"{").then(|| whole_object(bytes)).flatten();
    match whole {
        Some(fields) => reading.whole(fields),
        None => reading.lines(bytes),
    }
    reading.finish(stem, modified)
}

/// The content, if it is a single object with messages.
fn whole_object(bytes: &[u8]) -> Option<Fields> {
    match json::parse(std::str::from_utf8(bytes).ok()?) {
        Ok(Json::Object(fields)) if fields.get("messages").is_some() => Some(fields),
        _ => None,
    }
}

/// State of the parser.
#[derive(Default)]
struct Reading {
    meta: Option<Meta>,
    compaction: Option<(Compaction, Fields)>,
    records: Vec<SessionRecord>,
    torn: Option<Vec<u8>>,
    damage: Option<(Option<u64>, String)>,
}

impl Reading {
    fn lines(&mut self, bytes: &[u8]) {
        let ended = bytes.last() == Some(&b'\n');
        let lines: Vec<_> =
            (1_u64..).zip(bytes.split(|b| *b == b'\n')).filter(|(_, line)| !line.trim_ascii().is_empty()).collect();
        let last = lines.last().map(|(number, _)| *number);
        for (number, line) in lines {
            let torn = last == Some(number) && (self.meta.is_some() || !self.records.is_empty());
            match parse_line(line.trim_ascii()) {
                Err(Unread::Torn) if torn => self.tear(line),
                Err(Unread::Torn) => self.damaged(Some(number), "it ends too early".to_owned()),
                Err(Unread::Bad(_)) if torn && !ended => self.tear(line),
                Err(Unread::Bad(why)) => self.damaged(Some(number), why),
                Ok(fields) => {
                    if let Err(why) = self.record(fields) {
                        self.damaged(Some(number), why);
                    }
                }
            }
        }
    }

    fn tear(&mut self, line: &[u8]) {
        let line = redact_bytes(line);
        self.torn = Some(line.get(..TAIL_MAX).unwrap_or(&line).to_vec());
    }

    fn damaged(&mut self, line: Option<u64>, why: Wrong) {
        self.damage.get_or_insert((line, why));
    }

    fn record(&mut self, mut fields: Fields) -> Result<(), Wrong> {
        let kind = fields.get("type").and_then(Json::as_str).ok_or("the record has no type")?.to_owned();
        match kind.as_str() {
            "session_meta" => {
                fields.remove("type");
                self.meta = Some(meta(fields, Form::Lines)?);
            }
            "compaction" => {
                fields.remove("type");
                self.compaction = Some(compaction(fields)?);
            }
            "message" => self.push(message(fields)?),
            "prompt_history" => self.push(prompt(fields)),
            _ => self.push(foreign(fields)),
        }
        Ok(())
    }

    fn push(&mut self, record: SessionRecord) {
        self.records.push(record);
    }

    /// Parses the older form: one object for everything.
    fn whole(&mut self, mut fields: Fields) {
        let prompts = take(&mut fields, "prompt_history").map_or(Ok(Vec::new()), |value| list(value, "prompt_history"));
        let messages = take(&mut fields, "messages").ok_or("it has no messages".to_owned());
        let messages = messages.and_then(|value| list(value, "messages"));
        match take(&mut fields, "compaction").map(|value| object(value, "compaction").and_then(compaction)).transpose()
        {
            Ok(compaction) => self.compaction = compaction,
            Err(why) => self.damaged(None, why),
        }
        for entry in self.some(prompts) {
            match entry {
                Json::Object(fields) => self.push(prompt(fields)),
                other => self.push(foreign(Fields::from_iter([("prompt_history".to_owned(), other)]))),
            }
        }
        for (number, entry) in (1..).zip(self.some(messages)) {
            let record = Fields::from_iter([("message".to_owned(), entry)]);
            match message(record) {
                Ok(record) => self.push(record),
                Err(why) => self.damaged(None, format!("message {number}: {why}")),
            }
        }
        match meta(fields, Form::Whole) {
            Ok(meta) => self.meta = Some(meta),
            Err(why) => self.damaged(None, why),
        }
    }

    fn some(&mut self, list: Result<Vec<Json>, Wrong>) -> Vec<Json> {
        list.unwrap_or_else(|why| {
            self.damaged(None, why);
            Vec::new()
        })
    }

    fn finish(self, stem: &str, modified: Timestamp) -> Result<FileSession, Damage> {
        if let Some((line, why)) = self.damage {
            let recoverable = u64::try_from(self.records.len()).unwrap_or(u64::MAX);
            return Err(Damage::Record { line, why, recoverable });
        }
        let meta = self.meta.unwrap_or_default();
        let from_name = meta.id.is_none();
        let created = meta.created.or_else(|| names::created(meta.id.as_deref().unwrap_or(stem))).unwrap_or(modified);
        let updated = meta.updated.unwrap_or(created);
        let (label, id) = match meta.id.map(|id| SessionLabel::new(id.as_str()).map_err(|_| id)) {
            Some(Ok(label)) => (label, None),
            Some(Err(id)) => (SessionLabel::nearest(stem), Some(id)),
            None => (SessionLabel::nearest(stem), None),
        };
        let (compaction, beside) = self.compaction.unzip();
        let mut extra = Fields::default();
        keep(&mut extra, "compaction", beside.unwrap_or_default());
        keep(&mut extra, "session_meta", meta.rest);
        let extra = rest(extra);
        let source = SessionSource { path: Vec::new(), id, from_name, root: meta.root, torn_tail: self.torn, extra };
        let (model, parent) = (meta.model, meta.parent);
        let head = SessionHead { label, model, created, updated, parent, compaction, source };
        let mut records = self.records;
        for record in records.iter_mut().filter(|record| !matches!(record.body, RecordBody::Prompt(_))) {
            record.at = updated;
        }
        Ok(FileSession { version: meta.version.unwrap_or(VERSION), head, records })
    }
}

/// Why a line is not an object.
enum Unread {
    /// It is truncated.
    Torn,
    /// Another error.
    Bad(String),
}

fn parse_line(line: &[u8]) -> Result<Fields, Unread> {
    let text = std::str::from_utf8(line).map_err(|error| match error.error_len() {
        None => Unread::Torn,
        Some(_) => Unread::Bad(format!("it is not UTF-8 from byte {} on", error.valid_up_to())),
    })?;
    match json::parse(text) {
        Ok(Json::Object(fields)) => Ok(fields),
        Ok(_) => Err(Unread::Bad("it is not an object".to_owned())),
        Err(BadJson::Early) => Err(Unread::Torn),
        Err(bad) => Err(Unread::Bad(bad.to_string())),
    }
}
