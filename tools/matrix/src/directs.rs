//! Direct chats: a person's id is their chat, and this is the room in which the bot talks with them. Only rooms of two are
//! used, so that what is meant for one person is read only by that person.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearth_bridge::program::settings::part;
use serde_json::{Map, Value, json};

use crate::api::{Api, Trouble};
use crate::crypto::Crypto;
use crate::rooms::Rooms;

/// People whose room is remembered; of more, rooms are searched.
const REMEMBERED: usize = 5_000;
/// Rooms that are searched for a direct chat.
const SEARCHED: usize = 100;

/// The rooms by people, kept in a file.
#[derive(Clone)]
pub(crate) struct Directs {
    api: Api,
    me: String,
    rooms: Rooms,
    crypto: Option<Crypto>,
    path: PathBuf,
    known: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Directs {
    pub(crate) fn open(api: Api, me: &str, around: (Rooms, Option<Crypto>), directory: &Path) -> io::Result<Self> {
        let (rooms, crypto) = around;
        let path = directory.join("directs");
        let known = match std::fs::read(&path) {
            // One that is torn is made again of what people write.
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { api, me: me.to_owned(), rooms, crypto, path, known: Arc::new(Mutex::new(known)) })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A person wrote in a room of two.
    pub(crate) fn learn(&self, user: &str, room: &str) {
        let mut known = self.known();
        if known.get(user).is_some_and(|before| before == room) {
            return;
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(user.to_owned(), room.to_owned());
        let new = self.path.with_extension("new");
        // Without the file, rooms are searched after a restart.
        let written = serde_json::to_vec(&*known).map_err(io::Error::other).and_then(|text| std::fs::write(&new, text));
        drop(written.and_then(|()| std::fs::rename(&new, &self.path)));
    }

    /// The room that is known.
    pub(crate) fn get(&self, user: &str) -> Option<String> {
        self.known().get(user).cloned()
    }

    /// The room of two with a person: where they wrote last, one that is there, or a new one.
    pub(crate) fn room(&self, user: &str) -> Result<String, Trouble> {
        if let Some(room) = self.get(user) {
            if self.is_open(&room, user)? {
                return Ok(room);
            }
            if matches!(self.membership(&room, user)?.as_deref(), Some("leave" | "ban")) {
                let why = "they have left their room with the bot".to_owned();
                return Err(Trouble::Refused { status: 403, code: String::new(), why });
            }
        }
        let room = self.found(user)?;
        self.learn(user, &room);
        Ok(room)
    }

    fn found(&self, user: &str) -> Result<String, Trouble> {
        let directs = format!("client/v3/user/{}/account_data/m.direct", part(&self.me));
        let mut direct = match self.api.get(&directs) {
            Ok(Value::Object(direct)) => direct,
            Ok(_) => Map::new(),
            Err(trouble) if trouble.is_missing() => Map::new(),
            Err(trouble) => return Err(trouble),
        };
        let mut marked = direct.get(user).and_then(Value::as_array).cloned().unwrap_or_default();
        for room in marked.iter().filter_map(Value::as_str) {
            if self.is_open(room, user)? {
                return Ok(room.to_owned());
            }
        }
        let joined = self.api.get("client/v3/joined_rooms")?;
        let joined = joined.get("joined_rooms").and_then(Value::as_array).cloned().unwrap_or_default();
        for room in joined.iter().filter_map(Value::as_str).take(SEARCHED) {
            if self.is_of_two(room, user)? {
                return Ok(room.to_owned());
            }
        }
        let mut asked = json!({ "preset": "private_chat", "invite": [user], "is_direct": true });
        if let (Some(crypto), Some(fields)) = (&self.crypto, asked.as_object_mut())
            && crypto.has_devices(user)?
        {
            let content = json!({ "algorithm": "m.megolm.v1.aes-sha2" });
            let encryption = json!({ "type": "m.room.encryption", "state_key": "", "content": content });
            fields.insert("initial_state".to_owned(), json!([encryption]));
        }
        let made = self.api.post("client/v3/createRoom", &asked)?;
        let room = made.get("room_id").and_then(Value::as_str);
        let room = room.ok_or_else(|| Trouble::Lost("it does not say which room it made".to_owned()))?.to_owned();
        marked.insert(0, json!(room));
        direct.insert(user.to_owned(), Value::Array(marked));
        // It is a mark for other clients, and the room is remembered here.
        drop(self.api.put(&directs, &Value::Object(direct)));
        Ok(room)
    }

    /// Whether a room has only this person and the bot, and can be read.
    fn is_of_two(&self, room: &str, user: &str) -> Result<bool, Trouble> {
        let members = match self.rooms.members(room) {
            Err(trouble) if !trouble.is_passing() => return Ok(false),
            other => other?,
        };
        let is_of_two = members.len() == 2 && members.contains_key(user) && members.contains_key(&self.me);
        Ok(is_of_two && self.is_readable(room)?)
    }

    /// The same, or the person is invited.
    fn is_open(&self, room: &str, user: &str) -> Result<bool, Trouble> {
        if self.is_of_two(room, user)? {
            return Ok(true);
        }
        let is_alone = self.rooms.members(room).is_ok_and(|members| members.len() == 1);
        let is_invited = is_alone && self.membership(room, user)?.as_deref() == Some("invite");
        Ok(is_invited && self.is_readable(room)?)
    }

    fn is_readable(&self, room: &str) -> Result<bool, Trouble> {
        Ok(self.crypto.is_some() || !self.rooms.is_encrypted(room)?)
    }

    fn membership(&self, room: &str, user: &str) -> Result<Option<String>, Trouble> {
        let path = format!("client/v3/rooms/{}/state/m.room.member/{}", part(room), part(user));
        match self.api.get(&path) {
            Err(trouble) if !trouble.is_passing() => Ok(None),
            other => Ok(other?.get("membership").and_then(Value::as_str).map(str::to_owned)),
        }
    }
}
