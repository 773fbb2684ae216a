//! The steps of a delivery. Pure: the same delivery always has the same steps, so that an attempt can continue where an
//! earlier one stopped.
//!
//! Texts are unconverted; their Markdown is converted when they are sent ([`super::markup`]).

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::super::split::{Unit, split};
use crate::model::address::{Address, ForeignId};
use crate::model::card::Card;
use crate::model::delivery::{Delivery, DeliveryAct};

/// Maximum length of one message in UTF-16 code units. Telegram allows 4,096; the rest is for [`AGAIN`].
const TEXT_MAX: usize = 4_000;
/// Maximum length of a caption. Telegram allows 1,024.
const CAPTION_MAX: usize = 950;
/// Maximum length of a button label in characters.
const LABEL_MAX: usize = 60;
/// Buttons in a row, if their labels are short.
const ROW: usize = 3;
/// Maximum length of a short label in characters.
const SHORT_LABEL: usize = 12;
/// Maximum length of a button's link in bytes.
const LINK_MAX: usize = 2_000;
/// Maximum number of buttons under one message.
const BUTTONS_MAX: usize = 100;
/// Prefix of a message that may be a duplicate.
pub(super) const AGAIN: &str = "(sent again, the first attempt may have arrived)\n";

/// One API call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Sends a message, with rows of buttons.
    Text { text: String, buttons: Vec<Vec<Value>> },
    /// Sends a file, by its name below the sessions' directory.
    File { name: String, caption: String },
    /// Changes the text of a message and removes its buttons.
    Edit { message: i64, text: String },
    /// Deletes a message that is no longer needed.
    Remove { message: i64 },
    /// Sets the reaction to a message; `None` removes it.
    React { message: i64, emoji: Option<String> },
}

/// The remaining work of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SendPlan {
    /// The chat, in the API's format.
    pub(super) chat: Value,
    pub(super) topic: Option<i64>,
    /// Calls that were not made yet, or whose result is unknown.
    pub(super) steps: VecDeque<Step>,
    /// Messages that were sent or edited, in order.
    pub(super) ids: Vec<i64>,
    /// Messages that are parts of one text.
    pub(super) texts: Vec<i64>,
    /// Whether an agent wrote it, so that its Markdown is converted; everything else is plain.
    pub(super) markup: bool,
    /// Whether its files are the spoken form of a message, and shown as voice messages.
    pub(super) spoken: bool,
    /// Whether the last message represents the delivery, because it has the buttons, instead of the first.
    pub(super) last_counts: bool,
}

/// Plans a delivery. `parts` are the messages that the message to edit consists of, itself first.
///
/// # Errors
/// Why it can never be delivered.
pub(super) fn plan(delivery: &Delivery, parts: &[i64]) -> Result<SendPlan, String> {
    let steps = match &delivery.act {
        DeliveryAct::Say => say(delivery)?,
        DeliveryAct::Ask(card) => ask(card),
        DeliveryAct::Edit(message) => edit(first(message)?, &words(delivery).0, parts)?,
        DeliveryAct::React(message) => vec![Step::React { message: first(message)?, emoji: emoji(&delivery.text)? }],
    };
    let (chat, topic) = place(&delivery.to)?;
    let last_counts = matches!(delivery.act, DeliveryAct::Ask(_));
    let markup = delivery.speaker.is_some() && !last_counts;
    let (ids, texts, spoken) = (Vec::new(), Vec::new(), is_spoken(delivery));
    Ok(SendPlan { chat, topic, steps: steps.into(), ids, texts, markup, spoken, last_counts })
}

/// Whether a delivery is the spoken form of another one.
fn is_spoken(delivery: &Delivery) -> bool {
    let payload: Value = serde_json::from_str(delivery.content.as_str()).unwrap_or_default();
    payload.get("spokenFormOf").is_some()
}

/// Chat and topic in the API's format.
pub(super) fn place(to: &Address) -> Result<(Value, Option<i64>), String> {
    let id = to.platform_id.as_str();
    let chat = match id.parse::<i64>() {
        Ok(number) => json!(number),
        Err(_) if id.len() > 1 && id.starts_with('@') => json!(id),
        Err(_) => return Err("the chat has no Telegram id".to_owned()),
    };
    Ok((chat, to.thread.as_ref().map(|thread| number("topic", thread)).transpose()?))
}

fn number(what: &str, id: &ForeignId) -> Result<i64, String> {
    id.as_str().parse().map_err(|_| format!("the {what} has no Telegram id"))
}

/// The messages in the id of a delivery; see [`SendPlan::answer`].
pub(super) fn messages(id: &ForeignId) -> Vec<i64> {
    id.as_str().split(' ').map_while(|message| message.parse().ok()).collect()
}

