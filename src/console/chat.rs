//! The channel of chats in the console. Pages show a chat as it is in the store, so a message is delivered as soon as it
//! is there, and a page that is opened later shows it as well.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{NewMessage, UploadedFile, Visitor};
use crate::channel;
use crate::channel::attachments::Arrived;
use crate::channel::{Channel, Outcomes};
use crate::model::address::{Address, BadName, ChannelName, ForeignId, UserId};
use crate::model::console::CHANNEL;
use crate::model::delivery::{Delivery, DeliveryResult};

/// All chats of the console.
pub struct Chats {
    outcomes: Outcomes,
}

impl Chats {
    /// Creates the channel. Outcomes of deliveries go to `outcomes`.
    #[must_use]
    pub fn new(outcomes: Outcomes) -> Self {
        Self { outcomes }
    }
}

impl Channel for Chats {
    fn deliver(&self, delivery: Delivery) {
        (self.outcomes)(delivery.id, delivery.attempt, DeliveryResult::Delivered { platform_message: None });
    }
}

/// A message of a person, in the form in which bridges send theirs, so that it is read and its files are stored as theirs.
///
/// # Errors
/// What is wrong with it, for people.
pub fn event(at: &Address, who: &Visitor, message: &NewMessage) -> Result<Arrived, String> {
    let file = |file: &UploadedFile| serde_json::json!({"name": file.name, "mimeType": file.mime, "data": STANDARD.encode(&file.bytes)});
    let mut content = serde_json::json!({
        "text": message.text,
        "senderId": who.user.to_string(),
        "sender": who.name.as_deref().unwrap_or("you"),
    });
    if let (false, Some(fields)) = (message.files.is_empty(), content.as_object_mut()) {
        fields.insert("attachments".to_owned(), message.files.iter().map(file).collect());
    }
    let event = serde_json::json!({
        "channelType": at.channel.as_str(),
        "platformId": at.platform_id.as_str(),
        "message": {"id": message.id, "kind": "chat", "isMention": true, "content": content},
    });
    channel::event::read(event.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// The address of a person's chat with an agent. A folder has no slash, so no two are the same.
///
/// # Errors
/// [`BadName`] if the person's id is too long.
pub fn address(agent: &str, user: &UserId) -> Result<Address, BadName> {
    Ok(Address {
        channel: ChannelName::new(CHANNEL)?,
        platform_id: ForeignId::new("the chat", format!("{agent}/{user}"))?,
        thread: None,
    })
}
