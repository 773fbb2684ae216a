//! The way in: passes on one message after the other, and what was missed. The place up to which everything is stored is
//! kept by the daemon, in the commit of a message. After each gap the messages since then are read from Slack; messages
//! that come twice are recognised here by their chat and time, and by the daemon after a restart.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::program::hand::{Ended, Given, Hand};
use hearth_bridge::program::put_off::Ticket;
use hearth_bridge::program::state::seconds;
use hearth_bridge::program::{log, now};
use hearth_bridge::{Cursors, GivenFile, Place};
use serde_json::Value;

use super::api::{Api, Trouble};
use super::event::{self, Bot, Ts, Written, text};
use super::history::{Spot, next};
use super::people::People;
use super::sockets::Ack;
use super::text::NAMES_MAX;

/// How much earlier is read after a gap, in seconds: Slack keeps no order between chats.
const OVERLAP: u64 = 120;
/// Messages that are recognised when they come again.
const SEEN: usize = 10_000;
/// Threads that are followed.
const THREADS: usize = 2_000;
/// Wait before what could not be read is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// How often a file is tried, and the longest wait between.
const TRIES: u32 = 3;
const WAIT: Duration = Duration::from_secs(10);
/// Pages of chats.
const PAGES: usize = 20;

/// What the inbox has to handle.
pub(super) enum News {
    /// An event of Slack.
    Event(Value, Ack),
    /// Something may have been missed.
    Gap,
    /// Every message of a thread is wanted.
    Subscribe(Place),
}

/// What has to be read because it may have been missed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Missed {
    /// The chats where the bot is.
    Chats,
    Spot(Spot),
}

/// How far everything is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    /// The newest message.
    at: Ts,
    /// What is older was there before the channel.
    from: Ts,
}

impl Read {
    pub(super) fn of(cursors: &Cursors) -> Option<Self> {
        let ts = |name: &str| cursors.get(name).and_then(|ts| Ts::read(ts));
        Some(Self { at: ts("at")?, from: ts("from")? })
    }

    fn cursors(self) -> Cursors {
        let texts = [("at", self.at), ("from", self.from)];
        texts.into_iter().map(|(name, ts)| (name.to_owned(), ts.to_string())).collect()
    }

    /// From where on is read after a gap.
    fn begin(self) -> Ts {
        self.at.minus(OVERLAP).max(self.from)
    }
}

/// Messages that were passed on, the newest of them.
#[derive(Default)]
struct Seen {
    known: BTreeSet<(String, Ts)>,
    order: VecDeque<(String, Ts)>,
}

impl Seen {
    fn has(&self, written: &Written) -> bool {
        self.known.contains(&(written.chat.clone(), written.ts))
    }

