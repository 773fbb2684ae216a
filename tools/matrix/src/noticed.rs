//! Rooms that were told why the bridge does not read something there, each once. Kept in a file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use hearth_bridge::program::log;
use hearth_bridge::program::settings::part;
use serde_json::json;

use crate::api::{Api, Trouble};

/// What an encrypted room is told when the keys of this device are elsewhere.
pub(crate) const NO_KEYS: &str = "This room is encrypted, and I cannot read it: the keys of my device are not here. My owner can log me in anew. \
     Until then, please write to me in a room without encryption.";
/// What an encrypted room is told after a message without encryption.
pub(crate) const PLAIN: &str =
    "This room is encrypted, so I do not read messages without encryption here: anybody could have made them.";

pub(crate) struct Noticed {
    rooms: BTreeSet<String>,
    file: File,
}

impl Noticed {
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join("encrypted");
        let text = match std::fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let rooms = text.lines().map(str::to_owned).collect();
        Ok(Self { rooms, file: File::options().create(true).append(true).open(&path)? })
    }

    /// Tells a room and the log, unless that was done. The text is not encrypted, and contains nothing secret.
    pub(crate) fn tell(&mut self, api: &Api, room: &str, text: &str) -> Result<(), Trouble> {
        if self.rooms.contains(room) {
            return Ok(());
        }
        log(&format!("the room {room} is told: {text}"));
        let body = json!({ "msgtype": "m.notice", "body": text, "m.mentions": {} });
        // The same id again is the same message.
        match api.put(&format!("client/v3/rooms/{}/send/m.room.message/hearth-encrypted", part(room)), &body) {
            Err(trouble) if trouble.is_passing() => return Err(trouble),
            Err(trouble) => log(&format!("the room {room} cannot be told: {trouble}")),
            Ok(_) => {}
        }
        // Told again after a restart, if it cannot be written.
        drop(self.file.write_all(format!("{room}\n").as_bytes()));
        self.rooms.insert(room.to_owned());
        Ok(())
    }
}
