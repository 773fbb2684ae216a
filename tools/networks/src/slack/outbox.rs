//! The way out: sends one message after the other. Each carries Hearth's id, by which it is found in Slack's history before
//! anything is sent again.

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
use super::emoji;
use super::event::{Bot, Ts, is_chat, text};
use super::file::{self, Shown};
use super::history::Spot;
use super::mrkdwn::{escape, is_person, mrkdwn};

/// Characters of a message that Slack recommends as the most.
const PART: usize = 4_000;
/// Lengths in which a text is split: what is escaped becomes longer.
const LENGTHS: [usize; 4] = [3_900, 2_000, 1_200, 700];
/// Most messages of a text.
const PARTS_MAX: usize = 60;
/// Longest pause that is waited for here; longer ones are left to the daemon.
const PAUSE: Duration = Duration::from_secs(3);
/// How long Slack may take to show what it got without an answer.
const SETTLE: Duration = Duration::from_secs(1);
/// A refused token is tried again after so many seconds.
const REFUSED: u64 = 60;
/// What a message begins with that may be there twice.
const AGAIN: &str = "(sent again, the first attempt may have arrived)\n";
/// The kind of the mark that messages carry.
const EVENT_TYPE: &str = "hearth_message";

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> Self {
        let end = Self::not(Sent::Retry, &trouble);
        match trouble {
            Trouble::Unreachable(_) => end,
            Trouble::Paused(pause) => Self { after: Some(pause.as_secs() + 1), ..end },
            Trouble::Lost(_) => Self { result: Sent::Uncertain, ..end },
            Trouble::Refused(_) if trouble.is_token() => Self { after: Some(REFUSED), ..end },
            Trouble::Refused(_) => Self { result: Sent::Rejected, ..end },
        }
    }
}

/// Sends to the chats of one thread.
pub(super) struct Outbox {
    pub(super) api: Api,
    pub(super) bot: Bot,
    pub(super) writer: FrameWriter,
}

/// Whether a message is there.
enum Looked {
    There(String),
    Absent,
    Unknown,
}

impl Outbox {
    /// Sends until the main loop ends.
    pub(super) fn work(&self, post: &Post) {
        post.work(|deliver| self.deliver(post, deliver));
    }

    /// Delivers; the ids of the messages, with spaces between them.
    fn deliver(&self, post: &Post, deliver: &Deliver) -> Result<String, End> {
        let chat = match deliver.platform_id.as_str() {
            chat if is_chat(chat) => chat.to_owned(),
            person if is_person(person) => open(&self.api, person).map_err(unsent)?,
            _ => return Err(End::not(Sent::Rejected, "this is no chat of Slack")),
        };
        post.begin(deliver)?;
        let sending = Sending { outbox: self, post, deliver, chat };
        let targets = deliver.message_id.as_deref().unwrap_or_default().split(' ');
        let targets: Vec<&str> = targets.filter(|target| Ts::read(target).is_some()).collect();
        match (deliver.act, targets.first()) {
            (DeliverAct::Say, _) => sending.say(),
            (DeliverAct::Ask, _) => sending.ask(),
            (DeliverAct::Edit, Some(_)) => sending.edit(&targets),
            (DeliverAct::React, Some(first)) => sending.react(first),
            (DeliverAct::Edit | DeliverAct::React, None) => {
                Err(End::not(Sent::Rejected, "this is no message of Slack"))
            }
        }
    }

    /// Asks, and once more after a short pause if Slack wants one.
    fn patiently(&self, method: &str, arguments: &Value) -> Result<Value, Trouble> {
        let until = now() + PAUSE;
        loop {
            match self.api.post(method, arguments) {
                Err(Trouble::Paused(pause)) if now() + pause <= until => sleep(pause),
                Err(trouble) if trouble.is_token() => {
                    // If the daemon is gone, the main loop notices.
                    drop(self.writer.send(&failed("Slack does not accept the bot token any more".to_owned(), None)));
                    return Err(trouble);
                }
                other => return other,
            }
        }
    }
}

/// Of a message nothing was sent.
fn unsent(trouble: Trouble) -> End {
    match trouble {
        Trouble::Lost(_) => End::not(Sent::Retry, trouble),
        other => other.into(),
    }
}

/// Opens the direct chat with a person; its id.
pub(super) fn open(api: &Api, person: &str) -> Result<String, Trouble> {
    let answer = api.post("conversations.open", &json!({ "users": person }))?;
    let chat = text(&answer, "/channel/id").filter(|chat| is_chat(chat)).map(str::to_owned);
    chat.ok_or_else(|| Trouble::Lost("its answer has no chat".to_owned()))
}

struct Sending<'a> {
    outbox: &'a Outbox,
    post: &'a Post,
    deliver: &'a Deliver,
    chat: String,
}

