//! The way out: sends one message after the other. WhatsApp recognises no repeats, but reports what it sent under the key that a
//! message carries, so a lost answer is looked for there before anything is sent again.

use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::parts::{Measure, Unit};
use hearth_bridge::program::post::{End, Post, shown};
use hearth_bridge::program::run::failed;
use hearth_bridge::program::{FrameWriter, now};
use hearth_bridge::{Deliver, DeliverAct, Sent, SentFile};
use serde_json::{Map, Value, json};

use super::api::{Api, Trouble};
use super::card;
use super::failure::paused;
use super::media::{Kind, Media};
use super::person::{Person, is_id};
use super::statuses::Statuses;
use super::text;
use hearth_bridge::markdown::whatsapp::formatted;

/// Length of a message: WhatsApp takes 4,096 characters.
pub(super) const PART: usize = 4_000;
/// Most messages of a text.
const PARTS_MAX: usize = 60;
/// How long WhatsApp may take to report a message that it accepted: a failure is often only told there.
const REPORT: Duration = Duration::from_secs(3);
/// And one whose answer was lost.
const PROOF: Duration = Duration::from_secs(5);
/// Longest pause that is waited for here; longer ones are left to the daemon.
const PAUSE: Duration = Duration::from_secs(3);
/// A refused token is tried again after so many seconds.
const REFUSED: u64 = 60;
/// Longest reaction in bytes: a single emoji can have several signs.
const EMOJI: usize = 40;
/// What a message begins with that may be there twice.
const AGAIN: &str = "(sent again, the first attempt may have arrived)\n";
/// Longest name of a file, in characters.
const NAME_MAX: usize = 200;

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unreachable(_) => Self::not(Sent::Retry, trouble),
            Trouble::Lost(_) => Self::not(Sent::Uncertain, trouble),
            Trouble::Paused(pause) => paused(pause),
            Trouble::Token(_) => Self { after: Some(REFUSED), ..Self::not(Sent::Retry, trouble) },
            Trouble::Refused(_) | Trouble::Unfit(_) => Self::not(Sent::Rejected, trouble),
        }
    }
}

/// Sends to the chats of one thread.
pub(super) struct Outbox {
    pub(super) api: Api,
    pub(super) statuses: Statuses,
    pub(super) writer: FrameWriter,
}

impl Outbox {
    /// Sends until the main loop ends.
    pub(super) fn work(&self, post: &Post) {
        post.work(|deliver| self.deliver(post, deliver));
    }

    /// Delivers; the ids of the messages, with spaces between them.
    fn deliver(&self, post: &Post, deliver: &Deliver) -> Result<String, End> {
        let rejected = |why: &str| End::not(Sent::Rejected, why);
        let person = Person::read(&deliver.platform_id).ok_or_else(|| rejected("this is no chat of WhatsApp"))?;
        let target = deliver.message_id.as_deref().unwrap_or_default().split(' ').find(|id| is_id(id));
        if deliver.act == DeliverAct::Edit {
            return Err(rejected("WhatsApp lets no program change its messages"));
        }
        post.begin(deliver)?;
        let mut sending = Sending { outbox: self, post, deliver, person, is_marked: false };
        match (deliver.act, target) {
            (DeliverAct::Ask, _) => sending.ask(),
            (DeliverAct::React, Some(target)) => sending.react(target),
            (DeliverAct::React, None) => Err(rejected("this is no message of WhatsApp")),
            (DeliverAct::Say | DeliverAct::Edit, _) => sending.say(),
        }
    }

    /// Does something with the API, and once more after a short pause if WhatsApp wants one.
    fn patiently(&self, ask: impl Fn(&Api) -> Result<String, Trouble>) -> Result<String, Trouble> {
        let until = now() + PAUSE;
        loop {
            match ask(&self.api) {
                Err(Trouble::Paused(pause)) if now() + pause <= until => sleep(pause),
                Err(trouble @ Trouble::Token(_)) => {
                    // If the daemon is gone, the main loop notices.
                    drop(self.writer.send(&failed(trouble.to_string(), None)));
                    return Err(trouble);
                }
                other => return other,
            }
        }
    }

