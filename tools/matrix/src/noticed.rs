//! Rooms that were told that the bridge cannot read them, each once. Kept in a file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use hearth_bridge::program::log;
use hearth_bridge::program::settings::part;
use serde_json::json;

use crate::api::{Api, Trouble};

/// What such a room is told.
pub(crate) const TEXT: &str =
    "This room is encrypted. Hearth cannot read it yet: please write to me in a room without encryption.";

/// The rooms.
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
    pub(crate) fn tell(&mut self, api: &Api, room: &str) -> Result<(), Trouble> {
        if self.rooms.contains(room) {
            return Ok(());
        }
        log(&format!("the room {room} is encrypted; Hearth cannot read it yet, and says so there"));
        let body = json!({ "msgtype": "m.notice", "body": TEXT, "m.mentions": {} });
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
