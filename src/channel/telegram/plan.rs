//! What has to be sent for a delivery, step by step. Pure: the same delivery makes the same steps, so that an attempt can go
//! on where an earlier one stopped.
//!
//! Texts are still as they were written; what is Markdown in them is found when they are sent ([`super::markup`]).

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::super::split::{Unit, split};
use crate::model::address::{Address, ForeignId};
use crate::model::card::Card;
use crate::model::delivery::{Delivery, DeliveryAct};

/// Length of one message in UTF-16 code units. Telegram takes 4,096; the rest is for [`AGAIN`].
const TEXT_MAX: usize = 4_000;
/// Length of a caption. Telegram takes 1,024.
const CAPTION_MAX: usize = 950;
/// Characters on a button.
const LABEL_MAX: usize = 60;
/// Buttons beside each other, if their labels are short.
const ROW: usize = 3;
/// Characters of a label that is short.
const SHORT_LABEL: usize = 12;
/// Buttons under one message.
const BUTTONS_MAX: usize = 100;
/// What a message begins with that people may see for the second time.
pub(super) const AGAIN: &str = "(sent again, the first attempt may have arrived)\n";

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// A message, with rows of buttons.
    Text { text: String, buttons: Vec<Vec<Value>> },
    /// A file, by its name among the sessions' files.
    File { name: String, caption: String },
    /// Another text for a message, and no buttons.
    Edit { message: i64, text: String },
    /// The end of a message that is not needed any more.
    Remove { message: i64 },
    /// An emoji under a message; none takes it away.
    React { message: i64, emoji: Option<String> },
}

/// What is left to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// The chat as the API wants it.
    pub(super) chat: Value,
    /// The topic in it.
    pub(super) topic: Option<i64>,
    /// Calls that were not made yet, or of which nobody knows.
    pub(super) steps: VecDeque<Step>,
    /// Messages that were sent or changed, in order.
    pub(super) ids: Vec<i64>,
    /// Those of them that are parts of one text.
    pub(super) texts: Vec<i64>,
    /// Whether an agent wrote it, whose Markdown is shown; all else is plain.
    pub(super) markup: bool,
    /// Whether the last message stands for all, because it has the buttons, and not the first.
    pub(super) last_counts: bool,
}

/// Makes the plan of a delivery. `parts` are the messages of which the message to edit consists, itself first.
///
/// # Errors
/// Why it can never be delivered.
pub(super) fn plan(delivery: &Delivery, parts: &[i64]) -> Result<Plan, String> {
    let steps = match &delivery.act {
        DeliveryAct::Say => say(delivery)?,
        DeliveryAct::Ask(card) => ask(card),
        DeliveryAct::Edit(message) => edit(number("message", message)?, &words(delivery).0, parts)?,
        DeliveryAct::React(message) => {
            let message = number("message", message)?;
            vec![Step::React { message, emoji: emoji(&delivery.text)? }]
        }
    };
    let (chat, topic) = place(&delivery.to)?;
    let last_counts = matches!(delivery.act, DeliveryAct::Ask(_));
    let markup = delivery.speaker.is_some() && !last_counts;
    Ok(Plan { chat, topic, steps: steps.into(), ids: Vec::new(), texts: Vec::new(), markup, last_counts })
}

/// Chat and topic as the API wants them.
pub(super) fn place(to: &Address) -> Result<(Value, Option<i64>), String> {
    let id = to.platform_id.as_str();
    let chat = match id.parse::<i64>() {
        Ok(number) => json!(number),
        Err(_) if id.len() > 1 && id.starts_with('@') => json!(id),
        Err(_) => return Err("the chat has no id of Telegram".to_owned()),
    };
    Ok((chat, to.thread.as_ref().map(|thread| number("topic", thread)).transpose()?))
}

fn number(what: &str, id: &ForeignId) -> Result<i64, String> {
    id.as_str().parse().map_err(|_| format!("the {what} has no id of Telegram"))
}

