//! Reads what WhatsApp reports: messages of people, and what was done with messages of the bot. Only who wrote, the id and the
//! time of a message are WhatsApp's own; everything else is what a person made of it, so every field is optional.

use std::collections::BTreeMap;

use hearth_bridge::program::state::time_text;
use hearth_bridge::{Event, Sender};
use serde_json::{Value, json};

use super::failure::Failure;
use super::person::{Person, is_id};

/// Longest text, in characters. WhatsApp's have 4,096 at most, and a frame of a bridge has a limit.
const TEXT_MAX: usize = 50_000;
/// Longest name of a person, and of a kind that is not known, in characters.
const NAME_MAX: usize = 100;
/// Longest name of a file, in characters.
const FILE_NAME_MAX: usize = 200;
/// Messages of one report that are looked at. WhatsApp sends a few at once.
const MESSAGES_MAX: usize = 1_000;
/// Contacts of a message that are shown.
const CONTACTS_MAX: usize = 10;
/// Kinds of messages that are files.
const FILES: [&str; 5] = ["image", "audio", "video", "document", "sticker"];
/// Kinds of messages that are none: what happened to others.
const NO_MESSAGE: [&str; 6] = ["reaction", "system", "request_welcome", "edit", "revoke", "ephemeral"];
/// What the ids of buttons begin with.
pub(super) const BUTTON: &str = "hearth:";

/// A file, which has to be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attached {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) mime: Option<String>,
}

/// A message of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) id: String,
    pub(super) person: Person,
    pub(super) name: Option<String>,
    pub(super) seconds: i64,
    pub(super) text: String,
    /// The id of the message that it answers.
    pub(super) answered: Option<String>,
    pub(super) file: Option<Attached>,
    /// The value of a button that was pressed.
    pub(super) button: Option<String>,
}

/// What was done with a message of the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) id: String,
    /// The key that went with the message.
    pub(super) key: Option<String>,
    /// Why it failed, if it did.
    pub(super) failure: Option<Failure>,
}

/// Everything that a report says of one number.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) messages: Vec<Written>,
    pub(super) statuses: Vec<Status>,
}

pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str)
}

fn list<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn named(name: &str) -> String {
    name.trim().chars().filter(|char| !char.is_control()).take(NAME_MAX).collect()
}

/// Reads a report. What concerns other numbers of the same app is left out.
pub(super) fn read(report: &Value, number: &str) -> Report {
    let mut found = Report::default();
    let changes = list(report, "entry").flat_map(|entry| list(entry, "changes"));
    let of_messages = changes.filter(|change| text(change, "/field") == Some("messages"));
    let values = of_messages.filter_map(|change| change.get("value"));
    for value in values.filter(|value| text(value, "/metadata/phone_number_id") == Some(number)) {
        let names = names(value);
        found.messages.extend(list(value, "messages").filter_map(|message| written(message, &names)));
        found.statuses.extend(list(value, "statuses").filter_map(status));
    }
    found.messages.truncate(MESSAGES_MAX);
    // They come in any order.
    found.messages.sort_by_key(|written| written.seconds);
    found
}

/// What people call themselves, by their ids.
fn names(value: &Value) -> BTreeMap<&str, &str> {
    let named = list(value, "contacts").filter_map(|contact| Some((contact, text(contact, "/profile/name")?)));
    named
        .flat_map(|(contact, name)| {
            ["/wa_id", "/user_id"].into_iter().filter_map(move |place| Some((text(contact, place)?, name)))
        })
        .collect()
}