    fn add(&mut self, written: &Written) {
        let key = (written.chat.clone(), written.ts);
        if self.known.insert(key.clone()) {
            self.order.push_back(key);
        }
        if self.order.len() > SEEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

pub(super) struct Inbox {
    pub(super) api: Api,
    pub(super) bot: Bot,
    pub(super) people: People,
    pub(super) hand: Hand,
    pub(super) files: PathBuf,
    pub(super) news: Receiver<News>,
    pub(super) read: Option<Read>,
    pub(super) rest: Rest,
}

/// What the inbox knows besides.
#[derive(Default)]
pub(super) struct Rest {
    seen: Seen,
    threads: BTreeSet<Spot>,
    missed: VecDeque<Missed>,
    /// When what was missed is read on.
    due: Duration,
    /// The newest message that was passed on.
    newest: Option<Ts>,
    /// Messages that were put off, and their acknowledgements.
    waits: BTreeMap<(String, Ts), Ticket>,
    acks: BTreeMap<Ticket, Vec<Ack>>,
}

impl Inbox {
    /// Reads until the main loop ends.
    pub(super) fn work(mut self) {
        if self.read.is_none() {
            // What was there before the channel is not for an agent.
            let begin = Ts::at(seconds());
            let read = Read { at: begin, from: begin };
            if self.hand.store(read.cursors()).is_err() {
                return;
            }
            self.read = Some(read);
        }
        while self.step().is_ok() {}
    }

    fn step(&mut self) -> Result<(), Ended> {
        for ticket in self.hand.again()? {
            self.rest.waits.retain(|_, waits| *waits != ticket);
            self.rest.acks.remove(&ticket).into_iter().flatten().for_each(Ack::done);
        }
        let news = match self.news.try_recv() {
            Ok(news) => news,
            Err(TryRecvError::Disconnected) => return Err(Ended),
            Err(TryRecvError::Empty) if !self.rest.missed.is_empty() => {
                let wait = self.rest.due.saturating_sub(now());
                if wait.is_zero() {
                    return self.read_missed();
                }
                match self.news.recv_timeout(self.hand.wait().unwrap_or(wait).min(wait)) {
                    Ok(news) => news,
                    Err(RecvTimeoutError::Timeout) => return Ok(()),
                    Err(RecvTimeoutError::Disconnected) => return Err(Ended),
                }
            }
            Err(TryRecvError::Empty) => {
                // Nothing is missing before what came.
                self.store()?;
                let Some(news) = self.hand.next(&self.news)? else { return Ok(()) };
                news
            }
        };
        match news {
            News::Event(payload, ack) => match self.event(&payload)? {
                Given::Over => ack.done(),
                Given::Waits(ticket) => self.rest.acks.entry(ticket).or_default().push(ack),
            },
            News::Gap => self.miss(Missed::Chats),
            News::Subscribe(place) => {
                let thread = place.thread_id.as_deref().and_then(Ts::read);
                if let Some(thread) = thread.filter(|_| event::is_chat(&place.platform_id)) {
                    self.follow(Spot { chat: place.platform_id, thread: Some(thread) });
                }
            }
        }
        Ok(())
    }

    fn miss(&mut self, missed: Missed) {
        if !self.rest.missed.contains(&missed) {
            self.rest.missed.push_back(missed);
        }
    }

    fn follow(&mut self, thread: Spot) {
        if self.rest.threads.len() < THREADS && self.rest.threads.insert(thread.clone()) {
            self.miss(Missed::Spot(thread));
        }
    }

    fn store(&mut self) -> Result<(), Ended> {
        let Some(read) = self.read else { return Ok(()) };
        let newest = self.rest.newest.take().filter(|newest| *newest > read.at);
        if let Some(at) = newest {
            let read = Read { at, ..read };
            self.hand.store(read.cursors())?;
            self.read = Some(read);
        }
        Ok(())
    }

    /// Handles an event.
    fn event(&mut self, payload: &Value) -> Result<Given, Ended> {
        let Some(message) = payload.get("event") else { return Ok(Given::Over) };
        let Some(written) = text(message, "/channel").and_then(|chat| event::read(message, chat, &self.bot)) else {
            return Ok(Given::Over);
        };
        // What was missed there comes first.
        let before = [None, written.thread].map(|thread| Missed::Spot(Spot { chat: written.chat.clone(), thread }));
        for missed in before {
            if let Some(number) = self.rest.missed.iter().position(|other| *other == missed)
                && now() >= self.rest.due
            {
                self.rest.missed.remove(number);
                self.rest.missed.push_front(missed);
                self.read_missed()?;
            }
        }
        self.pass_on(&written, true)
    }

    /// Reads one thing that may have been missed.
    fn read_missed(&mut self) -> Result<(), Ended> {
        let Some(missed) = self.rest.missed.front().cloned() else { return Ok(()) };
        let done = match &missed {
            Missed::Chats => self.chats(),
            Missed::Spot(spot) => self.catch_up(spot)?,
        };
        match done {
            Ok(()) => self.rest.missed.retain(|other| *other != missed),
            Err(trouble) if trouble.is_passing() => {
                let pause = if let Trouble::Paused(pause) = trouble { pause } else { AGAIN };
                self.rest.due = now() + pause;
            }
            Err(trouble) => {
                self.rest.missed.retain(|other| *other != missed);
                if let Missed::Spot(spot) = missed {
                    log(&format!("what was missed in {} cannot be read: {trouble}", spot.chat));
                }
            }
        }
        Ok(())
    }

    /// Finds the chats where something may have been missed.
    fn chats(&mut self) -> Result<(), Trouble> {
        let mut found = Vec::new();
        for kind in ["im", "public_channel", "private_channel", "mpim"] {
            let mut cursor = None;
            for _ in 0..PAGES {
                let mut arguments = vec![("types", kind), ("limit", "200"), ("exclude_archived", "true")];
                arguments.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
                let page = match self.api.get("users.conversations", &arguments) {
                    Err(trouble) if !trouble.is_passing() => {
                        log(&format!("what was missed in chats of the kind {kind} cannot be read: {trouble}"));
                        break;
                    }
                    other => other?,
                };
                let ids = page.get("channels").and_then(Value::as_array).into_iter().flatten();
                found.extend(
                    ids.filter_map(|chat| text(chat, "/id")).filter(|id| event::is_chat(id)).map(str::to_owned),
                );
                cursor = next(&page);
                if cursor.is_none() {
                    break;
                }
            }
        }
        found.into_iter().for_each(|chat| self.miss(Missed::Spot(Spot { chat, thread: None })));
        let threads: Vec<Spot> = self.rest.threads.iter().cloned().collect();
        threads.into_iter().for_each(|thread| self.miss(Missed::Spot(thread)));
        Ok(())
    }

    /// Passes on what was missed in a chat or thread.
    fn catch_up(&mut self, spot: &Spot) -> Result<Result<(), Trouble>, Ended> {
        let Some(begin) = self.read.map(Read::begin) else { return Ok(Ok(())) };
        let mut messages = match spot.since(&self.api, begin) {
            Ok(messages) => messages,
            Err(trouble) => return Ok(Err(trouble)),
        };
        if let Some(arrival) = messages.iter().rposition(|message| event::is_arrival(message, &self.bot)) {
            messages.drain(..=arrival);
        }
        for message in &messages {
            if let Some(written) = event::read(message, &spot.chat, &self.bot) {
                let (Given::Over | Given::Waits(_)) = self.pass_on(&written, false)?;
            }
            // A chat shows the beginnings of threads only.
            let root = text(message, "/ts").and_then(Ts::read).filter(|_| spot.thread.is_none());
            if root.is_some() && text(message, "/latest_reply").is_some() {
                self.miss(Missed::Spot(Spot { chat: spot.chat.clone(), thread: root }));
            }
        }
        Ok(Ok(()))
    }

    /// Passes on a message, unless that was done. With one that just came the place moves on, if nothing is missing.
    fn pass_on(&mut self, written: &Written, is_new: bool) -> Result<Given, Ended> {
        let key = (written.chat.clone(), written.ts);
        if self.rest.seen.has(written) {
            return Ok(self.rest.waits.get(&key).map_or(Given::Over, |ticket| Given::Waits(*ticket)));
        }
        let names = self.names(written);
        let mut event = event::event(written, &self.bot, &|id| names.get(id).cloned());
        if !written.files.is_empty() {
            let is_wanted = self.hand.is_wanted(&event)?;
            event.files = self.fetched(written, is_wanted);
        }
        let next = self.read.filter(|read| is_new && self.rest.missed.is_empty() && written.ts > read.at);
        let next = next.map(|read| Read { at: written.ts, ..read });
        let given = self.hand.give(event, next.map(Read::cursors).unwrap_or_default())?;
        if let Given::Waits(ticket) = given {
            self.rest.waits.insert(key, ticket);
        }
        self.read = next.or(self.read);
        self.rest.newest = self.rest.newest.max(Some(written.ts));
        self.rest.seen.add(written);
        Ok(given)
    }

    /// The names of the sender and of the people in a text.
    fn names(&mut self, written: &Written) -> BTreeMap<String, String> {
        let mentioned = super::text::people(&written.text).take(NAMES_MAX);
        let ids: BTreeSet<&str> =
            mentioned.chain([written.sender.as_str()]).filter(|id| *id != self.bot.user).collect();
        ids.into_iter().filter_map(|id| Some((id.to_owned(), self.people.name(id)?))).collect()
    }

    /// Fetches the files of a message, if they are wanted.
    fn fetched(&self, written: &Written, is_wanted: bool) -> Vec<GivenFile> {
        let mut given = Vec::new();
        for (number, file) in written.files.iter().enumerate() {
            let name = format!("in-{}-{number}", self.hand.number());
            let to = self.files.join(&name);
            let mut result = Err("it was not fetched".to_owned());
            for tried in 1..=TRIES {
                if !is_wanted {
                    break;
                }
                match file.fetch(&self.api, &to) {
                    Ok(done) => {
                        result = done.map(|()| name.clone());
                        break;
                    }
                    Err(trouble) => {
                        drop(std::fs::remove_file(&to));
                        let pause = if let Trouble::Paused(pause) = trouble { pause } else { Duration::from_secs(1) };
                        result = Err(trouble.to_string());
                        if tried < TRIES {
                            sleep(pause.min(WAIT));
                        }
                    }
                }
            }
            let (path, error) = match result {
                Ok(path) => (Some(path), None),
                Err(why) => (None, Some(why)),
            };
            given.push(GivenFile { name: file.name.clone(), mime: file.mime.clone(), path, error });
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_stored_and_begin_earlier() {
        let ts = |text: &str| Ts::read(text).unwrap();
        let read = Read { at: ts("1000.000005"), from: ts("900.000000") };
        assert_eq!(Read::of(&read.cursors()), Some(read));
        assert_eq!(Read::of(&Cursors::new()), None);
        assert_eq!(read.begin(), ts("900.000000"));
        assert_eq!(Read { at: ts("2000.000005"), ..read }.begin(), ts("1880.000005"));
    }
}
