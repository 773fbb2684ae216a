//! The way in: asks the server for what is new and passes on one message after the other. The place in what the server
//! tells is stored with the last message of each of its answers; if the bridge dies before, the answer comes again, and the
//! daemon recognises the messages that it has.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::hand::{Ended, Given, Hand};
use hearth_bridge::program::log;
use hearth_bridge::program::now;
use hearth_bridge::program::put_off::Ticket;
use hearth_bridge::program::settings::part;
use hearth_bridge::program::state::{Side, State, seconds};
use hearth_bridge::{Cursors, GivenFile};
use serde_json::{Value, json};

use crate::api::{Api, Trouble};
use crate::crypto::{Crypto, News, Verifying};
use crate::directs::Directs;
use crate::event::{self, Around, Bot, Written, text};
use crate::invites::Invites;
use crate::noticed::{NO_KEYS, Noticed};
use crate::parked::ParkedMessages;
use crate::rooms::Rooms;
use crate::signs::Signs;
use crate::waiting::{Passed, Seen};

/// How long the server waits for something new.
const POLL: Duration = Duration::from_secs(30);
/// How long an answer takes besides. A server that says nothing for the sum of both is left.
const GRACE: Duration = Duration::from_secs(25);
/// Waits before the server is tried again.
const RECONNECT_FIRST: Duration = Duration::from_secs(1);
const RECONNECT_MAX: Duration = Duration::from_secs(30);
/// Wait if the server refuses the token.
const REFUSED: Duration = Duration::from_secs(60);
/// How often a place without a message is stored.
const STORE: Duration = Duration::from_secs(30);
/// Messages that the server puts into one answer; the others are asked for.
const BATCH: usize = 50;
/// Questions for what is between two answers.
const PAGES: usize = 50;
/// How much earlier is searched after the server has lost its place, in milliseconds.
const OVERLAP: i64 = 10 * 60 * 1_000;
/// How often a file is tried.
const TRIES: u32 = 3;

/// How far the bridge has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The server's name for it.
    pub(crate) since: String,
    /// When the newest message before it was sent, in milliseconds since 1970.
    pub(crate) at: i64,
}

impl Place {
    pub(crate) fn of(cursors: &Cursors) -> Option<Self> {
        let since = cursors.get("since")?.clone();
        Some(Self { since, at: cursors.get("at").and_then(|at| at.parse().ok()).unwrap_or_default() })
    }

    fn cursors(&self) -> Cursors {
        Cursors::from([("since".to_owned(), self.since.clone()), ("at".to_owned(), self.at.to_string())])
    }
}

/// Why a session ended.
pub(crate) enum Over {
    Trouble(Trouble),
    Ended,
}

impl From<Trouble> for Over {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<Ended> for Over {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

pub(crate) struct Inbox {
    pub(crate) api: Api,
    pub(crate) bot: Bot,
    pub(crate) state: State,
    pub(crate) rooms: Rooms,
    pub(crate) directs: Directs,
    pub(crate) invites: Invites,
    pub(crate) noticed: Noticed,
    pub(crate) sealed: Option<Sealed>,
    pub(crate) signs: Signs,
    pub(crate) verifying: Verifying,
    pub(crate) hand: Hand,
    pub(crate) files: PathBuf,
    /// The daemon's limit for a file, in bytes.
    pub(crate) file_max: u64,
    pub(crate) place: Option<Place>,
    /// When a place was last stored.
    pub(crate) stored: Option<Duration>,
    /// Messages that were put off.
    pub(crate) waits: BTreeMap<Ticket, Seen>,
    /// Messages that were passed on.
    pub(crate) passed: Passed,
}

/// What is needed to read encrypted rooms.
pub(crate) struct Sealed {
    pub(crate) crypto: Crypto,
    pub(crate) parked: ParkedMessages,
    /// Seconds for which a message waits for its key.
    pub(crate) patience: i64,
    /// When a room was last told that something there cannot be read.
    pub(crate) told: BTreeMap<String, Duration>,
}

/// A message and the room where it is.
pub(crate) struct Found {
    pub(crate) room: String,
    pub(crate) written: Written,
}

impl Inbox {
    /// Reads until the main loop ends.
    pub(crate) fn work(mut self) {
        let mut wait = RECONNECT_FIRST;
        loop {
            let Err(over) = self.session(&mut wait) else { return };
            let Over::Trouble(trouble) = over else { return };
            self.state.fails(Side::Inbox, trouble.to_string());
            // Meanwhile anything may have changed.
            self.rooms.forget_all();
            match &trouble {
                Trouble::Paused(pause) => wait = *pause,
                trouble if trouble.is_token() => wait = REFUSED,
                _ => {}
            }
            sleep(wait);
            wait = (wait * 2).min(RECONNECT_MAX);
        }
    }

