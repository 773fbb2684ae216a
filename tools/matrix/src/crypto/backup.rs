//! The backup of room keys at the server. A backup is used only if its public key is the one of the key that this bridge has,
//! or that the secret storage has, which the recovery key opens: a server could offer one of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use hearth_bridge::program::settings::part;
use hearth_bridge::program::{log, now};
use matrix_sdk_crypto::olm::ExportedRoomKey;
use matrix_sdk_crypto::store::types::BackupDecryptionKey;
use matrix_sdk_crypto::types::RoomKeyBackupInfo;
use ruma::RoomId;
use ruma::api::client::backup::{EncryptedSessionData, add_backup_keys};
use ruma::events::secret::request::SecretName;
use serde_json::{Value, json};

use super::{Crypto, fault, requests};
use crate::api::Trouble;
use crate::event::text;

/// Keys that were not found, which are remembered.
const MISSING_MOST: usize = 1_000;
/// How long an answer with a key is waited for.
const FETCH: Duration = Duration::from_secs(5);
const VERSION: &str = "client/v3/room_keys/version";

/// For how long no key is fetched after a fault, so that a server without an answer does not hold up messages.
const REST: Duration = Duration::from_secs(300);

/// Keys that were looked for.
#[derive(Debug, Default)]
pub(super) struct LookedFor {
    places: BTreeSet<String>,
    /// Until when none is.
    rest: Duration,
}

impl LookedFor {
    /// Whether a key may be looked for: once.
    fn begin(&mut self, place: &str) -> bool {
        if now() < self.rest {
            return false;
        }
        if self.places.len() >= MISSING_MOST {
            self.places.clear();
        }
        self.places.insert(place.to_owned())
    }

    /// There was no answer.
    fn failed(&mut self, place: &str) {
        self.places.remove(place);
        self.rest = now() + REST;
    }
}

/// What a step of the backup did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// There is more.
    More,
    /// Everything is there.
    All,
    /// This backup is not used until the next start.
    Refused,
}

impl Crypto {
    /// Whether there is a recovery key.
    pub(crate) fn has_recovery(&self) -> bool {
        self.people.recovery.is_some()
    }

    /// Finds the backup, or makes one. Each part is stored before the next one needs it, so it can begin anew at any moment.
    pub(crate) fn prepare_backup(&self) -> Result<Kept, Trouble> {
        let storage = match self.storage() {
            Ok(Some(storage)) => storage,
            Ok(None) => return Ok(Kept::Refused),
            Err(closed) => return self.closed(closed).map(|()| Kept::Refused),
        };
        self.store_identity(&storage)?;
        let backup = self.machine.backup_machine();
        let name = SecretName::RecoveryKey;
        let own = self.run(backup.get_backup_keys()).map_err(fault)?.decryption_key;
        let stored = storage.get(&name)?.and_then(|secret| BackupDecryptionKey::from_base64(&secret).ok());
        // What the recovery key opens is what other clients of the bot use.
        let key = stored.or(own).unwrap_or_else(BackupDecryptionKey::new);
        self.run(backup.save_decryption_key(Some(key.clone()), None)).map_err(fault)?;
        storage.keep(&name, &key.to_base64())?;
        let version = match self.api.get(VERSION) {
            Err(trouble) if trouble.is_missing() => self.new_backup(&key)?,
            other => match fitting(&other?, &key) {
                Some(version) => version,
                None => {
                    log(
                        "the server has a backup of keys for another key than the recovery key protects, so it is not used; \
                         if you know it, remove it with a client of the bot's account",
                    );
                    return Ok(Kept::Refused);
                }
            },
        };
        self.run(backup.save_decryption_key(Some(key.clone()), Some(version.clone()))).map_err(fault)?;
        log(&format!("keys are backed up at the server, in the backup {version}"));
        let public = key.megolm_v1_public_key();
        public.set_version(version);
        self.run(backup.enable_backup_v1(public)).map_err(fault)?;
        Ok(Kept::More)
    }

    fn new_backup(&self, key: &BackupDecryptionKey) -> Result<String, Trouble> {
        let mut info = key.to_backup_info();
        self.run(self.machine.backup_machine().sign_backup(&mut info)).map_err(fault)?;
        let answer = self.api.post(VERSION, &serde_json::to_value(&info).map_err(fault)?)?;
        let version = text(&answer, "/version").map(str::to_owned);
        version.ok_or_else(|| Trouble::Lost("its answer has no version of the backup".to_owned()))
    }

