//! What the bridge knows of rooms: who is there, and whether they are encrypted. Asked when it is needed, and forgotten
//! when the server says that it changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearth_bridge::program::settings::part;
use serde_json::Value;

use crate::api::{Api, Trouble};
use crate::keys::{Kind, Table, key};

/// Rooms that are remembered.
const REMEMBERED: usize = 1_000;
/// Longest name of a person, in characters.
const NAME_MAX: usize = 100;

/// The people who are in a room: their names by their ids.
pub(crate) type Members = BTreeMap<String, String>;

#[derive(Default)]
struct Room {
    members: Option<Arc<Members>>,
    readers: Option<Arc<Vec<String>>>,
    is_encrypted: Option<bool>,
}

#[derive(Clone)]
pub(crate) struct Rooms {
    api: Api,
    /// Where encrypted rooms are remembered.
    table: Option<Table>,
    known: Arc<Mutex<BTreeMap<String, Room>>>,
}

impl Rooms {
    pub(crate) fn new(api: Api, table: Option<Table>) -> Self {
        Self { api, table, known: Arc::default() }
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
            room.readers = None;
        }
    }

    /// The bot left, or something may have been missed.
    pub(crate) fn forget(&self, room: &str) {
        self.known().remove(room);
    }

    pub(crate) fn forget_all(&self) {
        self.known().clear();
    }

    /// A room is encrypted. This cannot be undone, whatever its server says later.
    pub(crate) fn encrypted(&self, room: &str) {
        let before = self.known().entry(room.to_owned()).or_default().is_encrypted.replace(true);
        if before == Some(true) {
            return;
        }
        if let Some(table) = &self.table {
            // Otherwise the server is asked after a restart.
            drop(table.write(|batch| batch.put(&key(Kind::Encrypted, &[room]), room)));
        }
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

    /// The people who may read what is said in a room: those who are there, and those who are invited.
    pub(crate) fn readers(&self, room: &str) -> Result<Arc<Vec<String>>, Trouble> {
        if let Some(readers) = self.known().get(room).and_then(|room| room.readers.clone()) {
            return Ok(readers);
        }
        let answer = self.api.get(&format!("client/v3/rooms/{}/members?not_membership=leave", part(room)))?;
        let events = answer.get("chunk").and_then(Value::as_array).into_iter().flatten();
        let reads = |event: &&Value| {
            matches!(event.pointer("/content/membership").and_then(Value::as_str), Some("join" | "invite"))
        };
        let ids = events.filter(reads).filter_map(|event| event.get("state_key")?.as_str().map(str::to_owned));
        let readers: Arc<Vec<String>> = Arc::new(ids.collect());
        self.known().entry(room.to_owned()).or_default().readers = Some(Arc::clone(&readers));
        Ok(readers)
    }

    /// Whether a room is encrypted.
    pub(crate) fn is_encrypted(&self, room: &str) -> Result<bool, Trouble> {
        if let Some(is) = self.known().get(room).and_then(|room| room.is_encrypted) {
            return Ok(is);
        }
        let place = key(Kind::Encrypted, &[room]);
        if self.table.as_ref().is_some_and(|table| table.has(&place).unwrap_or_default()) {
            self.known().entry(room.to_owned()).or_default().is_encrypted = Some(true);
            return Ok(true);
        }
        let is = match self.api.get(&format!("client/v3/rooms/{}/state/m.room.encryption/", part(room))) {
            Ok(_) => true,
            Err(trouble) if trouble.is_missing() => false,
            Err(trouble) => return Err(trouble),
        };
        if is {
            self.encrypted(room);
            return Ok(true);
        }
        // The inbox may have learnt it meanwhile.
        Ok(*self.known().entry(room.to_owned()).or_default().is_encrypted.get_or_insert(false))
    }
}
