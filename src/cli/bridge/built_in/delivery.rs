//! Reads a delivery of the kit as the daemon's own.

use hearth_bridge::{CardOption, Deliver, DeliverAct, SentFile, ShownCard};

use crate::model::address::{Address, ChannelName, ForeignId};
use crate::model::card::{self, Button, Card};
use crate::model::content::RawJson;
use crate::model::delivery::{Attempt, Delivery, DeliveryAct};
use crate::model::id::OutgoingId;
use crate::model::time::Awake;

/// Reads a delivery.
pub(super) fn read(channel: &ChannelName, deliver: Deliver) -> Result<Delivery, String> {
    let key: OutgoingId = deliver.id.parse().map_err(|error| format!("{}: {error}", deliver.id))?;
    let id = |text: String| ForeignId::new("the id", text).map_err(|error| error.to_string());
    let message = || deliver.message_id.clone().ok_or("the id of the message is missing".to_owned()).and_then(id);
    Ok(Delivery {
        id: key.id,
        key,
        attempt: Attempt { number: deliver.attempt, since: Awake::new(0, 0) },
        act: match deliver.act {
            DeliverAct::Say => DeliveryAct::Say,
            DeliverAct::Ask => DeliveryAct::Ask(deliver.card.ok_or("the card is missing".to_owned()).and_then(shown)?),
            DeliverAct::Edit => DeliveryAct::Edit(message()?),
            DeliverAct::React => DeliveryAct::React(message()?),
        },
        to: Address {
            channel: channel.clone(),
            platform_id: id(deliver.platform_id)?,
            thread: deliver.thread_id.map(id).transpose()?,
        },
        repeated: deliver.repeated,
        speaker: deliver.speaker,
        in_reply_to: None,
        content: RawJson::trusted(serde_json::json!({ "text": deliver.text }).to_string()),
        text: deliver.text,
        // What is gone has a name that no file has.
        files: deliver.files.into_iter().map(placed).collect(),
    })
}

/// The directory of a file that keeps its name there.
pub(super) fn directory_of(path: &str) -> String {
    format!("{path}.named")
}

fn placed(SentFile { name, path, .. }: SentFile) -> String {
    path.map_or(name.clone(), |path| format!("{}/{name}", directory_of(&path)))
}

fn shown(shown: ShownCard) -> Result<Card, String> {
    let first = shown.options.first().and_then(|option| Button::parse(&option.button));
    let Button { matter, nonce, .. } = first.ok_or("the first option has no button")?;
    let option =
        |CardOption { label, .. }: CardOption| card::CardOption { chosen: label.clone(), value: label.clone(), label };
    let options = shown.options.into_iter().map(option).collect();
    Ok(Card { matter, nonce, title: shown.title, body: shown.body, options })
}
