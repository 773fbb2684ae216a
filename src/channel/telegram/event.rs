//! Messages of the Bot API as inbound events.
//!
//! | of the event | is |
//! |---|---|
//! | chat | the chat's id; in direct messages it is the person's id |
//! | thread | `message_thread_id`, if the message is in a topic of a forum; threads of answers are none |
//! | id | `message_id`, which is unique in its chat |
//! | sender | `from.id`; who speaks for a chat (anonymous administrators, channels) is `chat:<id of that chat>` |
//! | mention | direct message, `@name` or `/command@name` of the bot, answer to the bot |
//!
//! Service messages of a chat (joined, left, pinned …), the bot's own messages and commands for other bots are ignored.
//! Edits are not requested: an agent has already read the original.

use serde_json::{Map, Value, json};

use super::super::event::{CONTENT_BYTES_MAX, displayable};
use super::attachments::{self, MessageFile};
use super::mention::{Meant, answered, meant, without_our_name, words};
use super::wire::{Chat, Message, User};
use crate::model::address::{Address, BadName, ChannelName, ForeignId};
use crate::model::content::{Content, RawJson};
use crate::model::input::InboundEvent;
use crate::model::message::MessageKind;
use crate::model::time::Timestamp;

/// Classification of a message.
#[derive(Debug)]
pub(super) enum Taken {
    /// An event, and the files that have to be fetched for it.
    Event(Box<InboundEvent>, Vec<MessageFile>),
    /// The chat has a new id.
    Moved(i64),
    /// Nothing to route, and why.
    Nothing(&'static str),
}

/// Reads a message. `me` is the bot.
///
/// # Errors
/// [`BadName`] for ids that no platform assigns.
pub(super) fn take(channel: &ChannelName, me: &User, message: &Message) -> Result<Taken, BadName> {
    if let Some(to) = message.migrate_to_chat_id {
        return Ok(Taken::Moved(to));
    }
    if message.sender_chat.is_none() && message.from.as_ref().is_some_and(|from| from.id == me.id) {
        return Ok(Taken::Nothing("the bot sent it"));
    }
    let meant = meant(message, me);
    if meant == Meant::AnotherBot {
        return Ok(Taken::Nothing("a command for another bot"));
    }
    let found = attachments::found(message);
    let (text, entities) = words(message);
    let text = if text.is_empty() { described(message) } else { Some(without_our_name(text, entities, me)) };
    if text.is_none() && found.is_empty() {
        return Ok(Taken::Nothing("not a message from a person"));
    }
    let content = content(message, text.unwrap_or_default(), &found)?;
    if content.raw.as_str().len() > CONTENT_BYTES_MAX {
        return Ok(Taken::Nothing("larger than the maximum size of a message"));
    }
    Ok(Taken::Event(
        Box::new(InboundEvent {
            source: address(channel, &message.chat, topic(message.is_topic_message, message.message_thread_id))?,
            platform_message: Some(ForeignId::new("message_id", message.message_id.to_string())?),
            kind: MessageKind::ChatSdk,
            content,
            said: message.said(),
            mention: meant == Meant::Us,
            group: matches!(message.chat.kind.as_str(), "group" | "supergroup"),
            reply_to: None,
            threads: None,
            cursors: Vec::new(),
            chat_name: chat_name(&message.chat),
            attachments: Vec::new(),
        }),
        found,
    ))
}

/// The thread of a message, if the message is in a topic.
pub(super) fn topic(in_topic: bool, thread: Option<i64>) -> Option<i64> {
    thread.filter(|_| in_topic)
}

impl Message {
    /// When it was sent.
    pub(super) fn said(&self) -> Option<Timestamp> {
        (self.date > 0).then(|| Timestamp::from_millis(self.date.saturating_mul(1_000)))
    }
}

/// The address of a message.
///
/// # Errors
/// Never for numbers; the types do not know that.
pub(super) fn address(channel: &ChannelName, chat: &Chat, topic: Option<i64>) -> Result<Address, BadName> {
    Ok(Address {
        channel: channel.clone(),
        platform_id: ForeignId::new("chat.id", chat.id.to_string())?,
        thread: topic.map(|topic| ForeignId::new("message_thread_id", topic.to_string())).transpose()?,
    })
}

fn content(message: &Message, text: String, found: &[MessageFile]) -> Result<Content, BadName> {
    let sender = sender(message);
    let mut fields = Map::from_iter([
        ("text".to_owned(), json!(text)),
        ("messageId".to_owned(), json!(message.message_id.to_string())),
    ]);
    if let Some(sender) = &sender {
        fields.insert("senderId".to_owned(), json!(sender.id));
        fields.insert("sender".to_owned(), json!(sender.name));
        fields.insert("senderName".to_owned(), json!(sender.name));
        let author = json!({
            "userId": sender.id, "fullName": sender.name, "userName": sender.username, "isBot": sender.is_bot,
        });
        fields.insert("author".to_owned(), author);
    }
    if let Some(answered) = answered(message) {
        fields.insert("replyTo".to_owned(), reply_to(message, answered));
    }
    if let Some(album) = &message.media_group_id {
        fields.insert("mediaGroupId".to_owned(), json!(album));
    }
    if !found.is_empty() {
        fields.insert("attachments".to_owned(), found.iter().map(MessageFile::described).collect());
    }
    Ok(Content {
        text,
        sender: sender.as_ref().map(|sender| ForeignId::new("from.id", sender.id.clone())).transpose()?,
        sender_name: sender.and_then(|sender| displayable(&sender.name)),
        raw: RawJson::trusted(Value::Object(fields).to_string()),
    })
}

struct Sender {
    id: String,
    name: String,
    username: Option<String>,
    is_bot: bool,
}

/// The sender. A chat that acts as the sender has an id that cannot equal a person's.
fn sender(message: &Message) -> Option<Sender> {
    let spoken_for = |chat: &Chat| Sender {
        id: format!("chat:{}", chat.id),
        name: chat_name(chat).unwrap_or_default(),
        username: chat.username.clone(),
        is_bot: false,
    };
    let said_by = |user: &User| Sender {
        id: user.id.to_string(),
        name: full_name(&user.first_name, user.last_name.as_deref()).or(user.username.clone()).unwrap_or_default(),
        username: user.username.clone(),
        is_bot: user.is_bot,
    };
    let channel = (message.chat.kind == "channel").then_some(&message.chat);
    let user = message.from.as_ref().map(said_by);
    message.sender_chat.as_ref().map(spoken_for).or(user).or(channel.map(spoken_for))
}

fn reply_to(message: &Message, answered: &Message) -> Value {
    let (text, _) = words(answered);
    let from = answered.from.as_ref();
    let names = [from.map(|from| from.first_name.as_str()), from.and_then(|from| from.username.as_deref())];
    let name = names.into_iter().flatten().find(|name| !name.is_empty());
    let chat = answered.sender_chat.as_ref().and_then(|chat| chat.title.as_deref());
    let mut fields = json!({
        "text": text, "sender": chat.or(name).unwrap_or("Unknown"), "messageId": answered.message_id.to_string(),
    });
    if let (Some(fields), Some(quote)) = (fields.as_object_mut(), &message.quote) {
        fields.insert("quote".to_owned(), json!(quote.text));
    }
    fields
}

fn chat_name(chat: &Chat) -> Option<String> {
    let person = || full_name(chat.first_name.as_deref().unwrap_or_default(), chat.last_name.as_deref());
    let name = chat.title.clone().or_else(person).or_else(|| chat.username.clone());
    name.and_then(|name| displayable(&name))
}

fn full_name(first: &str, last: Option<&str>) -> Option<String> {
    let whole = format!("{first} {}", last.unwrap_or_default());
    let whole = whole.trim();
    (!whole.is_empty()).then(|| whole.to_owned())
}

/// A description of content that is neither text nor file, so that an agent knows what was sent.
fn described(message: &Message) -> Option<String> {
    let at = message.location.as_ref().map(|at| format!("{}, {}", at.latitude, at.longitude));
    let venue = message.venue.as_ref();
    let contact = message.contact.as_ref();
    let poll = message.poll.as_ref();
    let options =
        poll.map(|poll| poll.options.iter().map(|option| option.text.as_str()).collect::<Vec<_>>().join(" / "));
    venue
        .map(|venue| format!("[place: {}, {} ({})]", venue.title, venue.address, at.as_deref().unwrap_or("nowhere")))
        .or_else(|| at.as_ref().map(|at| format!("[location: {at}]")))
        .or_else(|| {
            let name = contact.and_then(|contact| full_name(&contact.first_name, contact.last_name.as_deref()));
            contact.map(|contact| format!("[contact: {} {}]", name.unwrap_or_default(), contact.phone_number))
        })
        .or_else(|| poll.map(|poll| format!("[poll: {} ({})]", poll.question, options.unwrap_or_default())))
        .or_else(|| message.dice.as_ref().map(|dice| format!("[{} {}]", dice.emoji, dice.value)))
}

#[cfg(test)]
mod tests;
