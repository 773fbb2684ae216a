//! Verification by comparing emoji, as the crypto machine does it: which requests reach it, and what it wants to send.

use matrix_sdk_crypto::types::requests::{AnyOutgoingRequest, OutgoingRequest};
use matrix_sdk_crypto::{UserIdentity, VerificationRequest};
use ruma::OwnedEventId;
use ruma::api::client::keys::get_keys;
use ruma::api::client::message::send_message_event;
use ruma::events::{AnyMessageLikeEvent, MessageLikeEventContent as _};
use serde_json::{Value, json};

use super::{Crypto, fault, requests, user};
use crate::api::Trouble;
use crate::event::text;

/// Events of verification begin so.
pub(crate) const KIND: &str = "m.key.verification.";
/// The event that asks for a verification.
pub(crate) const REQUEST: &str = "m.key.verification.request";

/// How a request for a verification came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// To the bot's device, from this device.
    Device(String),
    /// As a message of a room.
    Room(String),
}

/// A request for a verification of a person who may not verify the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stranger {
    pub(crate) who: String,
    /// By what the request is known to both sides.
    pub(crate) flow: String,
    pub(crate) way: Way,
}

/// A message of a verification for a room.
pub(crate) struct RoomMessage {
    pub(crate) room: String,
    pub(crate) kind: String,
    pub(crate) content: Value,
}

impl Crypto {
    pub(crate) fn may_verify(&self, person: &str) -> bool {
        self.people.verifies.iter().any(|may| may == person)
    }

    /// Takes events of verification of strangers out of what the machine gets: the strangers who ask for one.
    pub(super) fn strangers(&self, events: &mut Value) -> Vec<Stranger> {
        let mut strangers = Vec::new();
        if let Some(events) = events.as_array_mut() {
            strangers.extend(events.iter().filter_map(|event| self.stranger(event)));
            events.retain(|event| {
                let is_verification = text(event, "/type").is_some_and(|kind| kind.starts_with(KIND));
                !is_verification || text(event, "/sender").is_some_and(|sender| self.may_verify(sender))
            });
        }
        strangers
    }

    /// The stranger who asks for a verification with an event to the device.
    pub(super) fn stranger(&self, event: &Value) -> Option<Stranger> {
        let who =
            text(event, "/sender").filter(|who| text(event, "/type") == Some(REQUEST) && !self.may_verify(who))?;
        let flow = text(event, "/content/transaction_id")?.to_owned();
        let device = text(event, "/content/from_device")?.to_owned();
        Some(Stranger { who: who.to_owned(), flow, way: Way::Device(device) })
    }

    /// Fetches the keys of the people who ask for a verification: the machine ignores requests of devices that it does not know.
    pub(super) fn meet(&self, events: &Value) -> Result<(), Trouble> {
        let requests = events.as_array().into_iter().flatten().filter(|event| text(event, "/type") == Some(REQUEST));
        requests.filter_map(|event| text(event, "/sender")).take(1).try_for_each(|person| self.look_up(person))
    }

    /// Fetches the keys of a person. If the server does not give them, the machine uses those that it has.
    pub(crate) fn look_up(&self, person: &str) -> Result<(), Trouble> {
        let (id, request) = self.machine.query_keys_for_users([user(person)?]);
        let answer = match requests::query(&self.api, &request) {
            Err(trouble) if !trouble.is_passing() => return Ok(()),
            other => other?,
        };
        self.sent(&id, &requests::read::<get_keys::v3::Response>(&answer)?)
    }

    /// Gives an event of verification in a room to the machine.
    pub(crate) fn verification_event(&self, room: &str, event: &Value) -> Result<(), Trouble> {
        if text(event, "/content/msgtype") == Some(REQUEST) {
            self.look_up(text(event, "/sender").unwrap_or_default())?;
        }
        let mut event = event.clone();
        if let Some(fields) = event.as_object_mut() {
            fields.insert("room_id".to_owned(), json!(room));
        }
        // What cannot be read is none of a verification.
        let Ok(event) = serde_json::from_value::<AnyMessageLikeEvent>(event) else { return Ok(()) };
        self.run(self.machine.receive_verification_event(&event)).map_err(fault)
    }

    /// What a person has asked for.
    pub(crate) fn asked_by(&self, person: &str) -> Vec<VerificationRequest> {
        user(person).map(|person| self.machine.get_verification_requests(person)).unwrap_or_default()
    }

    /// Confirms that the emoji are the same: what is to be sent.
    pub(crate) fn confirm(&self, sas: &matrix_sdk_crypto::Sas) -> Result<Vec<OutgoingRequest>, Trouble> {
        let (requests, signatures) = self.run(sas.confirm()).map_err(fault)?;
        Ok(requests.into_iter().map(Into::into).chain(signatures.map(Into::into)).collect())
    }

    /// Messages of verifications that rooms have to get.
    pub(crate) fn for_rooms(&self) -> Result<Vec<OutgoingRequest>, Trouble> {
        let mut requests = self.run(self.machine.outgoing_requests()).map_err(fault)?;
        requests.retain(|request| matches!(request.request(), AnyOutgoingRequest::RoomMessage(_)));
        Ok(requests)
    }

    /// The message of a request that a room has to get.
    pub(crate) fn room_message(request: &OutgoingRequest) -> Option<RoomMessage> {
        let AnyOutgoingRequest::RoomMessage(message) = request.request() else { return None };
        let content = serde_json::to_value(&*message.content).ok()?;
        Some(RoomMessage { room: message.room_id.to_string(), kind: message.content.event_type().to_string(), content })
    }

    /// A room has a message of a verification.
    pub(crate) fn room_has(&self, request: &OutgoingRequest, event: &str) -> Result<(), Trouble> {
        let event = OwnedEventId::try_from(event).map_err(fault)?;
        self.sent(request.request_id(), &send_message_event::v3::Response::new(event))
    }

    /// Sends another request of a verification.
    pub(crate) fn pass(&self, request: &OutgoingRequest) -> Result<(), Trouble> {
        let _turn = self.turn();
        self.request(request)
    }

    /// Whether the bot has verified who a person is. Their own signing keys prove it from then on.
    pub(crate) fn is_verified(&self, person: &str) -> Result<bool, Trouble> {
        let found = self.run(self.machine.get_identity(user(person)?, None)).map_err(fault)?;
        Ok(match found {
            Some(UserIdentity::Other(identity)) => identity.is_verified(),
            Some(UserIdentity::Own(identity)) => identity.is_verified(),
            None => false,
        })
    }
}
