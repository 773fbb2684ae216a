//! The way out: sends one message after the other. The bridge chooses the ids of its messages by Hearth's, so that a repeat
//! has the id of its first attempt; apps show a message of a known id once, but nothing promises that, so repeats are marked.

use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::markdown::whatsapp::formatted;
use hearth_bridge::program::parts::{Measure, Unit};
use hearth_bridge::program::post::{End, Post, shown};
use hearth_bridge::{Deliver, DeliverAct, Sent};
use sha2::{Digest as _, Sha256};
use whatsapp_rust::prelude::{MessageField, SendOptions, wa};

use crate::acks::Acks;
use crate::chat::{Chat, Id};
use crate::files::upload;
use crate::pace::Pace;
use crate::session::Session;
use crate::verdict::{judged, unsent};

/// Time for the library to send a message, and for WhatsApp to confirm it.
const SEND: Duration = Duration::from_secs(20);
const CONFIRM: Duration = Duration::from_secs(15);
/// How long a message waits for a session that is being begun.
const BEGIN: Duration = Duration::from_secs(8);
/// How long a message may wait for the pace of all.
const PACE: Duration = Duration::from_secs(8);
/// Characters of a message.
const PART: Measure = Measure { most: 4_000, unit: Unit::Chars, parts: 30 };
/// Longest reaction in bytes: a single emoji can have several signs.
const EMOJI: usize = 40;
/// What a message begins with that may be there twice.
const AGAIN: &str = "(sent again, the first attempt may have arrived)\n";
/// Longest name of a file in bytes.
const NAME_BYTES: usize = 200;
/// People that a message mentions.
const MENTIONS: usize = 30;

/// Sends to the chats of one thread.
pub(crate) struct Outbox {
    pub(crate) session: Session,
    pub(crate) acks: Acks,
    pub(crate) pace: Pace,
}

struct Sending<'a> {
    outbox: &'a Outbox,
    post: &'a Post,
    deliver: &'a Deliver,
    chat: Chat,
}

impl Outbox {
    /// Sends until the main loop ends.
    pub(crate) fn work(&self, post: &Post) {
        post.work(|deliver| self.deliver(post, deliver));
    }

    /// Delivers; the ids of the messages, with spaces between them.
    fn deliver(&self, post: &Post, deliver: &Deliver) -> Result<String, End> {
        let rejected = |why: &str| End::not(Sent::Rejected, why);
        let chat = Chat::read(&deliver.platform_id).ok_or_else(|| rejected("this is no chat of WhatsApp"))?;
        if !self.session.begins(BEGIN) {
            return Err(End::not(Sent::Retry, "WhatsApp is not connected"));
        }
        let targets = deliver.message_id.as_deref().unwrap_or_default().split(' ');
        let targets: Vec<Id> = targets.filter_map(Id::read).collect();
        let sending = Sending { outbox: self, post, deliver, chat };
        match (deliver.act, targets.as_slice()) {
            (DeliverAct::Say | DeliverAct::Ask, _) => sending.say(),
            (DeliverAct::Edit, targets) if targets.iter().any(|target| target.author.is_some()) => {
                Err(rejected("only the bot's own messages can be changed"))
            }
            (DeliverAct::Edit, [_, ..]) => sending.edit(&targets),
            (DeliverAct::React, [first, ..]) => sending.react(first),
            (DeliverAct::Edit | DeliverAct::React, []) => Err(rejected("this is no message of WhatsApp")),
        }
    }

    /// Waits until the keys of chats are on the disk. The library writes what a person's message changed only moments later,
    /// and lets answers leave before: a bridge that died then could not read what they answer.
    fn keep_keys(&self) -> Result<(), End> {
        match self.session.wait(SEND, self.session.client.flush_pending_signal_state()) {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(End::not(Sent::Retry, format!("keys cannot be stored: {error}"))),
            None => Err(End::not(Sent::Retry, "keys were not stored in time")),
        }
    }

    /// Sends a message under an id, and waits until WhatsApp has it.
    fn send(&self, chat: &Chat, id: &str, message: wa::Message) -> Result<(), End> {
        match self.pace.next(PACE) {
            Ok(wait) => sleep(wait),
            Err(wait) => {
                let why = "the bridge sends slowly, because WhatsApp bans accounts that do not";
                return Err(End { after: Some(wait.as_secs() + 1), ..End::not(Sent::Retry, why) });
            }
        }
        self.keep_keys()?;
        let expected = self.acks.expect(id);
        let options = SendOptions::default().with_message_id(id);
        let sent = self.session.wait(SEND, self.session.client.send_message_with_options(chat.jid(), message, options));
        match sent {
            Some(Ok(_)) => {
                // What was in use before was not stored. If this fails, so does the next message.
                drop(self.keep_keys());
                judged(expected.wait(CONFIRM))
            }
            Some(Err(error)) => Err(unsent(&error)),
            None => Err(End::not(Sent::Uncertain, "it was not sent in time")),
        }
    }
}