    fn session(&mut self, wait: &mut Duration) -> Result<(), Over> {
        // First, because what is written before the first place is not for an agent.
        let mut since = self.begin()?;
        if let Some(sealed) = &self.sealed {
            sealed.crypto.sign_device()?;
            sealed.crypto.distrust_lists()?;
        }
        let mut poll = Duration::ZERO;
        loop {
            self.again()?;
            let answer = match self.sync(Some(&since), self.hand.wait().unwrap_or(poll).min(poll)) {
                Err(Trouble::Refused { status: 400, why, .. }) => {
                    log(&format!("the server does not know the place where the bridge was: {why}"));
                    // It may not like the new one, either.
                    sleep(RECONNECT_FIRST);
                    since = self.search()?;
                    continue;
                }
                other => other?,
            };
            self.state.works(Side::Inbox);
            (*wait, poll) = (RECONNECT_FIRST, POLL);
            let Some(next) = text(&answer, "/next_batch").map(str::to_owned) else {
                return Err(Trouble::Lost("its answer has no `next_batch`".to_owned()).into());
            };
            self.batch(&answer, &since, &next)?;
            since = next;
        }
    }

    /// Asks what is new. What it says about keys is stored.
    fn sync(&self, since: Option<&str>, poll: Duration) -> Result<Value, Trouble> {
        // Servers keep the answer to a question without a place for minutes. The place in it would be an old one, so each is
        // another question.
        let (limit, other) = since.map_or_else(|| (1, now().subsec_micros()), |_| (BATCH, 0));
        let filter = json!({
            "room": {
                "timeline": { "limit": limit },
                "state": { "lazy_load_members": true },
                "ephemeral": { "types": [] },
                "account_data": { "types": [] },
            },
            "presence": { "types": [], "limit": 1 + other },
            "account_data": { "types": [] },
        });
        let place = since.map(|since| format!("&since={}", part(since))).unwrap_or_default();
        let path = format!("client/v3/sync?timeout={}&filter={}{place}", poll.as_millis(), part(&filter.to_string()));
        let mut answer = self.api.get_within(&path, poll + GRACE)?;
        if let (None, Some(fields)) = (since, answer.as_object_mut()) {
            // A server may have kept this answer nevertheless: how many keys are left is told by the next one.
            fields.remove("device_one_time_keys_count");
            fields.remove("device_unused_fallback_key_types");
        }
        if let Some(sealed) = &self.sealed {
            // Before the place after it is stored anywhere: keys are told once.
            for stranger in sealed.crypto.receive(&answer)? {
                self.verifying.tell(News::Stranger(stranger));
            }
            sealed.crypto.upkeep()?;
            self.verifying.tell(News::Step);
        }
        Ok(answer)
    }

    /// Finds the place from which to read on.
    fn begin(&mut self) -> Result<String, Over> {
        let answer = self.sync(None, Duration::ZERO)?;
        self.state.works(Side::Inbox);
        let Some(newest) = text(&answer, "/next_batch").map(str::to_owned) else {
            return Err(Trouble::Lost("its answer has no `next_batch`".to_owned()).into());
        };
        self.invites.answer(&answer)?;
        match &self.place {
            // A server from a backup answers a place from its lost future with nothing, and never says so.
            Some(place) if number(&place.since) > number(&newest) => {
                log("the server has lost what it told before: messages since then are compared");
                self.search()
            }
            Some(place) => Ok(place.since.clone()),
            // What was there before the channel is not for an agent.
            None => {
                let place = Place { since: newest.clone(), at: seconds().saturating_mul(1_000) };
                self.store(place)?;
                Ok(newest)
            }
        }
    }

    /// Passes on what was sent since the last message, in all rooms, when the server does not know the place any more. The
    /// daemon recognises the messages that it has. The new place.
    fn search(&mut self) -> Result<String, Over> {
        let answer = self.sync(None, Duration::ZERO)?;
        let Some(newest) = text(&answer, "/next_batch").map(str::to_owned) else {
            return Err(Trouble::Lost("its answer has no `next_batch`".to_owned()).into());
        };
        let since = self.place.as_ref().map_or(i64::MAX, |place| place.at.saturating_sub(OVERLAP));
        let mut found = Vec::new();
        let rooms = answer.pointer("/rooms/join").and_then(Value::as_object);
        for room in rooms.into_iter().flatten().map(|(room, _)| room) {
            let (events, _) = self.back(room, None, |event| event::at(event) < since)?;
            let mut events = self.since_arrival(events);
            events.retain(|event| event::at(event) >= since);
            found.extend(self.events(room, events)?);
        }
        self.pass_on(found, &newest)?;
        Ok(newest)
    }

