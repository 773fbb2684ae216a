//! Builds the provider's prompt. Pure: the same messages in the same time zone give the same text.
//!
//! A prompt is a header with the time zone of all its times, followed by blocks: messages that were already sent in an
//! interrupted turn, one block for all chat, and one for each task, webhook and system answer. Text from people,
//! networks or agents can neither end its element nor begin another one (`escape.rs`).

mod chat;
pub(crate) mod command;
mod escape;
mod other;
#[cfg(test)]
mod tests;

use std::path::Path;

use hearth_wire::{Address, AlreadySent, Context, DestinationTarget, InMessage, RecapLine};
use hearth_zone::{Zone, show_text};
use serde_json::Value;

use self::escape::escaped;
use crate::outgoing::AGENTS;

/// The prompt of a turn: context and triggering messages, in order of arrival. Attachments are shown with their paths
/// below `root`, the session's directory.
pub(crate) fn prompt(root: &Path, context: &Context, background: &[InMessage], asked: &[InMessage]) -> String {
    let mut messages: Vec<PromptMessage<'_>> = background.iter().chain(asked).map(PromptMessage::of).collect();
    messages.sort_by_key(|message| message.seq);
    let zone = Zone::parse(&context.timezone).unwrap_or_else(|_| Zone::utc());
    Prompt { root, context, zone: &zone }.text(&messages)
}

/// The parts of a message that a prompt shows.
struct PromptMessage<'a> {
    /// Its number; `None` is not shown.
    seq: Option<u64>,
    kind: &'a str,
    timestamp: &'a str,
    unknown_sender: bool,
    reply: Option<&'a Address>,
    content: &'a Value,
}

impl<'a> PromptMessage<'a> {
    fn of(message: &'a InMessage) -> Self {
        let InMessage { seq, kind, timestamp, unknown_sender, reply, content, .. } = message;
        Self { seq: Some(*seq), kind, timestamp, unknown_sender: *unknown_sender, reply: reply.as_ref(), content }
    }
}

/// Common data of all messages of a prompt.
struct Prompt<'a> {
    root: &'a Path,
    context: &'a Context,
    zone: &'a Zone,
}

/// The kind of prompt element of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Chat,
    Task,
    Webhook,
    System,
}

impl Prompt<'_> {
    fn text(&self, messages: &[PromptMessage<'_>]) -> String {
        let mut blocks: Vec<String> = recap(&self.context.recap).into_iter().collect();
        blocks.extend(already_sent(&self.context.already_sent));
        let of = |element| messages.iter().filter(move |message| Element::of(message) == element);
        let chat: Vec<String> = of(Element::Chat).map(|message| self.chat(message)).collect();
        match chat.as_slice() {
            [] => {}
            [one] => blocks.push(one.clone()),
            several => blocks.push(format!("<messages>\n{}\n</messages>", several.join("\n"))),
        }
        blocks.extend(of(Element::Task).map(|message| self.task(message)));
        blocks.extend(of(Element::Webhook).map(|message| self.webhook(message)));
        blocks.extend(of(Element::System).map(|message| self.system(message)));
        format!("<context timezone=\"{}\" />\n{}", escaped(self.zone.name()), blocks.join("\n\n"))
    }

    fn time(&self, message: &PromptMessage<'_>) -> String {
        show_text(message.timestamp, self.zone)
    }

    /// The agent's name for the origin of a message, else the origin itself.
    fn from(&self, message: &PromptMessage<'_>) -> Option<String> {
        let Address { channel, platform_id, .. } = message.reply?;
        let is_there = |target: &DestinationTarget| match target {
            DestinationTarget::Channel { channel: theirs, platform_id: id } => theirs == channel && id == platform_id,
            DestinationTarget::Agent { folder } => channel == AGENTS && folder == platform_id,
        };
        let known = self.context.destinations.iter().find(|destination| is_there(&destination.target));
        match known {
            Some(destination) => Some(destination.name.clone()),
            None if channel.is_empty() && platform_id.is_empty() => None,
            None => Some(format!("unknown:{channel}:{platform_id}")),
        }
    }
}

impl Element {
    /// Unknown kinds are shown as chat. So are Hearth's notes, which have a text and no action.
    fn of(message: &PromptMessage<'_>) -> Self {
        match message.kind {
            "task" => Self::Task,
            "webhook" => Self::Webhook,
            "system" if text(message.content, "text").is_none() || message.content.get("action").is_some() => {
                Self::System
            }
            _ => Self::Chat,
        }
    }
}

/// What another provider answered in this conversation.
fn recap(lines: &[RecapLine]) -> Option<String> {
    let said = lines.iter().map(|line| {
        let from = line.from.as_deref().map_or("you", |name| name);
        format!("<said number=\"{}\" by=\"{}\">{}</said>", line.number, escaped(from), escaped(&line.text))
    });
    let note = "You did not see these messages: another model answered here in your name. They are a recap of its last \
                messages for your information, and done with. Do not answer them again:";
    let said = said.collect::<Vec<_>>().join("\n");
    (!lines.is_empty()).then(|| format!("<recap>\n{note}\n{said}\n</recap>"))
}

/// Messages that an earlier incarnation delivered in this turn.
fn already_sent(sent: &[AlreadySent]) -> Option<String> {
    let said = sent.iter().map(|one| format!("<said number=\"{}\">{}</said>", one.number, escaped(&one.text)));
    let note = "You were interrupted in this turn. This was already delivered and must not be sent again:";
    let said = said.collect::<Vec<_>>().join("\n");
    (!sent.is_empty()).then(|| format!("<already_sent>\n{note}\n{said}\n</already_sent>"))
}

/// A message's text, or a task's prompt; empty if there is none.
pub(crate) fn text_of(message: &InMessage) -> &str {
    let field = if message.kind == "task" { "prompt" } else { "text" };
    text(&message.content, field).unwrap_or("")
}

/// A field that is a non-empty string.
fn text<'a>(content: &'a Value, field: &str) -> Option<&'a str> {
    content.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// An attribute, if it has a value.
fn attribute(name: &str, value: Option<impl AsRef<str>>) -> String {
    value.map(|value| format!(" {name}=\"{}\"", escaped(value.as_ref()))).unwrap_or_default()
}