impl Sending<'_> {
    fn say(&self) -> Result<String, End> {
        let (files, lines) = self.files();
        let mut whole = shown(self.deliver)?;
        for line in lines {
            whole.push_str(if whole.is_empty() { "" } else { "\n" });
            whole.push_str(&line);
        }
        let mut messages: Vec<wa::Message> = Vec::new();
        for (number, part) in parts(&whole)?.iter().enumerate() {
            let again = if self.deliver.repeated && number == 0 { AGAIN } else { "" };
            messages.push(text(&format!("{again}{}", self.formatted(part)), self.chat.is_group()));
        }
        messages.extend(files);
        if messages.is_empty() {
            return Err(End::not(Sent::Rejected, "there is nothing to send"));
        }
        self.post.begin(self.deliver)?;
        let mut sent = Vec::new();
        for (number, message) in messages.into_iter().enumerate() {
            sent.push(self.once(number + 1, message)?);
        }
        Ok(sent.join(" "))
    }

    /// Changes all messages of a text. What is left over is deleted, and what does not fit is sent besides.
    fn edit(&self, targets: &[Id]) -> Result<String, End> {
        let parts = parts(&shown(self.deliver)?)?;
        self.post.begin(self.deliver)?;
        let mut ids = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let new = text(&self.formatted(part), self.chat.is_group());
            let target = targets.get(number).map(|target| target.id.clone());
            let message = match &target {
                Some(target) => edited(self.key(target), new),
                None => new,
            };
            let sent = self.once(number + 1, message)?;
            // A message keeps its id when it is changed.
            ids.push(target.unwrap_or(sent));
        }
        for (number, target) in targets.iter().enumerate().skip(parts.len()) {
            self.once(number + 1, deleted(self.key(&target.id)))?;
        }
        Ok(ids.join(" "))
    }

    fn react(&self, target: &Id) -> Result<String, End> {
        let emoji = self.deliver.text.trim();
        if emoji.is_empty() || emoji.len() > EMOJI || emoji.is_ascii() {
            return Err(End::not(Sent::Rejected, "a reaction in WhatsApp is an emoji: send the sign itself, like 👍"));
        }
        let mut key = self.key(&target.id);
        key.from_me = Some(target.author.is_none());
        key.participant = target.author.clone().filter(|_| self.chat.is_group());
        let reaction = wa::message::ReactionMessage {
            key: MessageField::some(key),
            text: Some(emoji.to_owned()),
            sender_timestamp_ms: Some(milliseconds()),
            ..Default::default()
        };
        self.post.begin(self.deliver)?;
        self.once(1, wa::Message { reaction_message: MessageField::some(reaction), ..Default::default() })?;
        Ok(target.to_string())
    }

    /// Names one of the bot's messages in this chat.
    fn key(&self, id: &str) -> wa::MessageKey {
        wa::MessageKey {
            remote_jid: Some(self.chat.jid().to_string()),
            from_me: Some(true),
            id: Some(id.to_owned()),
            participant: None,
        }
    }

    /// Sends a part of the delivery, unless that was done; its id.
    fn once(&self, number: usize, message: wa::Message) -> Result<String, End> {
        // The whole delivery is remembered under its own id.
        let key = format!("{}.{number}", self.deliver.id);
        if let Some(id) = self.post.known(&key) {
            return Ok(id);
        }
        let id = id(&self.chat, &key);
        self.outbox.send(&self.chat, &id, message)?;
        self.post.remember(&key, &id).map_err(|error| End::not(Sent::Uncertain, error))?;
        Ok(id)
    }

    /// What Hearth says may quote strangers, and is plain.
    fn formatted(&self, part: &str) -> String {
        let is_formatted = self.deliver.speaker.is_some() && self.deliver.act != DeliverAct::Ask;
        if is_formatted { formatted(part) } else { part.to_owned() }
    }

    /// The messages of the files, and lines for those that cannot be sent. Files are uploaded before anything is sent.
    fn files(&self) -> (Vec<wa::Message>, Vec<String>) {
        let (mut messages, mut lines) = (Vec::new(), Vec::new());
        for file in &self.deliver.files {
            let path = file.path.as_deref().and_then(|path| self.post.path(path)).filter(|_| file.error.is_none());
            let gone = || file.error.clone().unwrap_or_else(|| "it is gone".to_owned());
            match path.ok_or_else(gone).and_then(|path| upload(&self.outbox.session, &path, &name(&file.name))) {
                Ok(message) => messages.push(message),
                Err(why) => lines.push(format!("(file {}: {why})", file.name)),
            }
        }
        (messages, lines)
    }
}