fn written(message: &Value, names: &BTreeMap<&str, &str>) -> Option<Written> {
    // Of groups the bridge knows nothing; what is said there is not said to the bot.
    if message.get("group_id").is_some_and(|group| !group.is_null()) {
        return None;
    }
    let person = ["/from", "/from_user_id"].iter().find_map(|place| text(message, place));
    let person = person.and_then(Person::read)?;
    let id = text(message, "/id").filter(|id| is_id(id))?;
    let kind = text(message, "/type")?;
    let name = names.get(person.id()).map(|name| named(name)).filter(|name| !name.is_empty());
    let time = text(message, "/timestamp").and_then(|time| time.parse().ok());
    let pressed = ["/interactive/button_reply/id", "/interactive/list_reply/id"];
    let pressed = pressed.iter().find_map(|place| text(message, place)).and_then(|id| id.strip_prefix(BUTTON));
    Some(Written {
        id: id.to_owned(),
        name,
        seconds: time.filter(|seconds| (0..=i64::from(u32::MAX)).contains(seconds)).unwrap_or_default(),
        text: shown(message, kind)?.chars().take(TEXT_MAX).collect(),
        answered: text(message, "/context/id").filter(|id| is_id(id)).map(str::to_owned),
        file: FILES.contains(&kind).then(|| attached(message.get(kind))),
        button: pressed.filter(|_| kind == "interactive").map(str::to_owned),
        person,
    })
}

fn attached(file: Option<&Value>) -> Attached {
    let of = |place| file.and_then(|file| text(file, place));
    let name = |name: &str| name.chars().filter(|char| !char.is_control()).take(FILE_NAME_MAX).collect::<String>();
    Attached {
        id: of("/id").filter(|id| is_id(id)).map(str::to_owned),
        name: of("/filename").map(name).filter(|name| !name.is_empty()),
        mime: of("/mime_type").map(named),
    }
}

/// The text of a message that people see; none of what is no message.
fn shown(message: &Value, kind: &str) -> Option<String> {
    let of = |place: &str| text(message, place).unwrap_or_default().to_owned();
    Some(match kind {
        kind if NO_MESSAGE.contains(&kind) => return None,
        "text" => text(message, "/text/body").filter(|body| !body.is_empty())?.to_owned(),
        "button" => of("/button/text"),
        "interactive" => {
            let titles = ["/interactive/button_reply/title", "/interactive/list_reply/title"];
            titles.iter().find_map(|place| text(message, place))?.to_owned()
        }
        kind if FILES.contains(&kind) => of(&format!("/{kind}/caption")),
        "location" => place(message),
        "contacts" => {
            let shown = list(message, "contacts").take(CONTACTS_MAX).map(|contact| {
                let name = named(text(contact, "/name/formatted_name").unwrap_or_default());
                format!("(contact: {name} {})", named(text(contact, "/phones/0/phone").unwrap_or_default()))
            });
            shown.collect::<Vec<_>>().join("\n")
        }
        "unsupported" | "unknown" => "(a message that WhatsApp does not pass on to programs)".to_owned(),
        kind => format!("(a message of the kind {})", named(kind)),
    })
}

fn place(message: &Value) -> String {
    let number = |place: &str| message.pointer(place).and_then(Value::as_f64).unwrap_or_default();
    let (latitude, longitude) = (number("/location/latitude"), number("/location/longitude"));
    let words = ["/location/name", "/location/address"].iter().filter_map(|place| text(message, place)).map(named);
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    format!("(place: {latitude}, {longitude} {})", words.join(", "))
}

fn status(status: &Value) -> Option<Status> {
    let has_failed = text(status, "/status")? == "failed";
    Some(Status {
        id: text(status, "/id").filter(|id| is_id(id))?.to_owned(),
        key: text(status, "/biz_opaque_callback_data").map(str::to_owned),
        failure: has_failed.then(|| Failure::read(status.pointer("/errors/0").unwrap_or(&Value::Null))),
    })
}

impl Written {
    /// The message as Hearth takes it. All chats are direct ones.
    pub(super) fn event(&self) -> Event {
        let mut content = json!({ "text": self.text });
        if let (Some(fields), Some(answered)) = (content.as_object_mut(), &self.answered) {
            fields.insert("replyTo".to_owned(), json!({ "messageId": answered }));
        }
        let message = json!({
            "id": self.id, "isMention": true, "isGroup": false, "timestamp": time_text(self.seconds), "content": content,
        });
        let rest = [("platformId", json!(self.person.id())), ("threadId", Value::Null), ("message", message)];
        let rest = rest.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        // WhatsApp vouches for the id.
        let sender = Sender { id: self.person.id().to_owned(), name: self.name.clone(), verified: true };
        Event { sender: Some(sender), files: Vec::new(), rest }
    }
}

#[cfg(test)]
mod tests;
