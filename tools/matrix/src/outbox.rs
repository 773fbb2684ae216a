//! The way out: sends one message after the other. Each has a transaction id that is made of Hearth's id, so that the server
//! recognises a repeat.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::now;
use hearth_bridge::program::parts::{Measure, Unit};
use hearth_bridge::program::post::{End, Post, shown};
use hearth_bridge::program::settings::part;
use hearth_bridge::{Deliver, DeliverAct, Sent, SentFile};
use serde_json::{Value, json};

use crate::api::{Api, Trouble};
use crate::crypto::{Crypto, seal_file};
use crate::directs::Directs;
use crate::event::{is_event_id, text};
use crate::html::{self, People, html};
use crate::media;
use crate::rooms::Rooms;
use crate::settings::{Kind, is_user};

/// Longest pause that is waited for here; longer ones are left to the daemon.
const PAUSE: Duration = Duration::from_secs(12);
/// Bytes of the text and its HTML, which have to fit into an event, also when they are encrypted, which makes them longer
/// by a third.
const CONTENT_BYTES: usize = 40_000;
/// A refused token is tried again after so many seconds.
const REFUSED: u64 = 60;
/// What waits for the owner is tried again after so many seconds.
const HELD: u64 = 60;

/// Before a repeat that the server does not recognise: people may have seen the first one.
const AGAIN: &str = "(sent again, the first attempt may have arrived)\n";

/// Messages of a text. An event has at most 65,536 bytes, and the text is in it twice, once as HTML.
const MEASURE: Measure = Measure { most: 12_000, unit: Unit::Bytes, parts: 20 };

pub(crate) struct Outbox {
    pub(crate) api: Api,
    pub(crate) kind: Kind,
    pub(crate) rooms: Rooms,
    pub(crate) directs: Directs,
    pub(crate) crypto: Option<Crypto>,
    /// Rooms that have a key of this start.
    pub(crate) renewed: BTreeSet<String>,
    /// Until when the server wants nothing.
    pub(crate) paused: Duration,
}

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> Self {
        let end = Self::not(Sent::Retry, &trouble);
        match trouble {
            Trouble::Unreachable(_) => end,
            Trouble::Paused(pause) => Self { after: Some(pause.as_secs() + 1), ..end },
            // The same id again is the same message.
            Trouble::Held(_) => Self { after: Some(HELD), ..end },
            Trouble::Lost(_) => Self { result: Sent::Uncertain, ..end },
            Trouble::Refused { status: 401, .. } => Self { after: Some(REFUSED), ..end },
            Trouble::Refused { .. } => Self { result: Sent::Rejected, ..end },
        }
    }
}

/// Something to send to a room.
struct Message {
    room: String,
    content: Value,
    /// The transaction id.
    key: String,
}

impl Outbox {
    /// Sends until the main loop ends.
    pub(crate) fn work(mut self, post: &Post) {
        post.work(|deliver| self.deliver(deliver, post));
    }

    /// Delivers; the ids of the messages, with spaces between them.
    fn deliver(&mut self, deliver: &Deliver, post: &Post) -> Result<String, End> {
        let rejected = |why: &str| Err(End::not(Sent::Rejected, why));
        let left = self.paused.saturating_sub(now());
        if !left.is_zero() {
            return Err(Trouble::Paused(left).into());
        }
        let unsent = |trouble| match trouble {
            // Of this message nothing was sent.
            Trouble::Lost(_) => End::not(Sent::Retry, trouble),
            other => other.into(),
        };
        let chat = &deliver.platform_id;
        let is_room = chat.starts_with('!') && chat.len() <= 255 && !chat.chars().any(char::is_control);
        let room = match chat {
            user if is_user(user) => self.directs.room(user).map_err(unsent)?,
            room if is_room => room.clone(),
            _ => return rejected("this chat is no room or person of Matrix"),
        };
        if self.rooms.is_encrypted(&room).map_err(unsent)? {
            // Plain text would be readable for the server, which the people there do not expect.
            let Some(crypto) = self.crypto.clone() else {
                return rejected("this room is encrypted, and the keys of the bot's device are not here");
            };
            if !self.renewed.contains(&room) {
                crypto.renew(&room).map_err(unsent)?;
                self.renewed.insert(room.clone());
            }
            let readers = self.rooms.readers(&room).map_err(unsent)?;
            self.patiently(|_| crypto.share(&room, &readers)).map_err(unsent)?;
        }
        let deliver = &Deliver { platform_id: room, ..deliver.clone() };
        post.begin(deliver)?;
        let target = deliver.message_id.as_deref().unwrap_or_default();
        let targets: Vec<&str> = target.split(' ').filter(|id| is_event_id(id)).collect();
        match (deliver.act, targets.first()) {
            (DeliverAct::Say | DeliverAct::Ask, _) => self.say(deliver, post),
            (DeliverAct::Edit, Some(_)) => self.edit(deliver, &targets),
            (DeliverAct::React, Some(first)) => self.react(deliver, first),
            (DeliverAct::Edit | DeliverAct::React, None) => rejected("this is no message of Matrix"),
        }
    }

