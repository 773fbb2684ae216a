//! The channel of chats in the console. Pages show a chat as it is in the store, so a message is delivered as soon as it
//! is there, and a page that is opened later shows it as well.

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