    /// Sends a message under a key; its id.
    fn send(&self, key: &str, mut message: Map<String, Value>) -> Result<String, End> {
        message.insert("biz_opaque_callback_data".to_owned(), json!(key));
        let message = Value::Object(message);
        self.statuses.forget(key);
        let sent = self.patiently(|api| api.send(&message));
        let within = match &sent {
            Ok(_) => REPORT,
            Err(Trouble::Lost(_)) => PROOF,
            Err(_) => return sent.map_err(End::from),
        };
        match self.statuses.wait(key, within) {
            Some(status) => status.failure.map_or(Ok(status.id), |failure| Err(failure.end())),
            None => sent.map_err(End::from),
        }
    }
}

struct Sending<'a> {
    outbox: &'a Outbox,
    post: &'a Post,
    deliver: &'a Deliver,
    person: Person,
    /// What may be there twice says so already.
    is_marked: bool,
}

impl Sending<'_> {
    fn say(&mut self) -> Result<String, End> {
        let (files, lines) = self.upload()?;
        let mut whole = shown(self.deliver)?;
        for line in lines {
            whole.push_str(if whole.is_empty() { "" } else { "\n" });
            whole.push_str(&line);
        }
        let parts = Measure { most: PART, unit: Unit::Utf16, parts: PARTS_MAX }.parts(&whole);
        let too_long =
            || End::not(Sent::Rejected, format!("the text is too long for {PARTS_MAX} messages of WhatsApp"));
        let mut sent = Vec::new();
        for (number, part) in parts.ok_or_else(too_long)?.iter().enumerate() {
            // What Hearth says may quote strangers, and is not formatted.
            let part = if self.deliver.speaker.is_some() { formatted(part) } else { part.clone() };
            let previews = self.deliver.link_previews;
            sent.push(self.once(&format!("{}", number + 1), |mark| text(&format!("{mark}{part}"), previews))?);
        }
        for (number, file) in files.iter().enumerate() {
            sent.push(self.once(&format!("f{number}"), |mark| file.message(mark))?);
        }
        if sent.is_empty() { Err(End::not(Sent::Rejected, "there is nothing to send")) } else { Ok(sent.join(" ")) }
    }

    fn ask(&mut self) -> Result<String, End> {
        let card = self.deliver.card.as_ref().ok_or_else(|| End::not(Sent::Rejected, "the card is missing"))?;
        let mark = if self.deliver.repeated { AGAIN } else { "" };
        let messages = card::messages(card, mark).map_err(|why| End::not(Sent::Rejected, why))?;
        // The card has the mark already.
        self.is_marked = true;
        let mut sent = Vec::new();
        for (number, message) in messages.iter().enumerate() {
            sent.push(self.once(&format!("{}", number + 1), |_| message.clone())?);
        }
        Ok(sent.join(" "))
    }

    /// A reaction that is there twice is one.
    fn react(&self, target: &str) -> Result<String, End> {
        let emoji = self.deliver.text.trim();
        if emoji.is_empty() || emoji.len() > EMOJI || emoji.is_ascii() {
            return Err(End::not(Sent::Rejected, "a reaction in WhatsApp is an emoji: send the sign itself, like 👍"));
        }
        let mut message = self.person.message();
        message.insert("type".to_owned(), json!("reaction"));
        message.insert("reaction".to_owned(), json!({ "message_id": target, "emoji": emoji }));
        self.outbox.send(&self.deliver.id, message)?;
        Ok(target.to_owned())
    }

    /// Sends a part of the delivery, unless WhatsApp has it; its id. The first one that may be there twice is marked.
    fn once(&mut self, part: &str, content: impl Fn(&str) -> Map<String, Value>) -> Result<String, End> {
        // The whole delivery is remembered under its own id.
        let key = format!("{}.{part}", self.deliver.id);
        if let Some(id) = self.post.known(&key) {
            return Ok(id);
        }
        let id = match self.reported(&key) {
            Some(id) => id,
            None => {
                let is_again = self.deliver.repeated && !self.is_marked;
                self.is_marked |= is_again;
                let mut message = self.person.message();
                message.extend(content(if is_again { AGAIN } else { "" }));
                self.outbox.send(&key, message)?
            }
        };
        self.post.remember(&key, &id).map_err(|error| End::not(Sent::Uncertain, error))?;
        Ok(id)
    }

    /// The id of a message that an earlier attempt sent, as WhatsApp's reports say.
    fn reported(&self, key: &str) -> Option<String> {
        if !self.deliver.repeated {
            return None;
        }
        self.outbox.statuses.wait(key, REPORT).filter(|status| status.failure.is_none()).map(|status| status.id)
    }

    /// Gives WhatsApp the files; those that it has, and lines for the others.
    fn upload(&self) -> Result<(Vec<Uploaded>, Vec<String>), End> {
        let (mut files, mut lines) = (Vec::new(), Vec::new());
        for (number, file) in self.deliver.files.iter().enumerate() {
            let media = Media::of(&file.name, file.size);
            let memory = format!("{}.u{number}", self.deliver.id);
            let id = match self.post.known(&memory) {
                Some(id) => Ok(id),
                None => self.upload_one(file, media.mime),
            };
            match id {
                Ok(id) => {
                    self.post.remember(&memory, &id).map_err(|error| End::not(Sent::Retry, error))?;
                    files.push(Uploaded { id, name: file.name.clone(), kind: media.kind });
                }
                Err(trouble @ (Trouble::Refused(_) | Trouble::Unfit(_))) => {
                    lines.push(format!("(file {}: {trouble})", file.name));
                }
                // People see nothing of what was uploaded.
                Err(Trouble::Lost(why)) => return Err(End::not(Sent::Retry, why)),
                Err(trouble) => return Err(trouble.into()),
            }
        }
        Ok((files, lines))
    }

    fn upload_one(&self, file: &SentFile, mime: &str) -> Result<String, Trouble> {
        let path = file.path.as_deref().and_then(|path| self.post.path(path)).filter(|_| file.error.is_none());
        let gone = || Trouble::Unfit(file.error.clone().unwrap_or_else(|| "it is gone".to_owned()));
        let path = path.filter(|path| path.exists()).ok_or_else(gone)?;
        self.outbox.patiently(|api| api.upload(&path, mime))
    }
}