    /// Sends at most a hundred keys that the backup lacks.
    pub(crate) fn back_up(&self) -> Result<Kept, Trouble> {
        let backup = self.machine.backup_machine();
        let Some((id, request)) = self.run(backup.backup()).map_err(fault)? else { return Ok(Kept::All) };
        let rooms = serde_json::to_value(&request.rooms).map_err(fault)?;
        let path = format!("client/v3/room_keys/keys?version={}", part(&request.version));
        match self.api.put(&path, &json!({ "rooms": rooms })) {
            // There is another backup.
            Err(Trouble::Refused { status: 403 | 404, .. }) => self.renew_backup(),
            other => {
                let answer = requests::read::<add_backup_keys::v3::Response>(&other?)?;
                self.sent(&id, &answer)?;
                Ok(Kept::More)
            }
        }
    }

    /// The backup at the server was replaced or removed.
    fn renew_backup(&self) -> Result<Kept, Trouble> {
        log("the backup of keys at the server was removed or replaced");
        let backup = self.machine.backup_machine();
        let key = self.run(backup.get_backup_keys()).map_err(fault)?.decryption_key;
        self.run(backup.disable_backup()).map_err(fault)?;
        self.run(backup.save_decryption_key(key, None)).map_err(fault)?;
        self.prepare_backup()
    }

    /// Looks for a key in the backup. Whether it is here now.
    pub(super) fn fetch_key(&self, room: &RoomId, session: &str) -> Result<bool, Trouble> {
        let backup = self.machine.backup_machine();
        if session.is_empty() || !self.has_recovery() || !self.run(backup.enabled()) {
            return Ok(false);
        }
        let place = format!("{room} {session}");
        if !self.looked_for().begin(&place) {
            return Ok(false);
        }
        let keys = self.run(backup.get_backup_keys()).map_err(fault)?;
        let (Some(key), Some(version)) = (keys.decryption_key, keys.backup_version) else { return Ok(false) };
        let path =
            format!("client/v3/room_keys/keys/{}/{}?version={}", part(room.as_str()), part(session), part(&version));
        let answer = match self.api.get_within(&path, FETCH) {
            Err(trouble) => {
                if trouble.is_passing() {
                    log(&format!("a key cannot be fetched from the backup: {trouble}"));
                    self.looked_for().failed(&place);
                }
                return Ok(false);
            }
            Ok(answer) => answer,
        };
        let data = answer.get("session_data").cloned().unwrap_or(Value::Null);
        let Ok(data) = serde_json::from_value::<EncryptedSessionData>(data) else { return Ok(false) };
        let Ok(found) = key.decrypt_session_data(data) else { return Ok(false) };
        let found = ExportedRoomKey::from_backed_up_room_key(room.to_owned(), session.to_owned(), found);
        let imported = self.run(self.machine.store().import_room_keys(vec![found], Some(&version), |_, _| {}));
        let count = imported.map_err(fault)?.imported_count;
        if count > 0 {
            log(&format!("a key of {room} came from the backup, which does not prove who made it"));
        }
        Ok(count > 0)
    }
}

/// The version of a backup, if it is one for a key.
fn fitting(answer: &Value, key: &BackupDecryptionKey) -> Option<String> {
    let info: RoomKeyBackupInfo = serde_json::from_value(answer.clone()).ok()?;
    text(answer, "/version").filter(|_| key.backup_key_matches(&info)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_looked_for_once_and_not_after_a_fault() {
        let mut looked_for = LookedFor::default();
        assert!(looked_for.begin("a") && !looked_for.begin("a") && looked_for.begin("b"));
        looked_for.failed("b");
        assert!(!looked_for.begin("b") && !looked_for.begin("c"), "it rests");
    }

    #[test]
    fn only_a_backup_for_the_own_key_is_used() {
        let [own, other] = [BackupDecryptionKey::new(), BackupDecryptionKey::new()];
        let mut answer = serde_json::to_value(own.to_backup_info()).unwrap();
        answer["version"] = json!("7");
        assert_eq!((fitting(&answer, &own), fitting(&answer, &other)), (Some("7".to_owned()), None));
        for wrong in [json!({}), json!({ "version": "7", "algorithm": "x", "auth_data": {} })] {
            assert_eq!(fitting(&wrong, &own), None);
        }
    }
}