fn first(id: &ForeignId) -> Result<i64, String> {
    messages(id).first().copied().ok_or_else(|| "the message has no Telegram id".to_owned())
}

impl SendPlan {
    /// Marks the next call as a repeat.
    pub(super) fn mark(&mut self) {
        match self.steps.front_mut() {
            Some(Step::Text { text, .. } | Step::File { caption: text, .. }) if !text.starts_with(AGAIN) => {
                text.insert_str(0, AGAIN);
            }
            _ => {}
        }
    }

    /// Removes the next call from the plan, and records the message that it sent or edited.
    pub(super) fn made(&mut self, message: Option<i64>) {
        let step = self.steps.pop_front();
        self.ids.extend(message);
        if matches!(step, Some(Step::Text { .. } | Step::Edit { .. })) {
            self.texts.extend(message);
        }
    }

    /// Sends the next part as a new message if it was to replace one that is gone. The first part is the message itself.
    pub(super) fn is_sent_anew(&mut self) -> bool {
        let Some(step) = self.steps.front_mut().filter(|_| !self.texts.is_empty()) else { return false };
        let Step::Edit { text, .. } = step else { return false };
        *step = Step::Text { text: std::mem::take(text), buttons: Vec::new() };
        true
    }

    /// The id of the delivery: the message that represents it. A text of several messages is all of them, with spaces
    /// between them, so that an edit after a restart finds them; the first one alone, if that would be too long for an id.
    pub(super) fn answer(&self) -> Option<ForeignId> {
        let id = |text: String| ForeignId::new("message_id", text).ok();
        let one = if self.last_counts { self.ids.last() } else { self.ids.first() };
        let is_text = !self.last_counts && self.texts.len() > 1 && self.texts.first() == one;
        let all = is_text.then(|| self.texts.iter().map(i64::to_string).collect::<Vec<_>>().join(" "));
        all.and_then(id).or_else(|| id(one?.to_string()))
    }
}

impl Step {
    /// Whether the call can be repeated without a visible effect.
    pub(super) const fn is_repeatable(&self) -> bool {
        matches!(self, Self::Edit { .. } | Self::Remove { .. } | Self::React { .. })
    }
}

fn say(delivery: &Delivery) -> Result<Vec<Step>, String> {
    let (text, links) = words(delivery);
    let is_short = text.encode_utf16().count() <= CAPTION_MAX;
    let mut steps = Vec::new();
    let mut caption = String::new();
    if !delivery.files.is_empty() && is_short && links.is_empty() {
        caption = text;
    } else {
        steps = texts(&text, links);
    }
    for name in &delivery.files {
        steps.push(Step::File { name: name.clone(), caption: std::mem::take(&mut caption) });
    }
    if steps.is_empty() { Err("the message has nothing to show".to_owned()) } else { Ok(steps) }
}

/// A text as messages; the buttons are under the last one.
fn texts(text: &str, buttons: Vec<Vec<Value>>) -> Vec<Step> {
    let pieces = split(text.trim(), TEXT_MAX, Unit::Utf16);
    let mut steps: Vec<Step> = pieces.into_iter().map(|text| Step::Text { text, buttons: Vec::new() }).collect();
    if let Some(Step::Text { buttons: last, .. }) = steps.last_mut() {
        *last = buttons;
    }
    steps
}

fn ask(card: &Card) -> Vec<Step> {
    let short = card.options.iter().all(|option| option.label.chars().count() <= SHORT_LABEL);
    let buttons: Vec<Value> = card
        .offered()
        .take(BUTTONS_MAX)
        .map(|(at, option)| json!({ "text": label(&option.label), "callback_data": card.button(at).to_string() }))
        .collect();
    let rows = buttons.chunks(if short { ROW } else { 1 }).map(<[Value]>::to_vec).collect();
    texts(&format!("{}\n\n{}", card.title, card.body), rows)
}

/// The label of a button. Telegram rejects empty ones.
fn label(text: &str) -> String {
    let text = text.trim();
    let mut label: String = text.chars().take(LABEL_MAX).collect();
    if label.len() < text.len() {
        label.push('…');
    }
    if label.is_empty() { "…".to_owned() } else { label }
}

/// Spreads the new text over the message's parts. Surplus parts are deleted, missing ones are sent.
fn edit(message: i64, text: &str, parts: &[i64]) -> Result<Vec<Step>, String> {
    let known: &[i64] = if parts.is_empty() { &[message] } else { parts };
    let pieces = split(text.trim(), TEXT_MAX, Unit::Utf16);
    if pieces.is_empty() {
        return Err("a message cannot become empty".to_owned());
    }
    let gone = known.iter().skip(pieces.len()).map(|message| Step::Remove { message: *message });
    let steps = pieces.iter().enumerate().map(|(at, piece)| match known.get(at) {
        Some(message) => Step::Edit { message: *message, text: piece.clone() },
        None => Step::Text { text: piece.clone(), buttons: Vec::new() },
    });
    Ok(steps.chain(gone).collect())
}

