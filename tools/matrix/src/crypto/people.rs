//! Who people are: their signing keys, and the bot's own.

use hearth_bridge::program::log;
use matrix_sdk_common::deserialized_responses::{EncryptionInfo, VerificationLevel, VerificationState};
use matrix_sdk_crypto::UserIdentity;
use matrix_sdk_crypto::types::requests::AnyOutgoingRequest;
use serde_json::json;

use super::{Crypto, fault, requests, user};
use crate::api::Trouble;
use crate::keys::{Kind, key};

impl Crypto {
    /// Why messages of a person are held: their signing key is another one than before, and the owner has not agreed.
    pub(crate) fn changed(&self, person: &str) -> Result<Option<String>, Trouble> {
        let found = self.run(self.machine.get_identity(user(person)?, None)).map_err(fault)?;
        let Some(UserIdentity::Other(identity)) = found else { return Ok(None) };
        if !identity.identity_needs_user_approval() {
            return Ok(None);
        }
        let new = identity.master_key().get_first_key().map(|key| key.to_base64()).unwrap_or_default();
        if self.people.agreed.get(person) == Some(&new) {
            self.run(identity.pin_current_master_key()).map_err(fault)?;
            log(&format!("{person} has the signing key {new}, which `identities` names"));
            return Ok(None);
        }
        Ok(Some(format!(
            "the signing key of {person} has changed to {new}; if they confirm it, add \"{person}={new}\" to `identities`"
        )))
    }

    /// Says in the log from which device a person writes, when that is new.
    pub(super) fn notice_device(&self, info: &EncryptionInfo) -> Result<(), Trouble> {
        let Some(device) = &info.sender_device else { return Ok(()) };
        let place = key(Kind::Known, &[info.sender.as_str(), device.as_str()]);
        if self.table.has(&place).map_err(fault)? {
            return Ok(());
        }
        let signed = match info.verification_state {
            VerificationState::Unverified(VerificationLevel::UnsignedDevice | VerificationLevel::None(_)) => {
                "they have not signed"
            }
            _ => "they have signed",
        };
        log(&format!("{} writes from the device {device}, which {signed}", info.sender));
        self.table.write(|batch| batch.put(&place, &true)).map_err(fault)
    }

    /// Makes the bot's signing keys and signs its device, once. Other clients then see that the device is the bot's.
    pub(crate) fn sign_device(&self) -> Result<(), Trouble> {
        let _turn = self.turn();
        self.requests()?;
        let place = key(Kind::Custom, &["hearth signed"]);
        match self.table.get::<bool>(&place).map_err(fault)? {
            Some(true) => return Ok(()),
            Some(false) if !self.has_recovery() => return Ok(()),
            _ => {}
        }
        let (status, is_there) = (self.run(self.machine.cross_signing_status()), self.has_identity()?);
        if !status.is_complete() && is_there && !self.restore_identity()? {
            log("the bot's account has signing keys of another client, so this device is not signed: verify it there");
            return self.table.write(|batch| batch.put(&place, &false)).map_err(fault);
        }
        let wanted = self.run(self.machine.bootstrap_cross_signing(false)).map_err(fault)?;
        if let Some(request) = &wanted.upload_keys_req {
            self.request(request)?;
        }
        // The server takes them once without a password.
        let uploaded = match is_there {
            true => Ok(json!({})),
            false => requests::upload_signing(&self.api, &wanted.upload_signing_keys_req),
        };
        match uploaded {
            Err(trouble) if !trouble.is_passing() || trouble.is_token() => {
                log(&format!(
                    "the server does not take the bot's signing keys, so its device is not signed: {trouble}"
                ));
                return Ok(());
            }
            other => drop(other?),
        }
        requests::send(&self.api, &AnyOutgoingRequest::SignatureUpload(wanted.upload_signatures_req))?;
        self.table.write(|batch| batch.put(&place, &true)).map_err(fault)
    }

    /// Whether it is known if the bot has signing keys here.
    pub(crate) fn is_settled(&self) -> bool {
        self.table.has(&key(Kind::Custom, &["hearth signed"])).unwrap_or_default()
    }

    /// Whether the server has signing keys of the bot.
    fn has_identity(&self) -> Result<bool, Trouble> {
        let me = self.machine.user_id().as_str();
        let answer = self.api.post("client/v3/keys/query", &json!({ "device_keys": { me: [] } }))?;
        Ok(answer.get("master_keys").and_then(|keys| keys.get(me)).is_some())
    }
}
