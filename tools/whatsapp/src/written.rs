//! A message of a person, as it waits in the spool.

use hearth_bridge::program::state::time_text;
use hearth_bridge::{Event, Sender};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A kind of file, for which WhatsApp has keys of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Image,
    Video,
    Audio,
    Document,
    Sticker,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attached {
    pub(crate) kind: Kind,
    pub(crate) name: Option<String>,
    pub(crate) mime: Option<String>,
    pub(crate) size: u64,
    /// Where it is on WhatsApp's servers.
    pub(crate) path: String,
    pub(crate) key: Vec<u8>,
    pub(crate) digest: Vec<u8>,
    pub(crate) encrypted_digest: Vec<u8>,
}

/// A message of a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) chat: String,
    pub(crate) is_group: bool,
    pub(crate) id: String,
    pub(crate) author: String,
    pub(crate) name: Option<String>,
    /// Seconds since 1970.
    pub(crate) time: i64,
    pub(crate) text: String,
    pub(crate) is_mention: bool,
    /// Written by the person whose account it is, to themselves.
    pub(crate) is_note: bool,
    /// The message that it answers, as agents see it.
    pub(crate) answered: Option<Value>,
    pub(crate) files: Vec<Attached>,
}

impl Written {
    /// The message as Hearth takes it.
    pub(crate) fn event(&self) -> Event {
        let mut content = json!({ "text": self.text });
        if let (Some(fields), Some(answered)) = (content.as_object_mut(), &self.answered) {
            fields.insert("replyTo".to_owned(), answered.clone());
        }
        let message = json!({
            "id": self.id,
            "isMention": self.is_mention,
            "isGroup": self.is_group,
            "timestamp": time_text(self.time),
            "content": content,
        });
        let rest = [("platformId", json!(self.chat)), ("threadId", Value::Null), ("message", message)];
        let rest = rest.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        // WhatsApp vouches for the id.
        let sender = Sender { id: self.author.clone(), name: self.name.clone(), verified: true };
        Event { sender: Some(sender), files: Vec::new(), rest }
    }

    /// The message with which is asked whether an agent would get it. What a person writes to another is as if that one had
    /// written: otherwise an owner would begin a conversation with an agent in each of their own chats.
    pub(crate) fn asked(&self) -> Event {
        let mut event = self.event();
        if !self.is_group && self.chat != self.author {
            event.sender = Some(Sender { id: self.chat.clone(), name: None, verified: true });
        }
        event
    }
}
