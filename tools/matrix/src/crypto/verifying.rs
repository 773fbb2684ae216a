//! Verification of people: who asks for one and may, gets seven emoji, which the owner compares on this machine
//! (`comparison.rs`). On a thread of its own, so that it delays no message. One at a time.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use hearth_bridge::program::settings::part;
use hearth_bridge::program::{log, now};
use matrix_sdk_crypto::types::requests::OutgoingRequest;
use matrix_sdk_crypto::{
    AcceptSettings, EmojiShortAuthString, Sas, SasState, Verification, VerificationRequest, VerificationRequestState,
};
use ruma::TransactionId;
use ruma::events::key::verification::cancel::CancelCode;
use ruma::events::key::verification::{ShortAuthenticationString, VerificationMethod};
use serde_json::{Value, json};

use super::verification::RoomMessage;
use super::{Crypto, Stranger, Way};
use crate::api::{Api, Trouble};
use crate::comparison::{Comparison, Desk, LOOK, Shown, VERIFIED};
use crate::event::text;
use crate::rooms::Rooms;

/// News that may wait; more are left out.
pub(crate) const WAITING: usize = 64;
/// How often the machine is looked at without news.
const IDLE: Duration = Duration::from_secs(30);
/// How often the machine is checked after the server could not be reached.
const IN_TROUBLE: Duration = Duration::from_secs(5);
/// Strangers who are told in an hour that they may not verify the bot; others get no answer.
const TOLD: u32 = 5;
const HOUR: Duration = Duration::from_secs(3_600);

/// What the inbox has seen.
#[derive(Debug)]
pub(crate) enum News {
    /// Something of a verification may have come.
    Step,
    /// A person asks who may not.
    Stranger(Stranger),
}

/// The way to the thread.
#[derive(Clone)]
pub(crate) struct Verifying(pub(crate) SyncSender<News>);

impl Verifying {
    pub(crate) fn tell(&self, news: News) {
        drop(self.0.try_send(news));
    }
}

/// The verification that is under way.
struct Current {
    request: VerificationRequest,
    sas: Option<Box<Sas>>,
    shown: Option<Comparison>,
    is_answered: bool,
}

pub(crate) struct Verifier {
    crypto: Crypto,
    api: Api,
    rooms: Rooms,
    desk: Desk,
    people: Vec<String>,
    current: Option<Current>,
    /// What has to be sent, in its order.
    unsent: VecDeque<OutgoingRequest>,
    /// Strangers who asked since a time.
    told: u32,
    told_since: Duration,
}

impl Verifier {
    pub(crate) fn new(crypto: Crypto, api: Api, rooms: Rooms, people: Vec<String>) -> Self {
        let desk = Desk(Path::new(".").to_owned());
        // Of a bridge that ended meanwhile.
        desk.clear();
        let (current, unsent) = (None, VecDeque::new());
        Self { crypto, api, rooms, desk, people, current, unsent, told: 0, told_since: now() }
    }

