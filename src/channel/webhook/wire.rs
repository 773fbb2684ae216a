//! The JSON of both directions, as [the protocol](../../../docs/webhook.md) defines it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::address::{Address, ChannelName, ForeignId, UserId};
use crate::model::card::{Button, Card};
use crate::model::delivery::{Delivery, DeliveryAct};
use crate::model::input::Press;

/// Maximum length in characters of a receiver's error text; the rest is cut.
const WORDS_CHARS_MAX: usize = 200;

/// A pressed button.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pushed {
    button: String,
    user_id: String,
    platform_id: String,
    #[serde(default)]
    thread_id: Option<String>,
}

impl Pushed {
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| {
            format!("the action is not usable: {error}; send `button`, `userId` and `platformId` as strings")
        })
    }

    /// The press as an event of a channel.
    pub(super) fn press(self, channel: &ChannelName) -> Result<Press, String> {
        let needed = |what, text: String| {
            let id = ForeignId::optional(what, Some(text)).map_err(|error| error.to_string())?;
            id.ok_or_else(|| format!("{what} is empty; send the id as the platform gives it"))
        };
        let button = Button::parse(&self.button);
        let button = button.ok_or("button is not one of Hearth's; send the card's value unchanged")?;
        let thread = ForeignId::optional("threadId", self.thread_id).map_err(|error| error.to_string())?;
        Ok(Press {
            by: UserId::new(channel.clone(), needed("userId", self.user_id)?),
            at: Address { channel: channel.clone(), platform_id: needed("platformId", self.platform_id)?, thread },
            button,
        })
    }
}

/// A message, card, edit or reaction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireMessage<'a> {
    id: String,
    act: &'static str,
    platform_id: &'a str,
    thread_id: Option<&'a str>,
    text: &'a str,
    content: Option<&'a RawValue>,
    repeated: bool,
    speaker: Option<&'a str>,
    in_reply_to: Option<String>,
    card: Option<WireCard<'a>>,
    message_id: Option<&'a str>,
    link_previews: bool,
    files: Vec<FileShape>,
}

#[derive(Debug, Serialize)]
struct WireCard<'a> {
    title: &'a str,
    body: &'a str,
    options: Vec<Choosable<'a>>,
}

#[derive(Debug, Serialize)]
struct Choosable<'a> {
    label: &'a str,
    button: String,
}

/// A file of a message. If it cannot be read it has a reason instead; the message and its other files are still sent.
#[derive(Debug, Serialize)]
pub(super) struct FileShape {
    pub(super) name: String,
    pub(super) size: u64,
    /// Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// The body of a delivery.
pub(super) fn delivery(
    delivery: &Delivery,
    files: Vec<FileShape>,
    link_previews: bool,
) -> Result<String, serde_json::Error> {
    let (act, card, message) = match &delivery.act {
        DeliveryAct::Say => ("say", None, None),
        DeliveryAct::Ask(card) => ("ask", Some(shown(card)), None),
        DeliveryAct::Edit(message) => ("edit", None, Some(message)),
        DeliveryAct::React(message) => ("react", None, Some(message)),
    };
    serde_json::to_string(&WireMessage {
        id: delivery.key.to_string(),
        act,
        platform_id: delivery.to.platform_id.as_str(),
        thread_id: delivery.to.thread.as_ref().map(ForeignId::as_str),
        text: &delivery.text,
        content: serde_json::from_str(delivery.content.as_str()).ok(),
        repeated: delivery.repeated,
        speaker: delivery.speaker.as_deref(),
        in_reply_to: delivery.in_reply_to.map(|message| message.to_string()),
        card,
        message_id: message.map(ForeignId::as_str),
        link_previews,
        files,
    })
}

fn shown(card: &Card) -> WireCard<'_> {
    let options = card.offered();
    let options = options.map(|(at, option)| Choosable { label: &option.label, button: card.button(at).to_string() });
    WireCard { title: &card.title, body: &card.body, options: options.collect() }
}

/// The body of a request about an address: `typing`, `subscribe`.
pub(super) fn about_place(act: &str, at: &Address) -> String {
    let thread = at.thread.as_ref().map(ForeignId::as_str);
    serde_json::json!({ "act": act, "platformId": at.platform_id.as_str(), "threadId": thread }).to_string()
}

/// The body of a question for a person's direct address.
pub(super) fn open_direct(user: &UserId) -> String {
    serde_json::json!({ "act": "openDirect", "userId": user.handle().as_str() }).to_string()
}

/// An id in an answer; `None` if there is no valid one.
pub(super) fn id_in(answer: &[u8], field: &'static str) -> Option<ForeignId> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    let text = match answer.get(field)? {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) => number.to_string(),
        _ => return None,
    };
    ForeignId::optional(field, Some(text)).ok()?
}

/// The beginning of an answer, on one line.
pub(super) fn words(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let short: String = plain.take(WORDS_CHARS_MAX).collect();
    short.split_whitespace().collect::<Vec<_>>().join(" ")
}