    /// What is new in all rooms.
    fn batch(&mut self, answer: &Value, since: &str, next: &str) -> Result<(), Over> {
        self.invites.answer(answer)?;
        let mut found = self.unparked()?;
        let joined = answer.pointer("/rooms/join").and_then(Value::as_object);
        for (room, news) in joined.into_iter().flatten() {
            let state = news.pointer("/state/events").and_then(Value::as_array);
            self.learn(room, state.map(Vec::as_slice).unwrap_or_default())?;
            let events = news.pointer("/timeline/events").and_then(Value::as_array).cloned().unwrap_or_default();
            // Also state from before the bot joined.
            self.learn(room, &events)?;
            let events = self.whole(room, events, news, since)?;
            found.extend(self.events(room, events)?);
        }
        let left = answer.pointer("/rooms/leave").and_then(Value::as_object);
        for (room, _) in left.into_iter().flatten() {
            self.rooms.forget(room);
            log(&format!("the bot is not in {room} any more"));
        }
        self.pass_on(found, next)
    }

    /// The events of a room, with those between this answer and the last one. In a room that the bot has just joined, those
    /// since its invitation: what was said before was not for it.
    fn whole(&self, room: &str, events: Vec<Value>, news: &Value, since: &str) -> Result<Vec<Value>, Trouble> {
        let is_limited = news.pointer("/timeline/limited") == Some(&Value::Bool(true));
        let mut events = events;
        if is_limited && let Some(from) = text(news, "/timeline/prev_batch") {
            let (mut before, is_whole) = self.back(room, Some((from, since)), |event| self.is_arrival(event))?;
            if !is_whole {
                log(&format!("more than {} messages were missed in {room}: the oldest are left out", before.len()));
            }
            before.append(&mut events);
            events = before;
        }
        Ok(self.since_arrival(events))
    }

    fn since_arrival(&self, mut events: Vec<Value>) -> Vec<Value> {
        if let Some(arrival) = events.iter().position(|event| self.is_arrival(event)) {
            events.drain(..=arrival);
        }
        events
    }

    /// Whether the bot was invited or came.
    fn is_arrival(&self, event: &Value) -> bool {
        let is_own = text(event, "/type") == Some("m.room.member") && text(event, "/state_key") == Some(&self.bot.id);
        let before = text(event, "/unsigned/prev_content/membership");
        // A changed name is such an event, too.
        let is_new = !matches!((before, text(event, "/content/membership")), (Some("join"), Some("join")));
        is_own && is_new && matches!(text(event, "/content/membership"), Some("invite" | "join"))
    }

    /// Earlier events of a room in their order, from a place back to another, or until one ends the search; and whether all
    /// are there.
    fn back(
        &self,
        room: &str,
        between: Option<(&str, &str)>,
        ends: impl Fn(&Value) -> bool,
    ) -> Result<(Vec<Value>, bool), Trouble> {
        let (mut from, to) = match between {
            Some((from, to)) => (format!("&from={}", part(from)), format!("&to={}", part(to))),
            None => (String::new(), String::new()),
        };
        let (mut found, mut is_whole) = (Vec::new(), false);
        for _ in 0..PAGES {
            let path = format!("client/v3/rooms/{}/messages?dir=b&limit=100{from}{to}", part(room));
            let page = match self.api.get(&path) {
                // The bot is not there any more.
                Err(Trouble::Refused { status: 403 | 404, .. }) => break,
                other => other?,
            };
            let events = page.get("chunk").and_then(Value::as_array).cloned().unwrap_or_default();
            let is_end = events.iter().any(&ends);
            found.extend(events);
            match text(&page, "/end") {
                Some(end) if !is_end => from = format!("&from={}", part(end)),
                _ => {
                    is_whole = true;
                    break;
                }
            }
        }
        found.reverse();
        Ok((found, is_whole))
    }