    fn say(&mut self, deliver: &Deliver, post: &Post) -> Result<String, End> {
        let (mut lines, mut files) = (Vec::new(), Vec::new());
        for file in &deliver.files {
            match self.upload(file, &deliver.platform_id, post)? {
                Ok(content) => files.push(content),
                Err(why) => lines.push(format!("(file {}: {why})", file.name)),
            }
        }
        let mut whole = if deliver.repeated { AGAIN.to_owned() } else { String::new() };
        whole.push_str(&shown(deliver)?);
        for line in lines {
            whole.push_str(if whole.is_empty() { "" } else { "\n" });
            whole.push_str(&line);
        }
        let texts = split(deliver, whole)?;
        let contents = texts.iter().map(|text| self.content(deliver, text)).collect::<Result<Vec<_>, _>>()?;
        let mut sent = Vec::new();
        for (number, mut content) in contents.into_iter().chain(files).enumerate() {
            relate(&mut content, deliver.thread_id.as_deref());
            let key = if number == 0 { deliver.id.clone() } else { format!("{}.{}", deliver.id, number + 1) };
            let room = deliver.platform_id.clone();
            sent.push(self.send(&Message { room, content, key })?);
        }
        // Only texts can be edited.
        sent.truncate(texts.len().max(1));
        match sent.is_empty() {
            true => Err(End::not(Sent::Rejected, "there is nothing to send")),
            false => Ok(sent.join(" ")),
        }
    }

