//! Parses one inbound event, as sent by `hearth inject` and by the adapters' web services. Checks and bounds it.
//!
//! Field names are those that adapters use already:
//! `{"channelType", "platformId", "threadId", "supportsThreads", "message": {"id", "kind", "content", "timestamp",
//! "isMention", "isGroup"}, "replyTo": {"channelType", "platformId", "threadId"}}`. Fields not known here are ignored.
//!
//! Fields that are needed to route a message must be valid, or the event is rejected. Fields that only describe it
//! (text, names) are ignored if they have the wrong type, because a platform's new payload must not lose a message.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::attachments::{self, Arrived};
use super::json;
use crate::model::address::{Address, BadName, ChannelName, ForeignId};
use crate::model::content::{Attachment, Content, RawJson};
use crate::model::input::InboundEvent;
use crate::model::message::MessageKind;
use crate::model::time::Timestamp;

/// Size limit of one event in bytes, including its files: a bit more than 16 MiB of files in base64.
pub const EVENT_BYTES_MAX: usize = 24 * 1024 * 1024;

/// Size limit in bytes of one event, and of its content, without the strings that are as long as files. It bounds what
/// can become many small values in memory.
pub const EVENT_REST_MAX: usize = 1024 * 1024;

/// Strings of at least this many bytes do not count towards [`EVENT_REST_MAX`].
const LONG_STRING: usize = 4 * 1024;

/// Size limit of one message's content in bytes: it has to fit into a mailbox file with everything else there.
pub const CONTENT_BYTES_MAX: usize = 512 * 1024;

/// Nesting limit of content: readers with the usual limit of 128 get it inside of other objects.
pub const CONTENT_DEPTH_MAX: usize = 100;

/// Maximum length of a sender's name in characters; the rest is cut.
const NAME_CHARS_MAX: usize = 200;

/// The namespace of agents as senders. Events from outside must not use it.
const AGENTS: &str = "agent";

