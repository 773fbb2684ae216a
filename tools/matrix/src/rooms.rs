//! What the bridge knows of rooms: who is there, and whether they are encrypted. Asked when it is needed, and forgotten
//! when the server says that it changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearth_bridge::program::settings::part;
use serde_json::Value;

use crate::api::{Api, Trouble};

/// Rooms that are remembered.
const REMEMBERED: usize = 1_000;
/// Longest name of a person, in characters.
const NAME_MAX: usize = 100;

/// The people who are in a room: their names by their ids.
pub(crate) type Members = BTreeMap<String, String>;

#[derive(Default)]
struct Room {
    members: Option<Arc<Members>>,
    is_encrypted: Option<bool>,
}

/// All rooms.
#[derive(Clone)]
pub(crate) struct Rooms {
    api: Api,
    known: Arc<Mutex<BTreeMap<String, Room>>>,
}

impl Rooms {
    pub(crate) fn new(api: Api) -> Self {
        Self { api, known: Arc::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Room>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > REMEMBERED {
            known.clear();
        }
        known
    }

    /// A person came or went.
    pub(crate) fn forget_members(&self, room: &str) {
        if let Some(room) = self.known().get_mut(room) {
            room.members = None;
        }
    }

    /// The bot left, or something may have been missed.
    pub(crate) fn forget(&self, room: &str) {
        self.known().remove(room);
    }

    pub(crate) fn forget_all(&self) {
        self.known().clear();
    }

    pub(crate) fn encrypted(&self, room: &str) {
        self.known().entry(room.to_owned()).or_default().is_encrypted = Some(true);
    }

    pub(crate) fn members(&self, room: &str) -> Result<Arc<Members>, Trouble> {
        if let Some(members) = self.known().get(room).and_then(|room| room.members.clone()) {
            return Ok(members);
        }
        let answer = self.api.get(&format!("client/v3/rooms/{}/joined_members", part(room)))?;
        let joined = answer.get("joined").and_then(Value::as_object).into_iter().flatten();
        let name = |id: &str, about: &Value| {
            let name = about.get("display_name").and_then(Value::as_str).map(str::trim).unwrap_or_default();
            let name = if name.is_empty() { id } else { name };
            name.chars().filter(|char| !char.is_control()).take(NAME_MAX).collect()
        };
        let members: Arc<Members> = Arc::new(joined.map(|(id, about)| (id.clone(), name(id, about))).collect());
        self.known().entry(room.to_owned()).or_default().members = Some(Arc::clone(&members));
        Ok(members)
    }

    /// Whether a room is encrypted. This cannot be undone.
    pub(crate) fn is_encrypted(&self, room: &str) -> Result<bool, Trouble> {
        if let Some(is) = self.known().get(room).and_then(|room| room.is_encrypted) {
            return Ok(is);
        }
        let is = match self.api.get(&format!("client/v3/rooms/{}/state/m.room.encryption/", part(room))) {
            Ok(_) => true,
            Err(trouble) if trouble.is_missing() => false,
            Err(trouble) => return Err(trouble),
        };
        let mut known = self.known();
        let room = known.entry(room.to_owned()).or_default();
        // The inbox may have learnt it meanwhile.
        let is = is || room.is_encrypted == Some(true);
        room.is_encrypted = Some(is);
        Ok(is)
    }
}