impl Plan {
    /// The next call is shown to be a repetition.
    pub(super) fn mark(&mut self) {
        match self.steps.front_mut() {
            Some(Step::Text { text, .. } | Step::File { caption: text, .. }) if !text.starts_with(AGAIN) => {
                text.insert_str(0, AGAIN);
            }
            _ => {}
        }
    }

    /// The next call was made, and this is the message it made or changed.
    pub(super) fn made(&mut self, message: Option<i64>) {
        let step = self.steps.pop_front();
        self.ids.extend(message);
        if matches!(step, Some(Step::Text { .. } | Step::Edit { .. })) {
            self.texts.extend(message);
        }
    }

    /// The message that stands for all.
    pub(super) fn answer(&self) -> Option<i64> {
        if self.last_counts { self.ids.last().copied() } else { self.ids.first().copied() }
    }
}

impl Step {
    /// Whether it can be done twice and nobody sees it.
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
    if steps.is_empty() { Err("the message has nothing that could be shown".to_owned()) } else { Ok(steps) }
}

/// A text in messages; the buttons are under the last one.
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
    let options = (0_u32..).zip(&card.options).take(BUTTONS_MAX);
    let buttons: Vec<Value> = options
        .map(|(at, option)| json!({ "text": label(&option.label), "callback_data": card.button(at).to_string() }))
        .collect();
    let rows = buttons.chunks(if short { ROW } else { 1 }).map(<[Value]>::to_vec).collect();
    texts(&format!("{}\n\n{}", card.title, card.body), rows)
}

/// What is on a button; one without words is no button to Telegram.
fn label(text: &str) -> String {
    let text = text.trim();
    let mut label: String = text.chars().take(LABEL_MAX).collect();
    if label.len() < text.len() {
        label.push('…');
    }
    if label.is_empty() { "…".to_owned() } else { label }
}

/// Every part of the message gets its part of the new text. Parts that are too many go, those that are missing are sent.
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

/// What is said, and buttons with links: the text, or else what the payload has to show.
fn words(delivery: &Delivery) -> (String, Vec<Vec<Value>>) {
    if !delivery.text.trim().is_empty() {
        return (delivery.text.clone(), Vec::new());
    }
    let payload: Value = serde_json::from_str(delivery.content.as_str()).unwrap_or_default();
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(card) = payload.get("card").filter(|card| card.is_object()) else {
        let markdown = text(&payload, "markdown");
        return (if markdown.is_empty() { text(&payload, "text") } else { markdown }, Vec::new());
    };
    let children = card.get("children").and_then(Value::as_array).into_iter().flatten();
    let children = children.map(|child| child.as_str().map_or_else(|| text(child, "text"), str::to_owned));
    let parts: Vec<String> = [text(card, "title"), text(card, "description")].into_iter().chain(children).collect();
    let shown = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
    let actions = card.get("actions").and_then(Value::as_array).into_iter().flatten();
    let links = actions.filter_map(|action| {
        let url = text(action, "url");
        let is_link = url.starts_with("https://") || url.starts_with("http://");
        is_link.then(|| vec![json!({ "text": label(&text(action, "label")), "url": url })])
    });
    let shown = if shown.is_empty() { text(&payload, "fallbackText") } else { shown };
    (shown, links.take(BUTTONS_MAX).collect())
}

/// The reaction Telegram knows for an emoji or its name; none for an empty text.
///
/// # Errors
/// For a name that is not known. Whether an emoji may be used in the chat is Telegram's to say.
fn emoji(text: &str) -> Result<Option<String>, String> {
    let text = text.trim().trim_matches(':');
    let named = NAMED.iter().find(|(names, _)| names.contains(&text)).map(|(_, emoji)| *emoji);
    match named {
        _ if text.is_empty() => Ok(None),
        Some(emoji) => Ok(Some(emoji.to_owned())),
        None if text.is_ascii() => {
            Err(format!("`{}` is not a Telegram reaction", text.chars().take(40).collect::<String>()))
        }
        // Telegram's list has the characters without the mark that asks for colours.
        None => Ok(Some(text.replace('\u{fe0f}', ""))),
    }
}

/// Names that agents use, and the reaction that comes nearest.
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