    /// Learns what changed in a room.
    fn learn(&mut self, room: &str, events: &[Value]) -> Result<(), Trouble> {
        for event in events {
            match text(event, "/type") {
                Some("m.room.member") => self.rooms.forget_members(room),
                Some("m.room.encryption" | "m.room.encrypted") => {
                    self.rooms.encrypted(room);
                    if self.sealed.is_none() {
                        self.noticed.tell(&self.api, room, NO_KEYS)?;
                    }
                }
                Some("m.room.tombstone") => {
                    let next = text(event, "/content/replacement_room").unwrap_or("none");
                    log(&format!("the room {room} was replaced by {next}: invite the bot there, and add that chat"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The messages in events of a room.
    fn events(&mut self, room: &str, events: Vec<Value>) -> Result<Vec<Found>, Trouble> {
        self.learn(room, &events)?;
        let events = self.cleared(room, events)?;
        events.iter().try_for_each(|event| self.verify(room, event))?;
        let is_message = |event: &&Value| matches!(text(event, "/type"), Some("m.room.message" | "m.sticker"));
        let written = events.iter().filter(is_message).filter_map(|event| event::read(event, &self.bot));
        Ok(written.map(|written| Found { room: room.to_owned(), written }).collect())
    }

    /// Passes on the messages of an answer. The place after it is stored with the last one. Those that were passed on before a
    /// fault in the rest of the answer are left out.
    fn pass_on(&mut self, mut found: Vec<Found>, next: &str) -> Result<(), Over> {
        let at = self.place.as_ref().map(|place| place.at).unwrap_or_default();
        let at = found.iter().map(|found| found.written.at).fold(at, i64::max);
        let place = Place { since: next.to_owned(), at };
        let all = found.len();
        found.retain(|found| !self.passed.has(&found.written.id));
        let count = found.len();
        for (number, found) in found.into_iter().enumerate() {
            let is_last = number + 1 == count;
            let cursors = if is_last { place.cursors() } else { Cursors::new() };
            let given = self.pass_on_one(&found, cursors)?;
            self.passed.add(&found.written.id);
            if is_last {
                self.stored = Some(now());
                self.place = Some(place.clone());
            }
            let Found { room, written } = found;
            let seen = Seen { room, event: written.id, thread: written.thread };
            match given {
                Given::Over => self.finish(seen)?,
                Given::Waits(ticket) => drop(self.waits.insert(ticket, seen)),
            }
        }
        let is_due = count < all || self.stored.is_none_or(|stored| now().saturating_sub(stored) > STORE);
        if count == 0 && is_due && self.place.as_ref() != Some(&place) {
            self.store(place)?;
        }
        Ok(())
    }

    fn store(&mut self, place: Place) -> Result<(), Over> {
        self.hand.store(place.cursors())?;
        (self.stored, self.place) = (Some(now()), Some(place));
        Ok(())
    }

    fn pass_on_one(&mut self, Found { room, written }: &Found, cursors: Cursors) -> Result<Given, Over> {
        let members = match self.rooms.members(room) {
            Err(trouble) if trouble.is_passing() => return Err(trouble.into()),
            // The bot is not there any more.
            other => other.unwrap_or_default(),
        };
        let crypto = self.sealed.as_ref().map(|sealed| &sealed.crypto);
        let around = Around { api: &self.api, crypto, bot: &self.bot, members: &members };
        let answered = match &written.answers {
            Some(id) => event::answered(&around, room, id)?,
            None => None,
        };
        let is_direct = event::is_direct(written, &members);
        if is_direct {
            self.directs.learn(&written.sender, room);
        }
        let chat = if is_direct { &written.sender } else { room };
        let mut message = event::event(written, chat, &members, answered);
        if written.file.is_some() {
            let is_wanted = self.hand.is_wanted(&message)?;
            message.files = self.fetched(written, is_wanted)?;
        }
        Ok(self.hand.give(message, cursors)?)
    }

    /// Fetches the file of a message, if it is wanted.
    fn fetched(&mut self, written: &Written, is_wanted: bool) -> Result<Vec<GivenFile>, Trouble> {
        let Some(file) = &written.file else { return Ok(Vec::new()) };
        let name = format!("in-{}", self.hand.number());
        let result = match &file.place {
            _ if !is_wanted => Err("it was not fetched".to_owned()),
            Err(why) => Err(why.clone()),
            Ok(media) => {
                let mut tried = 0;
                loop {
                    tried += 1;
                    match media.fetch(&self.api, &self.files.join(&name), self.file_max) {
                        Ok(true) => break media.open(&self.files.join(&name)).map(|()| name),
                        Ok(false) => break Err(format!("it is larger than {} bytes", self.file_max)),
                        Err(trouble) if trouble.is_token() => return Err(trouble),
                        Err(trouble) if tried >= TRIES || !trouble.is_passing() => break Err(trouble.to_string()),
                        Err(Trouble::Paused(pause)) => sleep(pause.min(RECONNECT_MAX)),
                        Err(_) => sleep(RECONNECT_FIRST),
                    }
                }
            }
        };
        let (path, error) = match result {
            Ok(path) => (Some(path), None),
            Err(why) => (None, Some(why)),
        };
        Ok(vec![GivenFile { name: file.name.clone(), mime: file.mime.clone(), path, error }])
    }
}

/// The first number in a server's name for a place: where servers number what they tell, it grows.
fn number(since: &str) -> Option<u64> {
    let digits = since.trim_start_matches(|char: char| !char.is_ascii_digit());
    digits.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_numbered_and_stored() {
        assert_eq!(
            ["s72_10_3", "17", "x", "", "s99999999999999999999"].map(number),
            [Some(72), Some(17), None, None, None]
        );
        let place = Place { since: "s72_1".to_owned(), at: 5 };
        assert_eq!(Place::of(&place.cursors()), Some(place));
        assert_eq!(Place::of(&Cursors::new()), None);
    }
}