/// Why an event is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEvent {
    /// Over a size limit.
    #[error("{what} is too large: {bytes} bytes, at most {max} are accepted; send long texts and files as attachments")]
    TooLarge {
        /// The event or its content.
        what: &'static str,
        bytes: usize,
        max: usize,
    },
    /// Not UTF-8.
    #[error("the event is not UTF-8 from byte {at} on; send JSON text in UTF-8")]
    NotText {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Not JSON, or not JSON that readers accept.
    #[error("{what} is not usable JSON: {why}; send one JSON object per event")]
    NotJson {
        /// The event or a field.
        what: &'static str,
        /// The parser's message; positions are relative to `what`.
        why: String,
    },
    /// Nested deeper than readers accept.
    #[error("message.content is nested {levels} levels deep, at most {max} are accepted; send a flatter object", max = CONTENT_DEPTH_MAX)]
    TooDeep {
        /// Nesting levels.
        levels: usize,
    },
    /// A required field is missing.
    #[error("{field} is missing; it must be {wanted}")]
    Missing { field: &'static str, wanted: &'static str },
    /// A field has the wrong type.
    #[error("{field} is {found}; it must be {wanted}")]
    WrongType { field: &'static str, wanted: &'static str, found: &'static str },
    /// A text that is not a valid id.
    #[error("{0}; send the id as the platform gives it")]
    Name(#[from] BadName),
    /// The reserved namespace of agents.
    #[error("{field} is `agent`, which is reserved for messages between agents; send the name of a channel")]
    Agents { field: &'static str },
    /// A message kind that is not accepted from outside.
    #[error("message.kind is `{found}`; it must be `chat` or `chat-sdk`, or left out")]
    Kind {
        /// The beginning of the value.
        found: String,
    },
    /// An invalid time.
    #[error("message.timestamp is `{found}`, which is not a time; send one like 2026-04-20T12:00:00Z, or leave it out")]
    Timestamp {
        /// The beginning of the value.
        found: String,
    },
}

/// Reads one event and drops its files, for callers that only want to know how the event would be routed.
///
/// # Errors
/// Like [`read`].
pub fn parse(event: &[u8]) -> Result<InboundEvent, BadEvent> {
    read(event).map(Arrived::without_files)
}

/// Reads one event.
///
/// # Errors
/// [`BadEvent`] if the event cannot be routed. The message names the field and says what is expected.
pub fn read(event: &[u8]) -> Result<Arrived, BadEvent> {
    bounded("the event", event.len(), EVENT_BYTES_MAX)?;
    let text = std::str::from_utf8(event).map_err(|error| BadEvent::NotText { at: error.valid_up_to() })?;
    bounded(EVENT_REST, json::without_long_strings(text, LONG_STRING), EVENT_REST_MAX)?;
    let text = json::whole_characters(text);
    let top = Fields::read("the event", &text)?;
    let message = top.fields("message")?;
    let message = message.ok_or(BadEvent::Missing { field: "message", wanted: "an object" })?;
    let reply_to = top.fields("replyTo")?.map(|fields| address(&fields, &REPLY_TO)).transpose()?;
    let id = message.text("id", "message.id")?.map(|id| ForeignId::optional("message.id", Some(id)));
    let said = said(&message)?;
    let (content, attachments, files) = content(&message, said)?;
    let event = InboundEvent {
        source: address(&top, &SOURCE)?,
        platform_message: id.transpose()?.flatten(),
        kind: kind(&message)?,
        content,
        said,
        mention: message.is_true("isMention"),
        group: message.is_true("isGroup"),
        reply_to,
        threads: top.flag("supportsThreads")?,
        cursors: Vec::new(),
        chat_name: None,
        attachments,
    };
    Ok(Arrived::new(event, files))
}

/// Name of an event without its long strings, in messages.
const EVENT_REST: &str = "the event without its files";

/// A payload, its files, and their bytes.
type Payload = (Content, Vec<Attachment>, Vec<(usize, Vec<u8>)>);

/// The names of an address's fields in messages for people.
struct AddressNames {
    channel: &'static str,
    platform_id: &'static str,
    thread: &'static str,
}

const SOURCE: AddressNames = AddressNames { channel: "channelType", platform_id: "platformId", thread: "threadId" };

const REPLY_TO: AddressNames =
    AddressNames { channel: "replyTo.channelType", platform_id: "replyTo.platformId", thread: "replyTo.threadId" };

fn address(fields: &Fields<'_>, names: &AddressNames) -> Result<Address, BadEvent> {
    let needed = |key, field| {
        let text = fields.text(key, field)?.ok_or(BadEvent::Missing { field, wanted: "a string" })?;
        ForeignId::optional(field, Some(text))?.ok_or(BadEvent::Name(BadName::Empty { what: field }))
    };
    let channel = needed("channelType", names.channel)?;
    if channel.as_str() == AGENTS {
        return Err(BadEvent::Agents { field: names.channel });
    }
    let thread = fields.text("threadId", names.thread)?;
    Ok(Address {
        channel: ChannelName::new(channel.as_str())?,
        platform_id: needed("platformId", names.platform_id)?,
        thread: ForeignId::optional(names.thread, thread)?,
    })
}

/// The message kind. Only kinds that platforms send: tasks and Hearth's own messages are not accepted from outside.
fn kind(message: &Fields<'_>) -> Result<MessageKind, BadEvent> {
    match message.text("kind", "message.kind")?.as_deref() {
        None | Some("chat") => Ok(MessageKind::Chat),
        Some("chat-sdk") => Ok(MessageKind::ChatSdk),
        Some(other) => Err(BadEvent::Kind { found: excerpt(other) }),
    }
}

fn said(message: &Fields<'_>) -> Result<Option<Timestamp>, BadEvent> {
    let Some(text) = message.text("timestamp", "message.timestamp")? else { return Ok(None) };
    Timestamp::parse(&text).map(Some).ok_or_else(|| BadEvent::Timestamp { found: excerpt(&text) })
}

/// Reads the payload.
///
/// * text: `text` if it is a string, else empty;
/// * identity: `senderId` if it is a string, else `author.userId` if it is one; an empty one means that the sender is
///   unknown. Never `sender`, which is a name that people choose themselves;
/// * name: the first of `senderName`, `author.fullName`, `author.userName`, `sender` that is a non-blank string;
/// * files: `attachments[].data`, which is taken out of the payload.
fn content(message: &Fields<'_>, said: Option<Timestamp>) -> Result<Payload, BadEvent> {
    const FIELD: &str = "message.content";
    let raw = message.get("content").ok_or(BadEvent::Missing { field: FIELD, wanted: "an object" })?;
    let object = match raw.as_bytes().first() {
        Some(b'{') => Cow::Borrowed(raw),
        Some(b'"') => Cow::Owned(unquoted(raw)?),
        _ => return Err(BadEvent::WrongType { field: FIELD, wanted: "an object", found: type_of(raw) }),
    };
    bounded(FIELD, json::without_long_strings(&object, LONG_STRING), EVENT_REST_MAX)?;
    let levels = json::depth(&object);
    if levels > CONTENT_DEPTH_MAX {
        return Err(BadEvent::TooDeep { levels });
    }
    let taken = attachments::take_out(&object, said);
    let object = taken.content.unwrap_or_else(|| object.into_owned());
    bounded(FIELD, object.len(), CONTENT_BYTES_MAX)?;
    // The agents' side parses it as a value. Content that it could not read must not be stored.
    serde_json::from_str::<serde_json::Value>(&object).map_err(|error| not_json(FIELD, &error))?;
    let fields = Fields::read(FIELD, &object)?;
    let author = fields.get("author").and_then(|author| Fields::read(FIELD, author).ok()).unwrap_or_default();
    let names = [fields.lax("senderName"), author.lax("fullName"), author.lax("userName"), fields.lax("sender")];
    let sender = match fields.lax("senderId") {
        Some(id) => ForeignId::optional("message.content.senderId", Some(id))?,
        None => ForeignId::optional("message.content.author.userId", author.lax("userId"))?,
    };
    let text = fields.lax("text").unwrap_or_default();
    let sender_name = names.into_iter().flatten().find_map(|name| displayable(&name));
    let content = Content { text, sender, sender_name, raw: RawJson::trusted(object) };
    Ok((content, taken.attachments, taken.files))
}

/// Content that is a string: the object in it, or else `{"text": <the string>}`.
///
/// A string like `42` or `null` is text that the sender wrote, although it is valid JSON.
fn unquoted(raw: &str) -> Result<String, BadEvent> {
    let inner: String = serde_json::from_str(raw).map_err(|error| not_json("message.content", &error))?;
    let repaired = json::whole_characters(&inner);
    match serde_json::from_str::<&RawValue>(&repaired) {
        Ok(value) if value.get().starts_with('{') => Ok(json::compact(value.get())),
        _ => Ok(serde_json::json!({ "text": inner }).to_string()),
    }
}

/// A name that can be shown anywhere: one line, no control characters, bounded. `None` if nothing is left.
pub(super) fn displayable(name: &str) -> Option<String> {
    let plain = name.chars().map(|c| if c.is_control() { ' ' } else { c });
    let short: String = plain.take(NAME_CHARS_MAX).collect();
    let short = short.trim();
    (!short.is_empty()).then(|| short.to_owned())
}

fn bounded(what: &'static str, bytes: usize, max: usize) -> Result<(), BadEvent> {
    if bytes > max { Err(BadEvent::TooLarge { what, bytes, max }) } else { Ok(()) }
}

fn not_json(what: &'static str, error: &serde_json::Error) -> BadEvent {
    BadEvent::NotJson { what, why: error.to_string() }
}

/// The beginning of a text, for error messages.
fn excerpt(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

/// A JSON object whose values are unparsed text. Of duplicate keys the last one counts; `null` counts as absent.
#[derive(Default)]
struct Fields<'t>(BTreeMap<String, &'t RawValue>);

impl<'t> Fields<'t> {
    fn read(what: &'static str, text: &'t str) -> Result<Self, BadEvent> {
        serde_json::from_str(text).map(Self).map_err(|error| {
            let value = serde_json::from_str::<&RawValue>(text);
            let found = value.ok().map(RawValue::get).filter(|value| !value.starts_with('{'));
            let wrong = |value| BadEvent::WrongType { field: what, wanted: "an object", found: type_of(value) };
            found.map_or_else(|| not_json(what, &error), wrong)
        })
    }

    fn get(&self, key: &str) -> Option<&'t str> {
        self.0.get(key).map(|value| value.get()).filter(|value| *value != "null")
    }

    fn fields(&self, key: &'static str) -> Result<Option<Fields<'t>>, BadEvent> {
        self.get(key).map(|text| Fields::read(key, text)).transpose()
    }

    /// An optional field that must be a string if it is present.
    fn text(&self, key: &str, field: &'static str) -> Result<Option<String>, BadEvent> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let wrong = |_| BadEvent::WrongType { field, wanted: "a string", found: type_of(value) };
        serde_json::from_str(value).map(Some).map_err(wrong)
    }

    /// An optional field that must be a boolean if it is present, because it decides where messages go.
    fn flag(&self, field: &'static str) -> Result<Option<bool>, BadEvent> {
        match self.get(field) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(BadEvent::WrongType { field, wanted: "true or false", found: type_of(other) }),
        }
    }

    /// A field if it is a string, else `None`.
    fn lax(&self, key: &str) -> Option<String> {
        self.get(key).and_then(|value| serde_json::from_str(value).ok())
    }

    fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some("true")
    }
}

/// The type of a JSON text, by its first character.
fn type_of(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests;