/// The text of a delivery, and buttons for the links of a card. A card without such links is its text.
fn words(delivery: &Delivery) -> (String, Vec<Vec<Value>>) {
    let payload: Value = serde_json::from_str(delivery.content.as_str()).unwrap_or_default();
    if let Some(card) = payload.get("card").filter(|card| card.is_object()) {
        let (shown, links) = show_card(card);
        if !links.is_empty() || delivery.text.trim().is_empty() {
            let shown = if shown.is_empty() { field(&payload, "fallbackText").to_owned() } else { shown };
            return (if shown.is_empty() { delivery.text.clone() } else { shown }, links);
        }
    }
    let said = [delivery.text.as_str(), field(&payload, "markdown"), field(&payload, "text")];
    let said = said.into_iter().find(|text| !text.trim().is_empty());
    (said.unwrap_or_default().to_owned(), Vec::new())
}

/// What a card shows, and buttons for its links. Links that cannot be buttons are shown as text.
fn show_card(card: &Value) -> (String, Vec<Vec<Value>>) {
    let list = |key: &str| card.get(key).and_then(Value::as_array).into_iter().flatten();
    let children = list("children").map(|child| child.as_str().unwrap_or_else(|| field(child, "text")).to_owned());
    let mut parts: Vec<String> = [field(card, "title"), field(card, "description")].map(str::to_owned).into();
    parts.extend(children);
    let mut buttons = Vec::new();
    for action in list("actions") {
        let (name, url) = (field(action, "label"), field(action, "url"));
        if is_for_button(url) && buttons.len() < BUTTONS_MAX {
            buttons.push(vec![json!({ "text": label(name), "url": url })]);
        } else if url.starts_with("http://") || url.starts_with("https://") {
            parts.push(format!("{name}: {url}"));
        }
    }
    let shown: Vec<&str> = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect();
    (shown.join("\n\n"), buttons)
}

/// Whether Telegram accepts a link for a button. It refuses the whole message because of one without a public host name.
fn is_for_button(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#', ':']).next()).unwrap_or_default();
    let named = host.trim_matches('.').contains('.') && host.chars().all(|c| c.is_alphanumeric() || "-._".contains(c));
    named && url.len() <= LINK_MAX && !url.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn field<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Telegram's reaction for an emoji or its name; `None` for an empty text.
///
/// # Errors
/// For an unknown name. Telegram decides whether an emoji is allowed in the chat.
fn emoji(text: &str) -> Result<Option<String>, String> {
    let text = text.trim().trim_matches(':');
    let named = NAMED.iter().find(|(names, _)| names.contains(&text)).map(|(_, emoji)| *emoji);
    match named {
        _ if text.is_empty() => Ok(None),
        Some(emoji) => Ok(Some(emoji.to_owned())),
        None if text.is_ascii() => {
            Err(format!("`{}` is not a Telegram reaction", text.chars().take(40).collect::<String>()))
        }
        // Telegram's list has the characters without the emoji variation selector.
        None => Ok(Some(text.replace('\u{fe0f}', ""))),
    }
}

/// Names that agents use, and the closest reaction.
const NAMED: &[(&[&str], &str)] = &[
    (&["thumbs_up", "thumbsup", "+1", "like"], "👍"),
    (&["thumbs_down", "thumbsdown", "-1"], "👎"),
    (&["heart", "red_heart", "love"], "❤"),
    (&["fire"], "🔥"),
    (&["clap", "clapping_hands"], "👏"),
    (&["grin", "smile", "grinning"], "😁"),
    (&["laughing", "joy", "rofl"], "🤣"),
    (&["thinking", "thinking_face"], "🤔"),
    (&["exploding_head", "mind_blown"], "🤯"),
    (&["scream", "shocked"], "😱"),
    (&["cry", "sad"], "😢"),
    (&["sob"], "😭"),
    (&["tada", "party", "party_popper"], "🎉"),
    (&["star_struck"], "🤩"),
    (&["pray", "folded_hands", "thanks"], "🙏"),
    (&["ok", "ok_hand", "check", "white_check_mark", "done"], "👌"),
    (&["eyes", "looking"], "👀"),
    (&["100", "hundred"], "💯"),
    (&["zap", "lightning"], "⚡"),
    (&["trophy"], "🏆"),
    (&["handshake"], "🤝"),
    (&["writing", "writing_hand"], "✍"),
    (&["hugs", "hugging_face"], "🤗"),
    (&["salute", "saluting_face"], "🫡"),
    (&["shrug"], "🤷"),
    (&["sunglasses", "cool"], "😎"),
];

#[cfg(test)]
mod tests;
