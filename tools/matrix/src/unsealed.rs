//! The inbox, in encrypted rooms: decrypts what is said there, and keeps what cannot be read yet.

use std::time::Duration;

use hearth_bridge::program::settings::part;
use hearth_bridge::program::state::{Side, seconds, time_text};
use hearth_bridge::program::{log, now};
use serde_json::{Value, json};

use crate::api::Trouble;
use crate::crypto::{News, Opening, REQUEST, Stranger, VERIFICATION, Way};
use crate::event::{self, text};
use crate::inbox::{Found, Inbox};
use crate::keys::Fault;
use crate::noticed::PLAIN;
use crate::parked::Parked;

/// How often a room is told that something there cannot be read.
const TELL: Duration = Duration::from_secs(600);
/// Rooms of which that is remembered.
const TOLD_MOST: usize = 1_000;

/// A fault of the database, which may pass.
fn fault(error: Fault) -> Trouble {
    Trouble::Lost(format!("what waits for keys cannot be stored: {error}"))
}

impl Inbox {
    /// Events of a room in clear text. What cannot be read is kept or reported, and messages that are not encrypted are left
    /// out if the room was encrypted before.
    pub(crate) fn cleared(&mut self, room: &str, events: Vec<Value>) -> Result<Vec<Value>, Trouble> {
        if self.sealed.is_none() {
            return Ok(events);
        }
        let is_encryption = |event: &Value| text(event, "/type") == Some("m.room.encryption");
        let begin = events.iter().rposition(is_encryption);
        let mut clear = Vec::new();
        for (number, event) in events.into_iter().enumerate() {
            let is_own = text(&event, "/sender") == Some(&self.bot.id);
            match text(&event, "/type") {
                _ if is_own => clear.push(event),
                Some("m.room.encrypted") => clear.extend(self.opened(room, event)?),
                Some("m.room.message" | "m.sticker") if begin.is_none_or(|begin| number > begin) => {
                    match self.rooms.is_encrypted(room) {
                        Err(trouble) if trouble.is_passing() => return Err(trouble),
                        Ok(true) => {
                            log(&format!("a message without encryption in the encrypted room {room} is left out"));
                            self.noticed.tell(&self.api, room, PLAIN)?;
                        }
                        // The bot is not there any more, or it is not encrypted.
                        Ok(false) | Err(_) => clear.push(event),
                    }
                }
                _ => clear.push(event),
            }
        }
        Ok(clear)
    }

    /// Decrypts an event, or keeps it.
    fn opened(&mut self, room: &str, event: Value) -> Result<Option<Value>, Trouble> {
        let Some(sealed) = &mut self.sealed else { return Ok(None) };
        // A redacted one has nothing to read.
        if text(&event, "/content/algorithm").is_none() {
            return Ok(None);
        }
        let (why, is_held) = match sealed.crypto.open_event(room, &event)? {
            Opening::Fine(event) => return Ok(Some(event)),
            Opening::Refused(why) => {
                self.report(room, &event, &why)?;
                return Ok(None);
            }
            Opening::Keyless(why) => (why, false),
            Opening::Held(why) => (why, true),
        };
        log(&format!("a message in {room} waits: {why}"));
        let parked = Parked { room: room.to_owned(), event: event.clone(), since: seconds(), is_held };
        if !sealed.parked.park(parked).map_err(fault)? {
            self.report(room, &event, &why)?;
        }
        Ok(None)
    }