    /// Works until the inbox ends.
    pub(crate) fn work(mut self, news: &Receiver<News>) {
        let mut pause = IDLE;
        loop {
            match news.recv_timeout(pause) {
                Ok(News::Stranger(stranger)) => self.refuse(&stranger),
                Ok(News::Step) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let is_done = self.step().map_err(|trouble| log(&format!("a verification waits: {trouble}"))).is_ok();
            pause = match self.current.is_some() || !self.unsent.is_empty() {
                true if is_done => LOOK,
                true => IN_TROUBLE,
                false => IDLE,
            };
        }
    }

    fn step(&mut self) -> Result<(), Trouble> {
        for person in self.people.clone() {
            for request in self.crypto.asked_by(&person) {
                if matches!(request.state(), VerificationRequestState::Requested { .. }) {
                    self.begin(request);
                }
            }
        }
        self.advance()?;
        for new in self.crypto.for_rooms()? {
            if !self.unsent.iter().any(|unsent| unsent.request_id() == new.request_id()) {
                self.unsent.push_back(new);
            }
        }
        self.send()
    }

    /// Accepts a request, or cancels it while there is another one.
    fn begin(&mut self, request: VerificationRequest) {
        let who = request.other_user().to_string();
        if self.current.is_some() {
            log(&format!("{who} asks for a verification while another one is under way: cancelled"));
            self.unsent.extend(request.cancel().map(Into::into));
            return;
        }
        log(&format!("{who} asks for a verification: accepted"));
        self.unsent.extend(request.accept_with_methods(vec![VerificationMethod::SasV1]).map(Into::into));
        self.current = Some(Current { request, sas: None, shown: None, is_answered: false });
    }

    fn advance(&mut self) -> Result<(), Trouble> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if current.sas.is_none() {
            match current.request.state() {
                VerificationRequestState::Transitioned { verification: Verification::SasV1(sas), .. } => {
                    current.sas = Some(sas);
                }
                VerificationRequestState::Cancelled(info) => {
                    let reason = info.reason();
                    self.end(reason);
                    return Ok(());
                }
                VerificationRequestState::Done => {
                    self.end("it was over before emoji were compared");
                    return Ok(());
                }
                _ if current.request.timed_out() => {
                    self.unsent.extend(current.request.cancel().map(Into::into));
                    self.end("nothing was compared in time");
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
        let Some(sas) = current.sas.clone() else { return Ok(()) };
        match sas.state() {
            SasState::Started { .. } => {
                let settings = AcceptSettings::with_allowed_methods(vec![ShortAuthenticationString::Emoji]);
                self.unsent.extend(sas.accept_with_settings(settings).map(Into::into));
            }
            SasState::KeysExchanged { emojis: Some(emojis), .. } => return self.compare(&sas, &emojis),
            // The other side compares numbers only.
            SasState::KeysExchanged { emojis: None, .. } => {
                self.unsent.extend(sas.cancel_with_code(CancelCode::UnknownMethod).map(Into::into));
            }
            SasState::Done { .. } => return self.verified(&sas),
            SasState::Cancelled(info) => self.end(info.reason()),
            _ if sas.timed_out() => self.unsent.extend(sas.cancel_with_code(CancelCode::Timeout).map(Into::into)),
            _ => {}
        }
        Ok(())
    }

    /// Shows the emoji, once, and takes what the owner says of them.
    fn compare(&mut self, sas: &Sas, emojis: &EmojiShortAuthString) -> Result<(), Trouble> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let Some(shown) = &current.shown else {
            let comparison = comparison(sas, emojis);
            let line: Vec<String> = comparison.emoji.iter().map(|one| format!("{} {}", one.symbol, one.name)).collect();
            log(&format!(
                "{} compares these emoji on the device {}: {}; confirm them within a minute with `hearth-matrix verify DIRECTORY`, \
                 where DIRECTORY is this bridge's state",
                comparison.who,
                comparison.device,
                line.join(", ")
            ));
            self.desk.clear();
            if let Err(error) = self.desk.ask(&comparison) {
                log(&format!("the emoji cannot be shown: {error}"));
                self.unsent.extend(sas.cancel().map(Into::into));
            }
            current.shown = Some(comparison);
            return Ok(());
        };
        match self.desk.answer(&shown.id) {
            Some(true) if !current.is_answered => {
                current.is_answered = true;
                self.unsent.extend(self.crypto.confirm(sas)?);
            }
            Some(false) => self.unsent.extend(sas.cancel_with_code(CancelCode::MismatchedSas).map(Into::into)),
            _ if sas.timed_out() => self.unsent.extend(sas.cancel_with_code(CancelCode::Timeout).map(Into::into)),
            _ => {}
        }
        Ok(())
    }

    /// Both sides have confirmed.
    fn verified(&mut self, sas: &Sas) -> Result<(), Trouble> {
        let who = sas.other_user_id().to_string();
        // The bot's signature has to be at the server before it comes back.
        self.send()?;
        if !self.unsent.is_empty() {
            return Ok(());
        }
        self.crypto.upkeep()?;
        self.crypto.look_up(&who)?;
        match self.crypto.is_verified(&who)? {
            true => log(&format!("{who} is verified, by the device {}", sas.other_device_id())),
            false => log(&format!(
                "the device {} of {who} is verified, but not the person: the bot or they have no signing keys here",
                sas.other_device_id()
            )),
        }
        self.end(VERIFIED);
        Ok(())
    }

    fn end(&mut self, result: &str) {
        let Some(current) = self.current.take() else { return };
        if result != VERIFIED {
            log(&format!("the verification of {} ended: {result}", current.request.other_user()));
        }
        if let Some(shown) = current.shown {
            // Who waits for it looks into the log instead.
            drop(self.desk.ask(&Comparison { result: Some(result.to_owned()), ..shown }));
        }
    }

    /// Sends what waits. What the server refuses is over; the other side cancels after some minutes.
    fn send(&mut self) -> Result<(), Trouble> {
        while let Some(request) = self.unsent.front() {
            let sent = match Crypto::room_message(request) {
                None => self.crypto.pass(request),
                Some(message) => {
                    let event = self.say(&message, request.request_id());
                    event.and_then(|event| self.crypto.room_has(request, &event))
                }
            };
            match sent {
                Err(trouble) if trouble.is_passing() => return Err(trouble),
                Err(trouble) => log(&format!("a message of a verification: {trouble}")),
                Ok(()) => {}
            }
            self.unsent.pop_front();
        }
        Ok(())
    }

    /// Sends a message to its room, encrypted where the room is; the id of its event.
    fn say(&self, RoomMessage { room, kind, content }: &RoomMessage, id: &TransactionId) -> Result<String, Trouble> {
        let path = |kind: &str| format!("client/v3/rooms/{}/send/{kind}/{}", part(room), part(id.as_str()));
        let answer = if self.rooms.is_encrypted(room)? {
            let readers = self.rooms.readers(room)?;
            self.api.put(&path("m.room.encrypted"), &self.crypto.seal(room, &readers, kind, content)?)
        } else {
            self.api.put(&path(kind), content)
        }?;
        Ok(text(&answer, "/event_id").unwrap_or_default().to_owned())
    }

    /// Tells a stranger that there is no verification, a few times in an hour.
    fn refuse(&mut self, Stranger { who, flow, way }: &Stranger) {
        if now().saturating_sub(self.told_since) > HOUR {
            (self.told_since, self.told) = (now(), 0);
        }
        self.told = self.told.saturating_add(1);
        if self.told > TOLD {
            return;
        }
        log(&format!("{who} asks for a verification, but `verifies` does not name them: cancelled"));
        let kind = "m.key.verification.cancel";
        let mut content =
            json!({ "code": "m.user", "reason": "My owner has to name you in the setting `verifies` first." });
        let done = match way {
            Way::Device(device) => {
                set(&mut content, "transaction_id", json!(flow));
                let messages = BTreeMap::from([(who, BTreeMap::from([(device, content)]))]);
                let path = format!("client/v3/sendToDevice/{kind}/{}", TransactionId::new());
                self.api.put(&path, &json!({ "messages": messages })).map(drop)
            }
            Way::Room(room) => {
                set(&mut content, "m.relates_to", json!({ "rel_type": "m.reference", "event_id": flow }));
                let message = RoomMessage { room: room.clone(), kind: kind.to_owned(), content };
                self.say(&message, &TransactionId::new()).map(drop)
            }
        };
        if let Err(trouble) = done {
            log(&format!("{who} cannot be told: {trouble}"));
        }
    }
}

fn set(content: &mut Value, name: &str, value: Value) {
    if let Some(fields) = content.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// What the owner has to compare.
fn comparison(sas: &Sas, emojis: &EmojiShortAuthString) -> Comparison {
    let shown =
        |one: &matrix_sdk_crypto::Emoji| Shown { symbol: one.symbol.to_owned(), name: one.description.to_owned() };
    Comparison {
        id: TransactionId::new().to_string(),
        who: sas.other_user_id().to_string(),
        device: sas.other_device_id().to_string(),
        emoji: emojis.emojis.iter().map(shown).collect(),
        result: None,
    }
}