/// The id of a message: that of a repeat is the same. WhatsApp Web's ids look like it.
fn id(chat: &Chat, key: &str) -> String {
    let digest = Sha256::digest(format!("{chat} {key}"));
    digest.iter().take(9).fold("3EB0".to_owned(), |id, byte| format!("{id}{byte:02X}"))
}

/// A text, without a preview of its links: the sender makes those.
fn text(text: &str, is_group: bool) -> wa::Message {
    let mentions = if is_group { mentions(text) } else { Vec::new() };
    if mentions.is_empty() {
        return wa::Message { conversation: Some(text.to_owned()), ..Default::default() };
    }
    let context = wa::ContextInfo { mentioned_jid: mentions, ..Default::default() };
    let extended = wa::message::ExtendedTextMessage {
        text: Some(text.to_owned()),
        context_info: MessageField::some(context),
        ..Default::default()
    };
    wa::Message { extended_text_message: MessageField::some(extended), ..Default::default() }
}

/// The people whose numbers a text has behind an `@`.
fn mentions(text: &str) -> Vec<String> {
    let of = |piece: &str| {
        let end = piece.find(|char: char| !char.is_ascii_digit()).unwrap_or(piece.len());
        let (digits, rest) = piece.split_at_checked(end)?;
        let shown = if rest.starts_with("@lid") { format!("{digits}@lid") } else { digits.to_owned() };
        (digits.len() >= 7).then(|| Chat::read(&shown))?.map(|person| person.jid().to_string())
    };
    text.match_indices('@').filter_map(|(at, _)| of(text.get(at + 1..)?)).take(MENTIONS).collect()
}

fn edited(key: wa::MessageKey, new: wa::Message) -> wa::Message {
    let change = wa::message::ProtocolMessage {
        key: MessageField::some(key),
        r#type: Some(wa::message::protocol_message::Type::MESSAGE_EDIT),
        edited_message: MessageField::some(new),
        timestamp_ms: Some(milliseconds()),
        ..Default::default()
    };
    let inner = wa::Message { protocol_message: MessageField::some(change), ..Default::default() };
    let outer = wa::message::FutureProofMessage { message: MessageField::some(inner) };
    wa::Message { edited_message: MessageField::some(outer), ..Default::default() }
}

fn deleted(key: wa::MessageKey) -> wa::Message {
    let change = wa::message::ProtocolMessage {
        key: MessageField::some(key),
        r#type: Some(wa::message::protocol_message::Type::REVOKE),
        ..Default::default()
    };
    wa::Message { protocol_message: MessageField::some(change), ..Default::default() }
}

fn milliseconds() -> i64 {
    hearth_bridge::program::state::seconds().saturating_mul(1_000)
}

fn name(text: &str) -> String {
    let name: String = text.chars().filter(|char| !char.is_control() && *char != '/').collect();
    let name = name.get(..name.floor_char_boundary(NAME_BYTES)).unwrap_or_default().trim_start_matches('.');
    if name.is_empty() { "file".to_owned() } else { name.to_owned() }
}

/// The texts of a delivery's messages.
fn parts(whole: &str) -> Result<Vec<String>, End> {
    let most = PART.parts;
    PART.parts(whole)
        .ok_or_else(|| End::not(Sent::Rejected, format!("the text is too long for {most} messages of WhatsApp")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_has_the_id_of_its_first_attempt() {
        let chat = Chat::read("15550000001").unwrap();
        assert_eq!(id(&chat, "5f0c91ab-mo17.1"), id(&chat, "5f0c91ab-mo17.1"));
        assert_ne!(id(&chat, "5f0c91ab-mo17.1"), id(&chat, "5f0c91ab-mo17.2"));
        assert!(crate::chat::is_id(&id(&chat, "x")) && id(&chat, "x").len() == 22);
    }

    #[test]
    fn numbers_behind_a_sign_are_mentions() {
        let found = mentions("@15550000001, ask @100000012345678@lid or me@example.test @123 @15550000001x");
        assert_eq!(found, ["15550000001@s.whatsapp.net", "100000012345678@lid", "15550000001@s.whatsapp.net"]);
    }
}
