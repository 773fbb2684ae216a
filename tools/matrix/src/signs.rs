//! What is shown besides messages: typing, and that a message was received. Also opens direct chats. On a thread of its own, so
//! that it delays no message.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use hearth_bridge::program::FrameWriter;
use hearth_bridge::{FromBridge, Opened};
use serde_json::{Value, json};

use crate::api::{Api, Trouble, part};
use crate::rooms::Rooms;
use crate::settings::is_user;

/// Signs that may wait; more are left out.
pub(crate) const WAITING: usize = 64;
/// How long typing is shown, in milliseconds.
const TYPING: u64 = 6_000;
/// Rooms that are searched for a direct chat.
const ROOMS: usize = 100;

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sign {
    /// An agent works there.
    Typing { room: String },
    /// A message was received.
    Seen { room: String, event: String, thread: Option<String> },
    /// Opens a direct chat, and tells the daemon.
    Open { user: String, seq: u64 },
}

/// The way to the thread.
#[derive(Clone)]
pub(crate) struct Signs(pub(crate) SyncSender<Sign>);

impl Signs {
    /// Shows something, unless too much waits; whether it is shown.
    pub(crate) fn show(&self, sign: Sign) -> bool {
        !matches!(self.0.try_send(sign), Err(TrySendError::Full(_)))
    }
}

pub(crate) struct Shower {
    pub(crate) api: Api,
    pub(crate) me: String,
    pub(crate) rooms: Rooms,
    pub(crate) writer: FrameWriter,
    pub(crate) signs: Receiver<Sign>,
}

impl Shower {
    /// Shows until the main loop ends.
    pub(crate) fn work(self) {
        while let Ok(sign) = self.signs.recv() {
            // A sign that is not shown is no loss.
            match sign {
                Sign::Typing { room } => {
                    let path = format!("client/v3/rooms/{}/typing/{}", part(&room), part(&self.me));
                    drop(self.api.put(&path, &json!({ "typing": true, "timeout": TYPING })));
                }
                Sign::Seen { room, event, thread } => {
                    let path = format!("client/v3/rooms/{}/receipt/m.read/{}", part(&room), part(&event));
                    let thread = thread.unwrap_or_else(|| "main".to_owned());
                    drop(self.api.post(&path, &json!({ "thread_id": thread })));
                }
                Sign::Open { user, seq } => {
                    let opened = match self.open(&user) {
                        Ok(room) => Opened { seq, platform_id: Some(room), why: None },
                        Err(why) => Opened { seq, platform_id: None, why: Some(why) },
                    };
                    if self.writer.send(&FromBridge::Opened { opened }).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// The direct chat with a person: one that is there, else a new one.
    fn open(&self, user: &str) -> Result<String, String> {
        if !is_user(user) {
            return Err("this is no id of a person on Matrix".to_owned());
        }
        let failed = |trouble: Trouble| trouble.to_string();
        let directs = format!("client/v3/user/{}/account_data/m.direct", part(&self.me));
        let mut direct = match self.api.get(&directs) {
            Ok(Value::Object(direct)) => direct,
            Ok(_) => serde_json::Map::new(),
            Err(trouble) if trouble.is_missing() => serde_json::Map::new(),
            Err(trouble) => return Err(failed(trouble)),
        };
        let known = direct.get(user).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut known = known.iter().filter_map(Value::as_str);
        if let Some(room) = known.find(|room| self.is_open(room, user)) {
            return Ok(room.to_owned());
        }
        let joined = self.api.get("client/v3/joined_rooms").map_err(failed)?;
        let joined = joined.get("joined_rooms").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut joined = joined.iter().filter_map(Value::as_str).take(ROOMS);
        let room = match joined.find(|room| self.is_of_two(room, user)) {
            Some(room) => room.to_owned(),
            None => {
                // In such a room the person cannot turn encryption on.
                let asked = json!({ "preset": "private_chat", "invite": [user], "is_direct": true });
                let made = self.api.post("client/v3/createRoom", &asked).map_err(failed)?;
                made.get("room_id").and_then(Value::as_str).ok_or("the server made no room")?.to_owned()
            }
        };
        let mut rooms = vec![json!(room)];
        rooms.extend(direct.get(user).and_then(Value::as_array).into_iter().flatten().cloned());
        direct.insert(user.to_owned(), Value::Array(rooms));
        // Without it, the room is found among those that the bot is in once the person has come.
        drop(self.api.put(&directs, &Value::Object(direct)));
        Ok(room)
    }

    /// Whether a room has only this person and the bot, and can be read.
    fn is_of_two(&self, room: &str, user: &str) -> bool {
        let members = self.rooms.members(room);
        let is_of_two = members.is_ok_and(|members| members.len() == 2 && members.contains_key(user));
        is_of_two && matches!(self.rooms.is_encrypted(room), Ok(false))
    }

    /// The same, or the person is invited.
    fn is_open(&self, room: &str, user: &str) -> bool {
        if self.is_of_two(room, user) {
            return true;
        }
        let path = format!("client/v3/rooms/{}/state/m.room.member/{}", part(room), part(user));
        let member = self.api.get(&path).unwrap_or_default();
        let is_invited = member.get("membership").and_then(Value::as_str) == Some("invite");
        let is_alone = self.rooms.members(room).is_ok_and(|members| members.len() == 1);
        is_invited && is_alone && matches!(self.rooms.is_encrypted(room), Ok(false))
    }
}
