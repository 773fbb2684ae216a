//! One inbound event as JSON text, as `hearth inject` and the adapters' web services hand it over, checked and bounded.
//!
//! Field names are those that adapters use already:
//! `{"channelType", "platformId", "threadId", "supportsThreads", "message": {"id", "kind", "content", "timestamp",
//! "isMention", "isGroup"}, "replyTo": {"channelType", "platformId", "threadId"}}`. Fields not known here are ignored.
//!
//! What is needed to route a message must be right, or the event is refused. What only describes it (text, names) is taken
//! if it has the right type and is otherwise absent, because a platform's new payload must not lose a message.

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

/// Bytes of one event, with the files in it: 16 MiB of files and more, in base64.
pub const EVENT_BYTES_MAX: usize = 24 * 1024 * 1024;

/// Bytes of one event, and of its content, without the strings that are as long as files: what can become many small
/// values in memory.
pub const EVENT_REST_MAX: usize = 1024 * 1024;

/// Bytes from which on a string does not count as rest.
const LONG_STRING: usize = 4 * 1024;

/// Bytes of one message's content: it has to fit into a file of the mailbox beside everything else there.
pub const CONTENT_BYTES_MAX: usize = 512 * 1024;

/// Levels of nesting in content: readers with the usual limit of 128 get it inside of other objects.
pub const CONTENT_DEPTH_MAX: usize = 100;

/// Characters of a sender's name that are kept.
const NAME_CHARS_MAX: usize = 200;

/// The namespace of agents among those who speak; nothing that comes from outside may be in it.
const AGENTS: &str = "agent";

/// Why an event is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEvent {
    /// More than is taken.
    #[error("{what} is too large: {bytes} bytes, at most {max} are accepted; send long texts and files as attachments")]
    TooLarge {
        /// The event or its content.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// What is accepted.
        max: usize,
    },
    /// No UTF-8.
    #[error("the event is not UTF-8 from byte {at} on; send JSON text in UTF-8")]
    NotText {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// No JSON, or none that readers can take.
    #[error("{what} is not usable JSON: {why}; send one JSON object per event")]
    NotJson {
        /// The event or a field.
        what: &'static str,
        /// What the parser says; positions are relative to `what`.
        why: String,
    },
    /// Nested beyond what readers can take.
    #[error("message.content is nested {levels} levels deep, at most {max} are accepted; send a flatter object", max = CONTENT_DEPTH_MAX)]
    TooDeep {
        /// Its levels.
        levels: usize,
    },
    /// A field that is needed is not there.
    #[error("{field} is missing; it must be {wanted}")]
    Missing {
        /// The field.
        field: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// A field has a type that means nothing.
    #[error("{field} is {found}; it must be {wanted}")]
    WrongType {
        /// The field.
        field: &'static str,
        /// What it has to be.
        wanted: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A text that cannot be an id.
    #[error("{0}; send the id as the platform gives it")]
    Name(#[from] BadName),
    /// The namespace in which agents speak with each other.
    #[error("{field} is `agent`, which no channel is called: agents speak there; send the name of a channel")]
    Agents {
        /// The field.
        field: &'static str,
    },
    /// A kind that does not come from outside.
    #[error("message.kind is `{found}`; it must be `chat` or `chat-sdk`, or left out")]
    Kind {
        /// The beginning of it.
        found: String,
    },
    /// A time that is none.
    #[error("message.timestamp is `{found}`, which is not a time; send one like 2026-04-20T12:00:00Z, or leave it out")]
    Timestamp {
        /// The beginning of it.
        found: String,
    },
}

/// Reads one event and throws its files away: for whoever only wants to know what would become of it.
///
/// # Errors
/// As for [`read`].
pub fn parse(event: &[u8]) -> Result<InboundEvent, BadEvent> {
    read(event).map(Arrived::without_files)
}

/// Reads one event.
///
/// # Errors
/// [`BadEvent`] if it cannot be routed; the message names the field and what would be right.
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
        chat_name: None,
        attachments,
    };
    Ok(Arrived::new(event, files))
}

/// What messages call an event without its long strings.
const EVENT_REST: &str = "the event without its files";

/// A payload, the files it names, and their bytes.
type Payload = (Content, Vec<Attachment>, Vec<(usize, Vec<u8>)>);

/// The names an address's fields have in messages for people.
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

/// Only what platforms say: tasks and what Hearth itself says cannot be sent from outside.
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

/// Takes the payload apart.
///
/// * text: `text` if it is a string, else empty;
/// * identity: `senderId` if it is a string, else `author.userId` if it is one; an empty one identifies nobody. Never
///   `sender`, which is a name that people choose themselves;
/// * name: the first string that is not blank of `senderName`, `author.fullName`, `author.userName`, `sender`;
/// * files: `attachments[].data`, which does not stay in it.
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
    // The agents' side takes it as a value; what it could not read must not be stored.
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

/// Content that came as a string: the object in it, or else `{"text": <the string>}`.
///
/// A string like `42` or `null` is text somebody wrote, although it is JSON.
fn unquoted(raw: &str) -> Result<String, BadEvent> {
    let inner: String = serde_json::from_str(raw).map_err(|error| not_json("message.content", &error))?;
    let repaired = json::whole_characters(&inner);
    match serde_json::from_str::<&RawValue>(&repaired) {
        Ok(value) if value.get().starts_with('{') => Ok(json::compact(value.get())),
        _ => Ok(serde_json::json!({ "text": inner }).to_string()),
    }
}

/// A name that can be shown anywhere: one line, no control characters, bounded; none if nothing is left.
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

/// The beginning of a text, for a message.
fn excerpt(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

/// A JSON object whose values are still text. Of equal keys the last one counts; `null` is as good as absent.
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

    /// A string that has to be one if it is there.
    fn text(&self, key: &str, field: &'static str) -> Result<Option<String>, BadEvent> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let wrong = |_| BadEvent::WrongType { field, wanted: "a string", found: type_of(value) };
        serde_json::from_str(value).map(Some).map_err(wrong)
    }

    /// A boolean that has to be one if it is there: what it says decides where messages go.
    fn flag(&self, field: &'static str) -> Result<Option<bool>, BadEvent> {
        match self.get(field) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(BadEvent::WrongType { field, wanted: "true or false", found: type_of(other) }),
        }
    }

    /// A string, and nothing if it is something else.
    fn lax(&self, key: &str) -> Option<String> {
        self.get(key).and_then(|value| serde_json::from_str(value).ok())
    }

    fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some("true")
    }
}

/// What a JSON text is, by its first character.
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
