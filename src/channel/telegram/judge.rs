//! Applies the adapter's rules to a single update or delivery, without a server. Pure.

use super::event::{self, Taken};
use super::hand;
use super::markup::{plain, shown};
use super::plan::{Step, plan};
use super::wire::{Update, User};
use crate::model::address::ChannelName;
use crate::model::delivery::Delivery;
use crate::model::input::{InboundEvent, Press};

/// The reader: the channel, and the bot's id and name at Telegram.
#[derive(Debug, Clone)]
pub struct BotIdentity {
    pub channel: ChannelName,
    /// The bot's id.
    pub bot: i64,
    pub name: String,
}

/// What an update contains.
#[derive(Debug)]
pub enum Handed {
    /// A message; its files are not fetched.
    Event(Box<InboundEvent>),
    /// A pressed button.
    Press(Press),
    /// Nothing to pass on.
    Nothing,
}

/// Reads an update in the server's format.
///
/// # Errors
/// Why it is skipped.
pub fn read(heard: &BotIdentity, update: &[u8]) -> Result<Handed, String> {
    let Update { message, channel_post, callback_query } =
        serde_json::from_slice(update).map_err(|error| error.to_string())?;
    let bot = User {
        id: heard.bot,
        is_bot: true,
        first_name: heard.name.clone(),
        last_name: None,
        username: Some(heard.name.clone()),
    };
    if let Some(message) = message.or(channel_post) {
        let taken = event::take(&heard.channel, &bot, &message).map_err(|error| error.to_string())?;
        return Ok(if let Taken::Event(event, _) = taken { Handed::Event(event) } else { Handed::Nothing });
    }
    let Some(pressed) = callback_query else { return Ok(Handed::Nothing) };
    let press = hand::press(&heard.channel, &pressed).map_err(|error| error.to_string())?;
    Ok(press.map_or(Handed::Nothing, Handed::Press))
}

/// Offset and length of a formatted range of a text, in UTF-16 code units.
pub type Stretch = (u64, u64);

/// The texts that a delivery sends, as displayed, each with its formatted ranges.
///
/// # Errors
/// Why nothing is sent.
pub fn texts(delivery: &Delivery) -> Result<Vec<(String, Vec<Stretch>)>, String> {
    let made = plan(delivery, &[])?;
    let markup = made.markup;
    let one = |step: Step| {
        let (Step::Text { text, .. } | Step::Edit { text, .. } | Step::File { caption: text, .. }) = step else {
            return None;
        };
        let shown = if markup { shown(&text) } else { plain(&text) };
        let number = |entity: &serde_json::Value, key: &str| entity.get(key).and_then(serde_json::Value::as_u64);
        let stretch = |entity| Some((number(entity, "offset")?, number(entity, "length")?));
        Some((shown.text, shown.entities.iter().filter_map(stretch).collect()))
    };
    Ok(made.steps.into_iter().filter_map(one).collect())
}
