//! The bridge `mqtt`: people and programs write to `hearth/<chat>/in`, agents to `hearth/<chat>/out`.
//!
//! A message is confirmed to the broker once Hearth has stored it; until then the broker sends it again, also after a
//! restart of either side. So no cursor is needed. What Hearth sends has an id, and what the broker has confirmed is
//! remembered on disk: a repeat is answered and not sent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::program::{Daemon, Delivered, now};
use crate::{
    Attempted, Capabilities, Choice, Deliver, DeliverAct, Event, Failed, FromBridge, Hello, Idempotency, Me, Opened,
    Outcome, PROTOCOL, Pong, Ready, Sender, Sent, ToBridge, Until,
};
use broker::{Broker, Refused};
use packet::Packet;

mod broker;
mod packet;

/// Longest wait of the loop.
const TICK: Duration = Duration::from_millis(500);
/// Waits before the broker is tried again.
const RECONNECT_FIRST: Duration = Duration::from_secs(1);
const RECONNECT_MAX: Duration = Duration::from_secs(30);
/// Largest text that is sent.
const TEXT_MAX: usize = 256 * 1024;

/// What the settings say.
struct Settings {
    server: String,
    user: Option<String>,
    prefix: String,
    client: String,
    /// The broker lets only one person write to each topic.
    topics_are_people: bool,
}

impl Settings {
    fn of(hello: &Hello) -> Result<Self, String> {
        let text = |name: &str| hello.settings.get(name).and_then(Value::as_str).map(str::to_owned);
        let server = text("server").unwrap_or_else(|| "127.0.0.1:1883".to_owned());
        let server = if server.contains(':') { server } else { format!("{server}:1883") };
        let prefix = text("prefix").unwrap_or_else(|| "hearth".to_owned());
        if prefix.is_empty() || prefix.contains(['+', '#', '/', '\0']) {
            return Err("`prefix` must be a name without `/`, `+` and `#`".to_owned());
        }
        let people = text("people").unwrap_or_default();
        if !matches!(people.as_str(), "" | "topics") {
            return Err("`people` can only be `topics`: the broker lets one person write to each topic".to_owned());
        }
        let client = text("client").unwrap_or_else(|| format!("hearth-{}", hello.channel));
        Ok(Self { server, user: text("user"), prefix, client, topics_are_people: people == "topics" })
    }
}

/// Runs the bridge until the daemon ends it or is gone.
///
/// # Errors
/// Faults of this machine.
pub fn run() -> io::Result<()> {
    let mut daemon = Daemon::inherited()?;
    let hello = daemon.hello()?;
    let failed =
        |why: String| FromBridge::Failed { failed: Failed { why, until: Some(Until::Word("changed".to_owned())) } };
    if !hello.protocol.contains(&PROTOCOL) {
        return daemon.send(&failed(format!("hearth-mqtt speaks protocol {PROTOCOL} only")));
    }
    let settings = match Settings::of(&hello) {
        Ok(settings) => settings,
        Err(why) => return daemon.send(&failed(why)),
    };
    let delivered = Delivered::open(Path::new("."))?;
    let password = hello.secrets.get("token").cloned();
    let broker = match Broker::connect(&settings, password.as_deref()) {
        Ok(broker) => Some(broker),
        Err(Refused::Credentials) => {
            return daemon.send(&failed("the broker does not accept the token or the user".to_owned()));
        }
        // It is tried again, and the state says so.
        Err(Refused::Other(_)) => None,
    };
    let capabilities = Capabilities {
        choice: Choice::Numbers,
        idempotency: Idempotency::Always,
        card_max: Some(64_000),
        ..Capabilities::default()
    };
    let me = Me { id: settings.client.clone(), name: None };
    let program = format!("hearth-mqtt {}", env!("CARGO_PKG_VERSION"));
    let ready = Ready { protocol: PROTOCOL, program, me: Some(me), capabilities };
    daemon.send(&FromBridge::Ready { ready: Box::new(ready) })?;
    let bridge = Bridge {
        daemon,
        settings,
        password,
        delivered,
        broker,
        down: None,
        heard: None,
        files: hello.files.clone(),
        seq: 0,
        incoming: BTreeMap::new(),
        outgoing: BTreeMap::new(),
        taking: true,
        next_try: Duration::ZERO,
        wait: RECONNECT_FIRST,
    };
    bridge.work()
}