impl Sending<'_> {
    fn say(&self) -> Result<String, End> {
        let (files, lines) = self.upload()?;
        let mut whole = shown(self.deliver)?;
        for line in lines {
            whole.push_str(if whole.is_empty() { "" } else { "\n" });
            whole.push_str(&line);
        }
        let mut sent = Vec::new();
        for (number, part) in self.parts(&whole)?.iter().enumerate() {
            sent.push(self.send(number + 1, &self.message(part))?);
        }
        for (number, file) in files.iter().enumerate() {
            let at = Shown { chat: &self.chat, thread: self.thread() };
            file::share(&self.outbox.api, &file.id, &file.name, &at, file.is_old)?;
            if sent.is_empty() && number + 1 == files.len() {
                // Only texts can be changed later.
                sent.push(file.id.clone());
            }
        }
        if sent.is_empty() { Err(End::not(Sent::Rejected, "there is nothing to send")) } else { Ok(sent.join(" ")) }
    }

    fn ask(&self) -> Result<String, End> {
        let card = self.deliver.card.as_ref().ok_or_else(|| End::not(Sent::Rejected, "the card is missing"))?;
        let blocks = card::blocks(card).map_err(|why| End::not(Sent::Rejected, why))?;
        let mut message = self.message(&card::fallback(card));
        message.insert("blocks".to_owned(), blocks);
        self.send(1, &message)
    }

    /// Changes all messages of a text. What is left over is removed, and what does not fit is sent besides.
    fn edit(&self, targets: &[&str]) -> Result<String, End> {
        let parts = self.parts(&shown(self.deliver)?)?;
        let mut ids = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let mut message = self.message(part);
            let Some(target) = targets.get(number) else {
                ids.push(self.send(number + 1, &message)?);
                continue;
            };
            message.remove("thread_ts");
            // Without them, the buttons would stay.
            message.insert("blocks".to_owned(), json!([]));
            message.insert("ts".to_owned(), json!(target));
            self.outbox.patiently("chat.update", &Value::Object(message))?;
            ids.push((*target).to_owned());
        }
        for target in targets.iter().skip(parts.len()) {
            match self.outbox.patiently("chat.delete", &json!({ "channel": self.chat, "ts": target })) {
                Err(trouble) if !trouble.is("message_not_found") => return Err(trouble.into()),
                _ => {}
            }
        }
        Ok(ids.join(" "))
    }

    fn react(&self, target: &str) -> Result<String, End> {
        let Some(name) = emoji::name(&self.deliver.text) else {
            let why = "Slack's name of this emoji is not known; write it like `:tada:`";
            return Err(End::not(Sent::Rejected, why));
        };
        match self
            .outbox
            .patiently("reactions.add", &json!({ "channel": self.chat, "timestamp": target, "name": name }))
        {
            Err(trouble) if !trouble.is("already_reacted") => Err(trouble.into()),
            _ => Ok(target.to_owned()),
        }
    }

    fn thread(&self) -> Option<&str> {
        self.deliver.thread_id.as_deref().filter(|thread| Ts::read(thread).is_some())
    }

    /// A message with a text that is escaped already.
    fn message(&self, text: &str) -> Map<String, Value> {
        let previews = self.deliver.link_previews;
        let mut message = Map::from_iter([
            ("channel".to_owned(), json!(self.chat)),
            ("text".to_owned(), json!(text)),
            ("mrkdwn".to_owned(), json!(self.is_formatted())),
            // By default Slack fetches what each link leads to.
            ("unfurl_links".to_owned(), json!(previews)),
            ("unfurl_media".to_owned(), json!(previews)),
        ]);
        message.extend(self.thread().map(|thread| ("thread_ts".to_owned(), json!(thread))));
        message
    }

    /// What Hearth says may quote strangers, and is plain.
    fn is_formatted(&self) -> bool {
        self.deliver.speaker.is_some() && self.deliver.act != DeliverAct::Ask
    }

    /// The texts of a delivery's messages, as Slack wants them.
    fn parts(&self, whole: &str) -> Result<Vec<String>, End> {
        let convert = |text: &String| if self.is_formatted() { mrkdwn(text) } else { escape(text) };
        let most = LENGTHS.into_iter().find_map(|most| {
            let parts = Measure { most, unit: Unit::Chars, parts: PARTS_MAX }.parts(whole)?;
            let parts: Vec<String> = parts.iter().map(convert).collect();
            parts.iter().all(|part| part.chars().count() <= PART).then_some(parts)
        });
        most.ok_or_else(|| End::not(Sent::Rejected, format!("the text is too long for {PARTS_MAX} messages of Slack")))
    }

    /// Sends a message, unless Slack has it; its id.
    fn send(&self, number: usize, message: &Map<String, Value>) -> Result<String, End> {
        let key = match number {
            1 => self.deliver.id.clone(),
            number => format!("{}.{number}", self.deliver.id),
        };
        // The whole delivery is remembered under its own id.
        let memory = format!("{}.{number}", self.deliver.id);
        if let Some(ts) = self.post.known(&memory) {
            return Ok(ts);
        }
        let is_again = self.deliver.attempt > 1 || self.deliver.repeated;
        let looked = if is_again { self.look(&key) } else { Looked::Absent };
        let mut message = message.clone();
        let ts = match looked {
            Looked::There(ts) => ts,
            Looked::Unknown if self.deliver.repeated && number == 1 => {
                if let Some(Value::String(text)) = message.get_mut("text") {
                    text.insert_str(0, AGAIN);
                }
                self.put(&key, message)?
            }
            Looked::Unknown | Looked::Absent => self.put(&key, message)?,
        };
        self.post.remember(&memory, &ts).map_err(|error| End::not(Sent::Uncertain, error))?;
        Ok(ts)
    }

    fn put(&self, key: &str, mut message: Map<String, Value>) -> Result<String, End> {
        message.insert("client_msg_id".to_owned(), json!(uuid(key)));
        let mark = json!({ "event_type": EVENT_TYPE, "event_payload": { "id": key } });
        message.insert("metadata".to_owned(), mark);
        let message = Value::Object(message);
        let answer = match self.outbox.patiently("chat.postMessage", &message) {
            Err(Trouble::Lost(why)) => {
                sleep(SETTLE);
                match self.look(key) {
                    Looked::There(ts) => return Ok(ts),
                    // The same id for Slack's clients; Slack knows it for a minute.
                    Looked::Absent => self.outbox.patiently("chat.postMessage", &message)?,
                    Looked::Unknown => return Err(Trouble::Lost(why).into()),
                }
            }
            other => other?,
        };
        let ts = text(&answer, "/ts").filter(|ts| Ts::read(ts).is_some()).map(str::to_owned);
        ts.ok_or_else(|| Trouble::Lost("its answer has no id of the message".to_owned()).into())
    }

    /// Looks for a message in Slack's history.
    fn look(&self, key: &str) -> Looked {
        let spot = Spot { chat: self.chat.clone(), thread: self.thread().and_then(Ts::read) };
        match spot.find(&self.outbox.api, &self.outbox.bot, key) {
            Ok(Some(ts)) => Looked::There(ts),
            Ok(None) => Looked::Absent,
            Err(_) => Looked::Unknown,
        }
    }

    /// Gives Slack the files; those that it has, and lines for the others.
    fn upload(&self) -> Result<(Vec<Uploaded>, Vec<String>), End> {
        let (mut files, mut lines) = (Vec::new(), Vec::new());
        for (number, file) in self.deliver.files.iter().enumerate() {
            let memory = format!("{}.f{number}", self.deliver.id);
            if let Some(id) = self.post.known(&memory) {
                files.push(Uploaded { id, name: file.name.clone(), is_old: true });
                continue;
            }
            match self.upload_one(file) {
                Ok(id) => {
                    // Known before it is shown, so that it is not shown twice.
                    self.post.remember(&memory, &id).map_err(|error| End::not(Sent::Retry, error))?;
                    files.push(Uploaded { id, name: file.name.clone(), is_old: false });
                }
                Err(Trouble::Refused(why)) => lines.push(format!("(file {}: {why})", file.name)),
                Err(trouble) => return Err(unsent(trouble)),
            }
        }
        Ok((files, lines))
    }

    fn upload_one(&self, file: &SentFile) -> Result<String, Trouble> {
        let path = file.path.as_deref().and_then(|path| self.post.path(path)).filter(|_| file.error.is_none());
        let gone = || Trouble::Refused(file.error.clone().unwrap_or_else(|| "it is gone".to_owned()));
        file::upload(&self.outbox.api, &path.ok_or_else(gone)?, &file.name)
    }
}