    /// Messages whose keys have come since. What has waited long enough is reported.
    pub(crate) fn unparked(&mut self) -> Result<Vec<Found>, Trouble> {
        let Some(sealed) = &self.sealed else { return Ok(Vec::new()) };
        let patience = sealed.patience;
        let mut found = Vec::new();
        for parked in sealed.parked.all() {
            let (room, id) = (parked.room.clone(), parked.id().to_owned());
            if self.is_waiting(&room, &id) {
                continue;
            }
            if self.passed.has(&id) {
                self.unpark(&room, &id)?;
                continue;
            }
            let Some(sealed) = &self.sealed else { break };
            match sealed.crypto.open_event(&room, &parked.event)? {
                // It stays in the database until the daemon has it.
                Opening::Fine(event) => match event::read(&event, &self.bot) {
                    Some(written) => found.push(Found { room, written }),
                    None => {
                        self.verify(&room, &event)?;
                        self.unpark(&room, &id)?;
                    }
                },
                Opening::Keyless(why) | Opening::Held(why) if parked.is_over(patience) => {
                    self.report(&room, &parked.event, &why)?;
                    self.unpark(&room, &id)?;
                }
                Opening::Held(why) => self.state.fails(Side::Inbox, why),
                Opening::Keyless(_) => {}
                Opening::Refused(why) => {
                    self.report(&room, &parked.event, &why)?;
                    self.unpark(&room, &id)?;
                }
            }
        }
        Ok(found)
    }

    /// Looks for what belongs to a verification of the bot.
    pub(crate) fn verify(&self, room: &str, event: &Value) -> Result<(), Trouble> {
        let Some(sealed) = &self.sealed else { return Ok(()) };
        let who = text(event, "/sender").unwrap_or_default();
        let is_request = text(event, "/content/msgtype") == Some(REQUEST);
        let is_verification = text(event, "/type").is_some_and(|kind| kind.starts_with(VERIFICATION)) || is_request;
        // Requests in rooms name who is asked.
        if !is_verification || who == self.bot.id || is_request && text(event, "/content/to") != Some(&self.bot.id) {
            return Ok(());
        }
        if sealed.crypto.may_verify(who) {
            sealed.crypto.verification_event(room, event)?;
            self.verifying.tell(News::Step);
        } else if is_request {
            let flow = text(event, "/event_id").unwrap_or_default().to_owned();
            let stranger = Stranger { who: who.to_owned(), flow, way: Way::Room(room.to_owned()) };
            self.verifying.tell(News::Stranger(stranger));
        }
        Ok(())
    }

    /// A message does not wait any more.
    pub(crate) fn unpark(&mut self, room: &str, id: &str) -> Result<(), Trouble> {
        let Some(sealed) = &mut self.sealed else { return Ok(()) };
        sealed.parked.remove(room, id).map_err(fault)
    }

    /// Says in the log and in the room that a message cannot be read; in the room not often, because others can cause it.
    fn report(&mut self, room: &str, event: &Value, why: &str) -> Result<(), Trouble> {
        let sender = text(event, "/sender").unwrap_or_default();
        let said = format!(
            "I cannot read a message of {sender} of {}: {why}. Please send it again.",
            time_text(event::at(event) / 1_000)
        );
        log(&format!("in {room}: {said}"));
        let Some(sealed) = &mut self.sealed else { return Ok(()) };
        if sealed.told.get(room).is_some_and(|told| now().saturating_sub(*told) < TELL) {
            return Ok(());
        }
        let content = json!({ "msgtype": "m.notice", "body": said, "m.mentions": {} });
        let told = self.rooms.readers(room).and_then(|readers| {
            let content = sealed.crypto.seal(room, &readers, "m.room.message", &content)?;
            let id = text(event, "/event_id").unwrap_or_default();
            // The same id again is the same message.
            let path = format!("client/v3/rooms/{}/send/m.room.encrypted/lost-{}", part(room), part(id));
            self.api.put(&path, &content)
        });
        match told {
            Err(trouble) if trouble.is_passing() => Err(trouble),
            Err(trouble) => {
                log(&format!("the room {room} cannot be told: {trouble}"));
                Ok(())
            }
            Ok(_) => {
                if sealed.told.len() >= TOLD_MOST {
                    sealed.told.clear();
                }
                sealed.told.insert(room.to_owned(), now());
                Ok(())
            }
        }
    }
}
