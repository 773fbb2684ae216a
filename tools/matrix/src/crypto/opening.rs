//! Decrypts messages of rooms.

use matrix_sdk_common::deserialized_responses::{
    DeviceLinkProblem, EncryptionInfo, VerificationLevel, VerificationState,
};
use matrix_sdk_crypto::MegolmError;
use matrix_sdk_crypto::vodozemac::megolm::{DecryptionError, MegolmMessage};
use ruma::RoomId;
use serde_json::Value;

use super::{Crypto, fault, settings};
use crate::api::Trouble;
use crate::event::text;
use crate::keys::{Kind, key};

/// A message that was encrypted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Opening {
    /// The event in clear text.
    Fine(Value),
    /// Its key is missing, and may come.
    Keyless(String),
    /// Its sender has other keys than before, and the owner has not agreed to them.
    Held(String),
    /// It can never be read, or is not what it claims to be.
    Refused(String),
}

impl Crypto {
    /// Decrypts an event of a room.
    pub(crate) fn open_event(&self, room: &str, event: &Value) -> Result<Opening, Trouble> {
        let Ok(room_id) = <&RoomId>::try_from(room) else { return Ok(Opening::Refused("no room".to_owned())) };
        let Ok(raw) = serde_json::from_value(event.clone()) else {
            return Ok(Opening::Refused("it cannot be read".to_owned()));
        };
        let open = || self.run(self.machine.decrypt_room_event(&raw, room_id, &settings()));
        let mut opened = open();
        let is_keyless = matches!(
            opened,
            Err(MegolmError::MissingRoomKey(_) | MegolmError::Decryption(DecryptionError::UnknownMessageIndex(..)))
        );
        if is_keyless && self.fetch_key(room_id, text(event, "/content/session_id").unwrap_or_default())? {
            opened = open();
        }
        let opened = match opened {
            Ok(opened) => opened,
            Err(MegolmError::Store(error)) => return Err(fault(error)),
            Err(MegolmError::MissingRoomKey(None)) => return Ok(Opening::Keyless("its key did not come".to_owned())),
            Err(MegolmError::MissingRoomKey(Some(why))) => {
                return Ok(Opening::Keyless(format!("its key was not given to the bot: {why}")));
            }
            Err(MegolmError::Decryption(DecryptionError::UnknownMessageIndex(..))) => {
                return Ok(Opening::Keyless("its key is for later messages only".to_owned()));
            }
            Err(error) => return Ok(Opening::Refused(error.to_string())),
        };
        if let Some(why) = self.impostor(room, event, &opened.encryption_info)? {
            return Ok(Opening::Refused(why));
        }
        if let Some(why) = self.changed(opened.encryption_info.sender.as_str())? {
            return Ok(Opening::Held(why));
        }
        if let Some(why) = self.unproven(&opened.encryption_info)? {
            return Ok(Opening::Keyless(why));
        }
        self.notice_device(&opened.encryption_info)?;
        Ok(match serde_json::from_str(opened.event.json().get()) {
            Ok(event) => Opening::Fine(event),
            Err(error) => Opening::Refused(error.to_string()),
        })
    }

    /// Why an event may not be of a person whom the bot has verified: the device has to be signed by them. It may be later.
    fn unproven(&self, info: &EncryptionInfo) -> Result<Option<String>, Trouble> {
        let is_fine = info.verification_state == VerificationState::Verified || info.sender == self.machine.user_id();
        if is_fine || !self.is_verified(info.sender.as_str())? {
            return Ok(None);
        }
        if matches!(
            info.verification_state,
            VerificationState::Unverified(VerificationLevel::None(DeviceLinkProblem::InsecureSource))
        ) {
            return Ok(Some(format!(
                "{} is verified, but a key of the backup does not prove who made it",
                info.sender
            )));
        }
        let device = info.sender_device.as_ref().map_or("unknown", |device| device.as_str());
        Ok(Some(format!("{} is verified, but has not signed the device from which it came ({device})", info.sender)))
    }

    /// Why an event is not of whom it claims to be, or is another one again.
    fn impostor(&self, room: &str, event: &Value, info: &EncryptionInfo) -> Result<Option<String>, Trouble> {
        if info.verification_state == VerificationState::Unverified(VerificationLevel::MismatchedSender) {
            return Ok(Some("its key is of another person than its sender".to_owned()));
        }
        let (session, id) = (info.session_id().unwrap_or_default(), text(event, "/event_id").unwrap_or_default());
        let cipher = text(event, "/content/ciphertext").unwrap_or_default();
        let Ok(message) = MegolmMessage::from_base64(cipher) else { return Ok(Some("it cannot be read".to_owned())) };
        // A server could show a message again, as a new one.
        let place = key(Kind::Index, &[&format!("{room} {session}"), &message.message_index().to_string()]);
        let before: Option<String> = self.table.get(&place).map_err(fault)?;
        match before {
            Some(before) if before == id => Ok(None),
            Some(before) => Ok(Some(format!("it is a copy of {before}"))),
            None => {
                self.table.write(|batch| batch.put(&place, id)).map_err(fault)?;
                Ok(None)
            }
        }
    }
}
