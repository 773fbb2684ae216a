//! The subset of the Bot API's types that Hearth uses. Other fields are ignored, so that a newer API does no harm.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The envelope of every answer.
#[derive(Debug, Deserialize)]
pub(super) struct Answer<'a> {
    pub(super) ok: bool,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    pub(super) error_code: Option<i64>,
    pub(super) description: Option<String>,
    pub(super) parameters: Option<Parameters>,
}

/// Machine-readable details of an error.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Parameters {
    pub(super) retry_after: Option<u64>,
    pub(super) migrate_to_chat_id: Option<i64>,
}

/// The part of an update that must be valid, so that the next one can be requested.
#[derive(Debug, Deserialize)]
pub(super) struct Numbered {
    pub(super) update_id: i64,
}

/// An update. At most one of the fields is set.
#[derive(Debug, Deserialize)]
pub(super) struct Update {
    pub(super) message: Option<Message>,
    pub(super) channel_post: Option<Message>,
    pub(super) callback_query: Option<Callback>,
}

/// A pressed button.
#[derive(Debug, Deserialize)]
pub(super) struct Callback {
    pub(super) id: String,
    pub(super) from: User,
    pub(super) message: Option<Carrier>,
    pub(super) data: Option<String>,
}

/// The message with the pressed button. Of an old message only the chat is known.
#[derive(Debug, Deserialize)]
pub(super) struct Carrier {
    pub(super) chat: Chat,
    pub(super) message_thread_id: Option<i64>,
    #[serde(default)]
    pub(super) is_topic_message: bool,
}

/// A person or a bot.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    pub(super) id: i64,
    #[serde(default)]
    pub(super) is_bot: bool,
    #[serde(default)]
    pub(super) first_name: String,
    pub(super) last_name: Option<String>,
    pub(super) username: Option<String>,
}

/// A chat: `private`, `group`, `supergroup` or `channel`.
#[derive(Debug, Deserialize)]
pub(super) struct Chat {
    pub(super) id: i64,
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    pub(super) title: Option<String>,
    pub(super) first_name: Option<String>,
    pub(super) last_name: Option<String>,
    pub(super) username: Option<String>,
}

/// A message, or a service message of a chat.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) message_id: i64,
    pub(super) message_thread_id: Option<i64>,
    #[serde(default)]
    pub(super) is_topic_message: bool,
    pub(super) from: Option<User>,
    pub(super) sender_chat: Option<Chat>,
    pub(super) chat: Chat,
    #[serde(default)]
    pub(super) date: i64,
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) entities: Vec<Entity>,
    pub(super) caption: Option<String>,
    #[serde(default)]
    pub(super) caption_entities: Vec<Entity>,
    pub(super) reply_to_message: Option<Box<Self>>,
    pub(super) quote: Option<Quote>,
    pub(super) media_group_id: Option<String>,
    #[serde(default)]
    pub(super) photo: Vec<File>,
    pub(super) document: Option<File>,
    pub(super) voice: Option<File>,
    pub(super) audio: Option<File>,
    pub(super) video: Option<File>,
    pub(super) animation: Option<File>,
    pub(super) sticker: Option<File>,
    pub(super) video_note: Option<File>,
    pub(super) location: Option<Location>,
    pub(super) venue: Option<Venue>,
    pub(super) contact: Option<Contact>,
    pub(super) poll: Option<Poll>,
    pub(super) dice: Option<Dice>,
    pub(super) migrate_to_chat_id: Option<i64>,
    #[serde(default, deserialize_with = "present")]
    pub(super) forum_topic_created: bool,
}

/// A formatted or special range of a text. Offsets are in UTF-16 code units.
#[derive(Debug, Deserialize)]
pub(super) struct Entity {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) offset: usize,
    pub(super) length: usize,
    pub(super) user: Option<User>,
}

/// The part of a message that a reply quotes.
#[derive(Debug, Deserialize)]
pub(super) struct Quote {
    #[serde(default)]
    pub(super) text: String,
}

/// Any kind of file.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct File {
    pub(super) file_id: String,
    pub(super) file_name: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) file_size: Option<u64>,
    pub(super) width: Option<u64>,
    pub(super) height: Option<u64>,
    pub(super) duration: Option<u64>,
    pub(super) emoji: Option<String>,
    #[serde(default)]
    pub(super) is_animated: bool,
    #[serde(default)]
    pub(super) is_video: bool,
}

/// Where to download a file.
#[derive(Debug, Deserialize)]
pub(super) struct Located {
    pub(super) file_path: Option<String>,
    pub(super) file_size: Option<u64>,
}

/// A geographic position.
#[derive(Debug, Deserialize)]
pub(super) struct Location {
    pub(super) latitude: f64,
    pub(super) longitude: f64,
}

/// A place with a name.
#[derive(Debug, Deserialize)]
pub(super) struct Venue {
    #[serde(default)]
    pub(super) title: String,
    #[serde(default)]
    pub(super) address: String,
}

/// A phone number that was shared as a contact.
#[derive(Debug, Deserialize)]
pub(super) struct Contact {
    #[serde(default)]
    pub(super) phone_number: String,
    #[serde(default)]
    pub(super) first_name: String,
    pub(super) last_name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Poll {
    #[serde(default)]
    pub(super) question: String,
    #[serde(default)]
    pub(super) options: Vec<PollOption>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PollOption {
    #[serde(default)]
    pub(super) text: String,
}

/// A dice roll.
#[derive(Debug, Deserialize)]
pub(super) struct Dice {
    #[serde(default)]
    pub(super) emoji: String,
    #[serde(default)]
    pub(super) value: i64,
}

/// The answer to sending a message.
#[derive(Debug, Deserialize)]
pub(super) struct Sent {
    pub(super) message_id: i64,
}

/// A field whose content does not matter.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}