    /// Changes all messages of a text. What is left over is removed, and what does not fit is sent besides.
    fn edit(&mut self, deliver: &Deliver, targets: &[&str]) -> Result<String, End> {
        let texts = split(deliver, shown(deliver)?)?;
        let mut ids = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let content = self.content(deliver, text)?;
            let (room, key) = (deliver.platform_id.clone(), format!("{}.{}", deliver.id, number + 1));
            let Some(target) = targets.get(number) else {
                let mut content = content;
                relate(&mut content, deliver.thread_id.as_deref());
                ids.push(self.send(&Message { room, content, key })?);
                continue;
            };
            let mut changed = content.clone();
            if let Some(fields) = changed.as_object_mut() {
                for name in ["body", "formatted_body"] {
                    if let Some(Value::String(text)) = fields.get_mut(name) {
                        text.insert_str(0, "* ");
                    }
                }
                fields.insert("m.new_content".to_owned(), json!({ "msgtype": self.kind.msgtype(), "body": text }));
                if content.to_string().len() * 2 < CONTENT_BYTES {
                    fields.insert("m.new_content".to_owned(), content);
                } else {
                    fields.retain(|name, _| name != "formatted_body" && name != "format");
                }
                fields.insert("m.relates_to".to_owned(), json!({ "rel_type": "m.replace", "event_id": target }));
            }
            self.send(&Message { room, content: changed, key })?;
            ids.push((*target).to_owned());
        }
        for target in targets.iter().skip(texts.len()) {
            let (room, key) = (part(&deliver.platform_id), part(&format!("{}-{target}", deliver.id)));
            let path = format!("client/v3/rooms/{room}/redact/{}/{key}", part(target));
            self.put(&path, &json!({}))?;
        }
        Ok(ids.join(" "))
    }

    fn react(&mut self, deliver: &Deliver, target: &str) -> Result<String, End> {
        let key = deliver.text.trim();
        if key.is_empty() || key.len() > 100 {
            return Err(End::not(Sent::Rejected, "a reaction is one emoji"));
        }
        let content = json!({ "m.relates_to": { "rel_type": "m.annotation", "event_id": target, "key": key } });
        let (room, id) = (deliver.platform_id.clone(), deliver.id.clone());
        let message = Message { room, content, key: id };
        // Reactions are readable for the server in encrypted rooms, too: other clients do not decrypt them.
        let path = message.path("m.reaction");
        match self.put(&path, &message.content) {
            // It is there.
            Err(Trouble::Refused { code, .. }) if code == "M_DUPLICATE_ANNOTATION" => Ok(target.to_owned()),
            other => Ok(event_id(&other?)?),
        }
    }

    /// The content of a message with a text.
    fn content(&self, deliver: &Deliver, shown: &str) -> Result<Value, Trouble> {
        let people = self.people(deliver, shown)?;
        let mut content = json!({ "msgtype": self.kind.msgtype(), "body": shown });
        let Some(fields) = content.as_object_mut() else { return Ok(content) };
        // No other person is notified, whatever the text says.
        let mentioned: Vec<&String> = people.keys().collect();
        let mentions = if mentioned.is_empty() { json!({}) } else { json!({ "user_ids": mentioned }) };
        fields.insert("m.mentions".to_owned(), mentions);
        if !deliver.link_previews {
            fields.insert("com.beeper.linkpreviews".to_owned(), json!([]));
        }
        // What Hearth says may quote strangers, and is plain.
        let is_formatted = deliver.speaker.is_some() && deliver.act != DeliverAct::Ask;
        let html = html(shown, &people).filter(|html| is_formatted && html.len() + shown.len() < CONTENT_BYTES / 2);
        if let Some(html) = html {
            fields.insert("format".to_owned(), json!("org.matrix.custom.html"));
            fields.insert("formatted_body".to_owned(), json!(html));
        }
        Ok(content)
    }

    /// The people in the room whose ids are in the text of an agent.
    fn people(&self, deliver: &Deliver, shown: &str) -> Result<People, Trouble> {
        let ids = html::ids(shown);
        if ids.is_empty() || deliver.speaker.is_none() || deliver.act == DeliverAct::Ask {
            return Ok(BTreeMap::new());
        }
        let members = self.rooms.members(&deliver.platform_id)?;
        let found = ids.into_iter().filter_map(|id| Some((id.to_owned(), members.get(id)?.clone())));
        Ok(found.collect())
    }

    /// Sends a file to the server: the content of its message, or why it cannot be sent.
    fn upload(&mut self, file: &SentFile, room: &str, post: &Post) -> Result<Result<Value, String>, Trouble> {
        let path = file.path.as_deref().and_then(|path| post.path(path));
        let Some(path) = path.filter(|_| file.error.is_none()) else {
            return Ok(Err(file.error.clone().unwrap_or_else(|| "it is gone".to_owned())));
        };
        // A server answers a file that is too large by cutting the connection.
        let most = self.patiently(media::upload_max)?.unwrap_or(u64::MAX);
        let size = std::fs::metadata(&path).map_or(file.size, |about| about.len());
        if size > most {
            return Ok(Err(format!("it has {size} bytes, and the server takes {most}")));
        }
        let key = match self.crypto.is_some() && self.rooms.is_encrypted(room)? {
            false => None,
            true => {
                let sealed = path.with_extension("sealed");
                match seal_file(&path, &sealed) {
                    Ok(key) => Some((sealed, key)),
                    Err(error) => return Ok(Err(format!("it cannot be encrypted: {error}"))),
                }
            }
        };
        let uploaded = match &key {
            Some((sealed, _)) => self.patiently(|api| media::upload(api, sealed, None)),
            None => self.patiently(|api| media::upload(api, &path, Some(&file.name))),
        };
        if let Some((sealed, _)) = &key {
            drop(std::fs::remove_file(sealed));
        }
        match uploaded {
            Ok(address) => Ok(Ok(described(file, size, &address, key.map(|(_, key)| key)))),
            Err(Trouble::Refused { status, why, .. }) if status != 401 => Ok(Err(why)),
            Err(trouble) => Err(trouble),
        }
    }

    /// Sends a message, encrypted where the room is. The server recognises a repeat by the transaction id, although its
    /// ciphertext is another one.
    fn send(&mut self, message: &Message) -> Result<String, Trouble> {
        let answer = match self.crypto.clone() {
            Some(crypto) if self.rooms.is_encrypted(&message.room)? => {
                let readers = self.rooms.readers(&message.room)?;
                let content =
                    self.patiently(|_| crypto.seal(&message.room, &readers, "m.room.message", &message.content))?;
                self.put(&message.path("m.room.encrypted"), &content)?
            }
            _ => self.put(&message.path("m.room.message"), &message.content)?,
        };
        event_id(&answer)
    }

    fn put(&mut self, path: &str, body: &Value) -> Result<Value, Trouble> {
        self.patiently(|api| api.put(path, body))
    }

    /// Asks, and once more after a short pause if the server wants one.
    fn patiently<T>(&mut self, ask: impl Fn(&Api) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let until = now() + PAUSE;
        loop {
            match ask(&self.api) {
                Err(Trouble::Paused(pause)) if now() + pause <= until => sleep(pause),
                Err(Trouble::Paused(pause)) => {
                    // It is for all rooms.
                    self.paused = now() + pause;
                    return Err(Trouble::Paused(pause));
                }
                other => return other,
            }
        }
    }
}