/// A file that Slack has.
struct Uploaded {
    id: String,
    name: String,
    /// An earlier attempt may have shown it.
    is_old: bool,
}

/// An id in the form of a UUID, made of a key.
fn uuid(key: &str) -> String {
    let sum = key.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |sum, byte| {
        (sum ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    let hex = format!("{sum:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_uuids() {
        let first = uuid("5f0c91ab-mo17");
        assert_eq!((first.len(), first.matches('-').count()), (36, 4));
        assert_eq!(first, uuid("5f0c91ab-mo17"));
        assert!(first != uuid("5f0c91ab-mo17.2") && first != uuid("5f0c91ab-mo18"));
    }

    #[test]
    fn troubles_end_attempts() {
        let of = |trouble: Trouble| {
            let end = End::from(trouble);
            (end.result, end.after)
        };
        assert_eq!(of(Trouble::Unreachable(String::new())), (Sent::Retry, None));
        assert_eq!(of(Trouble::Lost(String::new())), (Sent::Uncertain, None));
        assert_eq!(of(Trouble::Paused(Duration::from_secs(7))), (Sent::Retry, Some(8)));
        assert_eq!(of(Trouble::Refused("invalid_auth".to_owned())), (Sent::Retry, Some(REFUSED)));
        assert_eq!(of(Trouble::Refused("channel_not_found".to_owned())), (Sent::Rejected, None));
    }
}
