//! Encrypts messages for rooms.

use std::ops::Deref as _;

use matrix_sdk_crypto::EncryptionSettings;
use ruma::api::client::keys::claim_keys;
use ruma::api::client::to_device::send_event_to_device;
use ruma::serde::Raw;
use ruma::{OwnedUserId, RoomId};
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::{Crypto, fault, requests, user};
use crate::api::Trouble;

impl Crypto {
    /// Encrypts the content of an event for the people of a room. They get the key first, on all of their devices.
    pub(crate) fn seal(&self, room: &str, people: &[String], kind: &str, content: &Value) -> Result<Value, Trouble> {
        let _turn = self.turn();
        self.shared(room, people)?;
        let room = <&RoomId>::try_from(room).map_err(fault)?;
        let content = Raw::from_json(to_raw_value(content).map_err(fault)?);
        let sealed = self.run(self.machine.encrypt_room_event_raw(room, kind, &content)).map_err(fault)?;
        serde_json::from_str(sealed.content.json().get()).map_err(fault)
    }

    /// Gives the room's key to the devices that lack it. None gets it while a person there has another signing key than
    /// before.
    pub(crate) fn share(&self, room: &str, people: &[String]) -> Result<(), Trouble> {
        let _turn = self.turn();
        self.shared(room, people)
    }

    fn shared(&self, room: &str, people: &[String]) -> Result<(), Trouble> {
        let room = <&RoomId>::try_from(room).map_err(fault)?;
        let people = people.iter().map(|id| user(id).map(ToOwned::to_owned));
        let people = people.collect::<Result<Vec<OwnedUserId>, _>>()?;
        let ids = || people.iter().map(|id| id.deref());
        self.run(self.machine.update_tracked_users(ids())).map_err(fault)?;
        self.requests()?;
        for person in &people {
            if let Some(why) = self.changed(person.as_str())? {
                return Err(Trouble::Held(why));
            }
        }
        if let Some((id, request)) = self.run(self.machine.get_missing_sessions(ids())).map_err(fault)? {
            let answer = requests::claim(&self.api, &request)?;
            self.sent(&id, &requests::read::<claim_keys::v3::Response>(&answer)?)?;
        }
        let shared = self.run(self.machine.share_room_key(room, ids(), EncryptionSettings::default()));
        for request in shared.map_err(fault)? {
            let answer = requests::to_device(&self.api, &request)?;
            self.sent(&request.txn_id, &requests::read::<send_event_to_device::v3::Response>(&answer)?)?;
        }
        Ok(())
    }

    /// The next message to a room gets a new key: keys of a restored backup were used before.
    pub(crate) fn renew(&self, room: &str) -> Result<(), Trouble> {
        let room = <&RoomId>::try_from(room).map_err(fault)?;
        self.run(self.machine.discard_room_key(room)).map(drop).map_err(fault)
    }
}