/// A message of the broker that Hearth has not stored yet.
struct Incoming {
    /// Its packet, unless the broker gives no guarantee.
    packet: Option<u16>,
    event: Event,
    /// When it is passed on, if it waits: it was put off, or is behind another one.
    again: Option<Duration>,
}

/// The field of an event with its chat.
const CHAT: &str = "platformId";

struct Bridge {
    daemon: Daemon,
    settings: Settings,
    password: Option<String>,
    delivered: Delivered,
    broker: Option<Broker>,
    down: Option<String>,
    /// When the broker last said anything.
    heard: Option<String>,
    files: String,
    seq: u64,
    incoming: BTreeMap<u64, Incoming>,
    /// Deliveries that the broker has not confirmed, by packet.
    outgoing: BTreeMap<u16, Deliver>,
    taking: bool,
    next_try: Duration,
    wait: Duration,
}

impl Bridge {
    fn work(mut self) -> io::Result<()> {
        loop {
            self.keep_connected();
            let (from_daemon, from_broker) = self.wait()?;
            if from_daemon {
                match self.daemon.read() {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            while let Some(frame) = self.daemon.frame() {
                if matches!(frame, ToBridge::ShutDown { .. }) {
                    self.broker.iter_mut().for_each(Broker::disconnect);
                    return Ok(());
                }
                self.frame(frame)?;
            }
            if from_broker {
                self.receive()?;
            }
            self.pass_on_again()?;
        }
    }

    /// Waits until one of the sockets has something, or some time is over.
    fn wait(&self) -> io::Result<(bool, bool)> {
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
        let mut fds = vec![PollFd::new(&self.daemon, PollFlags::IN)];
        fds.extend(self.broker.iter().map(|broker| PollFd::from_borrowed_fd(broker.as_fd(), PollFlags::IN)));
        match poll(&mut fds, Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut there = fds.iter().map(|fd| !fd.revents().is_empty());
        Ok((there.next().unwrap_or(false), there.next().unwrap_or(false)))
    }

    /// Connects again after a while, and notices a broker that says nothing any more.
    fn keep_connected(&mut self) {
        if let Some(broker) = &mut self.broker {
            if let Err(why) = broker.keep_alive() {
                self.lose(why);
            }
            return;
        }
        if now() < self.next_try {
            return;
        }
        match Broker::connect(&self.settings, self.password.as_deref()) {
            Ok(broker) => {
                (self.broker, self.down, self.wait) = (Some(broker), None, RECONNECT_FIRST);
            }
            Err(refused) => {
                self.down = Some(refused.to_string());
                self.next_try = now() + self.wait;
                self.wait = (self.wait * 2).min(RECONNECT_MAX);
            }
        }
    }

    /// The connection is gone. What was not confirmed may have arrived.
    fn lose(&mut self, why: String) {
        self.broker = None;
        // The broker sends what was not confirmed again.
        self.incoming.clear();
        for deliver in std::mem::take(&mut self.outgoing).into_values() {
            let outcome = outcome(&deliver, Sent::Uncertain, Some(why.clone()));
            // The daemon's end is noticed when it is read.
            drop(self.daemon.send(&outcome));
        }
        self.down = Some(why);
        self.next_try = now() + self.wait;
    }

    fn frame(&mut self, frame: ToBridge) -> io::Result<()> {
        match frame {
            ToBridge::Deliver { deliver } => self.deliver(*deliver),
            ToBridge::Taken { taken: seq, .. } | ToBridge::Refused { refused: seq, .. } => {
                let packet = self.incoming.remove(&seq).and_then(|incoming| incoming.packet);
                self.acknowledge(packet);
                Ok(())
            }
            ToBridge::Later { later, after, .. } => {
                if let Some(incoming) = self.incoming.get_mut(&later) {
                    incoming.again = Some(now() + Duration::from_secs(after.min(60)));
                }
                Ok(())
            }
            ToBridge::Ping { ping } => {
                let rest = Pong { heard: self.heard.clone(), down: self.down.clone() };
                self.daemon.send(&FromBridge::Pong { pong: ping, rest })
            }
            ToBridge::OpenDirect { open_direct, seq } => {
                let opened = Opened { seq, platform_id: Some(open_direct.user_id), why: None };
                self.daemon.send(&FromBridge::Opened { opened })
            }
            ToBridge::StopTaking { .. } => {
                self.taking = false;
                Ok(())
            }
            ToBridge::Hello { .. }
            | ToBridge::Wanted { .. }
            | ToBridge::Pressed { .. }
            | ToBridge::Typing { .. }
            | ToBridge::Subscribe { .. }
            | ToBridge::ShutDown { .. } => Ok(()),
        }
    }

    fn write(&mut self, packet: &[u8]) {
        if let Some(broker) = &mut self.broker
            && let Err(error) = broker.write(packet)
        {
            self.lose(format!("the connection to the broker was lost: {error}"));
        }
    }

    fn acknowledge(&mut self, packet: Option<u16>) {
        if let Some(id) = packet {
            self.write(&packet::acknowledged(id));
        }
    }

    fn deliver(&mut self, deliver: Deliver) -> io::Result<()> {
        if let Some(known) = self.delivered.get(&deliver.id) {
            let known = known.to_owned();
            self.remove_files(&deliver);
            return self.daemon.send(&done(&deliver, known));
        }
        if let Some(known) = self.outgoing.values_mut().find(|known| known.id == deliver.id) {
            // The same one, under way: its outcome is for the newest attempt.
            known.attempt = deliver.attempt;
            return Ok(());
        }
        let text = match shown(&deliver) {
            Ok(text) => text,
            Err(why) => {
                self.remove_files(&deliver);
                return self.daemon.send(&outcome(&deliver, Sent::Rejected, Some(why)));
            }
        };
        let topic = match topic(&self.settings.prefix, &deliver.platform_id) {
            Ok(topic) => topic,
            Err(why) => return self.daemon.send(&outcome(&deliver, Sent::Rejected, Some(why))),
        };
        let Some(broker) = &mut self.broker else {
            let why = self.down.clone().unwrap_or_else(|| "the broker is not connected".to_owned());
            return self.daemon.send(&outcome(&deliver, Sent::Retry, Some(why)));
        };
        let Some(id) = broker.free(|id| self.outgoing.contains_key(&id)) else {
            return self.daemon.send(&outcome(
                &deliver,
                Sent::Retry,
                Some("too many messages are under way".to_owned()),
            ));
        };
        let payload = payload(&deliver, &text);
        self.remove_files(&deliver);
        let begun = Attempted { id: deliver.id.clone(), attempt: deliver.attempt };
        self.daemon.send(&FromBridge::Begun { begun })?;
        self.outgoing.insert(id, deliver);
        self.write(&packet::published(&packet::Message {
            topic: &topic,
            payload: payload.as_bytes(),
            id,
            retain: false,
        }));
        Ok(())
    }

    /// This network has no files: they are only mentioned.
    fn remove_files(&self, deliver: &Deliver) {
        for path in deliver.files.iter().filter_map(|file| file.path.as_deref()) {
            // Hearth names files, and never paths.
            if !path.contains('/') {
                drop(std::fs::remove_file(Path::new(&self.files).join(path)));
            }
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let Some(broker) = &mut self.broker else { return Ok(()) };
        let packets = match broker.read() {
            Ok(packets) => packets,
            Err(why) => {
                self.lose(why);
                return Ok(());
            }
        };
        self.heard = Some(time_text());
        for packet in packets {
            match packet {
                Packet::Publish { topic, payload, id, retained } => self.published(&topic, &payload, id, retained)?,
                Packet::PubAck(id) => {
                    if let Some(deliver) = self.outgoing.remove(&id) {
                        let message = deliver.id.clone();
                        // On disk before the daemon hears of it.
                        self.delivered.add(&deliver.id, &message)?;
                        self.daemon.send(&done(&deliver, message))?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A message of a person. What is kept by the broker for everybody who comes is not one.
    fn published(&mut self, topic: &str, payload: &[u8], packet: Option<u16>, retained: bool) -> io::Result<()> {
        let chat = topic.strip_prefix(&self.settings.prefix).and_then(|rest| rest.strip_prefix('/'));
        let chat =
            chat.and_then(|rest| rest.strip_suffix("/in")).filter(|chat| !chat.is_empty() && !chat.contains('/'));
        let event = chat.filter(|_| !retained).and_then(|chat| event(chat, payload, self.settings.topics_are_people));
        let Some(event) = event else {
            self.acknowledge(packet);
            return Ok(());
        };
        // Sent again while Hearth still has it.
        if !self.taking || packet.is_some() && self.incoming.values().any(|known| known.packet == packet) {
            return Ok(());
        }
        self.seq += 1;
        // One of the same chat may be put off, and would come after this one.
        let is_behind = self.incoming.values().any(|known| known.event.rest.get(CHAT) == event.rest.get(CHAT));
        let again = (is_behind || self.incoming.len() >= crate::UNACKED_MAX).then(now);
        self.incoming.insert(self.seq, Incoming { packet, event, again });
        if again.is_none() { self.pass_on(self.seq) } else { Ok(()) }
    }

    fn pass_on(&mut self, seq: u64) -> io::Result<()> {
        let Some(incoming) = self.incoming.get_mut(&seq) else { return Ok(()) };
        incoming.again = None;
        let event = incoming.event.clone();
        self.daemon.send(&FromBridge::Event { event, seq, cursors: crate::Cursors::new() })
    }

    /// Passes on what waits: the first one of each chat, as far as there is room.
    fn pass_on_again(&mut self) -> io::Result<()> {
        let waiting = self.incoming.values().filter(|incoming| incoming.again.is_none()).count();
        let room = crate::UNACKED_MAX.saturating_sub(waiting);
        let moment = now();
        let mut chats = BTreeSet::new();
        let first = self
            .incoming
            .iter()
            .filter(|(_, incoming)| chats.insert(incoming.event.rest.get(CHAT).and_then(serde_json::Value::as_str)));
        let due = first.filter(|(_, incoming)| incoming.again.is_some_and(|again| again <= moment));
        let due: Vec<u64> = due.map(|(seq, _)| *seq).take(room).collect();
        due.into_iter().try_for_each(|seq| self.pass_on(seq))
    }
}

fn outcome(deliver: &Deliver, result: Sent, why: Option<String>) -> FromBridge {
    let (id, attempt) = (deliver.id.clone(), deliver.attempt);
    FromBridge::Outcome { outcome: Outcome { id, attempt, result, message_id: None, why, after: None } }
}

fn done(deliver: &Deliver, message: String) -> FromBridge {
    let (id, attempt) = (deliver.id.clone(), deliver.attempt);
    let result = Sent::Delivered;
    FromBridge::Outcome { outcome: Outcome { id, attempt, result, message_id: Some(message), why: None, after: None } }
}

/// The text of a delivery, or why it cannot be sent.
fn shown(deliver: &Deliver) -> Result<String, String> {
    let mut text = match (deliver.act, &deliver.card) {
        (DeliverAct::Say, _) => deliver.text.clone(),
        (DeliverAct::Ask, Some(card)) => {
            let mut text = format!("{}\n{}", card.title, card.body);
            for (number, option) in card.options.iter().enumerate() {
                text.push_str(&format!("\n{}. {}", number + 1, option.label));
            }
            text
        }
        (DeliverAct::Ask, None) => return Err("the card is missing".to_owned()),
        (DeliverAct::Edit | DeliverAct::React, _) => return Err("MQTT cannot change messages".to_owned()),
    };
    for file in &deliver.files {
        let why = file.error.clone().unwrap_or_else(|| "MQTT has no files".to_owned());
        text.push_str(&format!("\n(file {} not sent: {why})", file.name));
    }
    if text.len() > TEXT_MAX { Err(format!("it is longer than {TEXT_MAX} bytes")) } else { Ok(text) }
}

fn payload(deliver: &Deliver, text: &str) -> String {
    json!({ "id": deliver.id, "text": text, "speaker": deliver.speaker, "repeated": deliver.repeated }).to_string()
}

/// The topic to which an agent writes in a chat.
fn topic(prefix: &str, chat: &str) -> Result<String, String> {
    if chat.is_empty() || chat.len() > 1_024 || chat.contains(['/', '+', '#', '\0']) {
        return Err("this chat cannot be a topic".to_owned());
    }
    Ok(format!("{prefix}/{chat}/out"))
}

/// Parses a payload: an object with `text` and an `id` for deduplication, or plain text, which is never deduplicated.
fn event(chat: &str, payload: &[u8], is_person: bool) -> Option<Event> {
    let text = std::str::from_utf8(payload).ok()?;
    let (id, text) = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) => {
            let word = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
            (word("id").filter(|id| !id.is_empty()), word("text")?)
        }
        _ => (None, text.to_owned()),
    };
    let id = id.map_or_else(unnamed, |id| format!("i:{id}"));
    let message = json!({ "id": id, "isMention": true, "content": { "text": text } });
    let rest = [("platformId", json!(chat)), ("message", message)];
    Some(Event {
        sender: Some(Sender { id: chat.to_owned(), name: None, verified: is_person }),
        files: Vec::new(),
        rest: rest.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    })
}

/// An id for a message without one.
fn unnamed() -> String {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    format!("t:{}.{:09}", now.tv_sec, now.tv_nsec)
}

/// The time in the form of the protocol.
fn time_text() -> String {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let (days, second) = (now.tv_sec.div_euclid(86_400), now.tv_sec.rem_euclid(86_400));
    // Civil date from days since 1970, after Howard Hinnant.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_become_messages_of_the_topic_and_of_nobody_else() {
        for (payload, expected) in [
            (r#"{"id":"7","text":"hi","sender":"owner"}"#, Some(("i:7", "hi"))),
            ("plain", Some(("t:", "plain"))),
            (r#"{"id":"7"}"#, None),
            ("42", Some(("t:", "42"))),
        ] {
            let found = event("ann", payload.as_bytes(), true);
            assert_eq!(found.is_some(), expected.is_some(), "{payload}");
            if let (Some(event), Some((id, text))) = (found, expected) {
                let message = &event.rest["message"];
                assert!(message["id"].as_str().unwrap().starts_with(id));
                assert_eq!(message["content"], json!({ "text": text }));
                assert_eq!(event.sender.map(|sender| sender.id).as_deref(), Some("ann"));
            }
        }
        assert!(event("ann", b"\xff", true).is_none());
        assert!(!event("ann", b"x", false).unwrap().sender.unwrap().verified);
    }

    #[test]
    fn chats_are_single_levels_of_topics() {
        assert_eq!(topic("hearth", "ann").unwrap(), "hearth/ann/out");
        for chat in ["", "a/b", "+", "#", "a\0"] {
            assert!(topic("hearth", chat).is_err(), "{chat:?}");
        }
    }

    #[test]
    fn times_are_written_as_the_protocol_wants() {
        let text = time_text();
        assert!(text.len() == 20 && text.starts_with("20") && text.ends_with('Z'), "{text}");
    }
}