/// The content of a message with a file.
fn described(file: &SentFile, size: u64, address: &str, key: Option<Value>) -> Value {
    let mime = media::mime(&file.name);
    let mut content = json!({
        "msgtype": media::msgtype(mime),
        "body": file.name,
        "filename": file.name,
        "info": { "mimetype": mime, "size": size },
        "m.mentions": {},
    });
    let (name, place) = match key {
        Some(mut key) => {
            if let Some(fields) = key.as_object_mut() {
                fields.insert("url".to_owned(), json!(address));
            }
            ("file", key)
        }
        None => ("url", json!(address)),
    };
    if let Some(fields) = content.as_object_mut() {
        fields.insert(name.to_owned(), place);
    }
    content
}

impl Message {
    fn path(&self, event: &str) -> String {
        format!("client/v3/rooms/{}/send/{event}/{}", part(&self.room), part(&self.key))
    }
}

fn event_id(answer: &Value) -> Result<String, Trouble> {
    let id = text(answer, "/event_id").filter(|id| is_event_id(id));
    id.map(str::to_owned).ok_or_else(|| Trouble::Lost("its answer has no id of the message".to_owned()))
}

/// Puts a message into a thread.
fn relate(content: &mut Value, thread: Option<&str>) {
    if let (Some(fields), Some(root)) = (content.as_object_mut(), thread.filter(|root| is_event_id(root))) {
        let answered = json!({ "event_id": root });
        let relation =
            json!({ "rel_type": "m.thread", "event_id": root, "is_falling_back": true, "m.in_reply_to": answered });
        fields.insert("m.relates_to".to_owned(), relation);
    }
}

/// The texts of a delivery's messages. A card is never split.
fn split(deliver: &Deliver, text: String) -> Result<Vec<String>, End> {
    if deliver.act == DeliverAct::Ask {
        return match text.len() <= CONTENT_BYTES {
            true => Ok(vec![text]),
            false => Err(End::not(Sent::Rejected, "the card is too long for Matrix")),
        };
    }
    let most = MEASURE.parts * MEASURE.most;
    MEASURE.parts(&text).ok_or_else(|| End::not(Sent::Rejected, format!("the text is longer than {most} bytes")))
}