/// A file that WhatsApp has.
struct Uploaded {
    id: String,
    name: String,
    kind: Kind,
}

impl Uploaded {
    fn message(&self, mark: &str) -> Map<String, Value> {
        let mut shown = Map::from_iter([("id".to_owned(), json!(self.id))]);
        if self.kind == Kind::Document {
            let name: String = self.name.chars().filter(|char| !char.is_control()).take(NAME_MAX).collect();
            shown.insert("filename".to_owned(), json!(name));
        }
        if !mark.is_empty() && self.kind != Kind::Audio {
            shown.insert("caption".to_owned(), json!(mark.trim_end()));
        }
        let kind = self.kind.name();
        Map::from_iter([("type".to_owned(), json!(kind)), (kind.to_owned(), Value::Object(shown))])
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::Failure;
    use super::*;

    #[test]
    fn troubles_end_attempts() {
        let of = |trouble: Trouble| {
            let end = End::from(trouble);
            (end.result, end.after)
        };
        let failure = Failure { code: 131_047, why: String::new() };
        for (trouble, expected) in [
            (Trouble::Unreachable(String::new()), (Sent::Retry, None)),
            (Trouble::Lost(String::new()), (Sent::Uncertain, None)),
            (Trouble::Paused(Duration::from_secs(7)), (Sent::Retry, Some(8))),
            (Trouble::Token(String::new()), (Sent::Retry, Some(REFUSED))),
            (Trouble::Refused(failure), (Sent::Rejected, None)),
        ] {
            assert_eq!(of(trouble), expected);
        }
    }

    #[test]
    fn files_are_shown_as_what_they_are() {
        let of = |kind, mark| Value::Object(Uploaded { id: "1".into(), name: "a\n.x".into(), kind }.message(mark));
        assert_eq!(of(Kind::Document, ""), json!({ "type": "document", "document": { "id": "1", "filename": "a.x" } }));
        assert_eq!(of(Kind::Image, AGAIN)["image"]["caption"], AGAIN.trim_end());
        assert_eq!(of(Kind::Audio, AGAIN)["audio"], json!({ "id": "1" }));
    }
}
