//! The way in: passes on one message after the other, in the order in which the gateway tells them. The daemon stores the
//! number of the event and the last message of the channel with each. When a session could not go on, every channel with
//! newer messages is read from its last one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use hearth_bridge::Cursors;
use hearth_bridge::program::hand::{Ended, Given, Hand};
use hearth_bridge::program::state::{Side, State, time_text};
use hearth_bridge::program::{log, now};

use super::channels::{Channel, Channels, Place};
use super::files::Files;
use super::message::{Message, User};
use super::news::{Guild, News, What};
use super::places::Places;
use super::rest::{Rest, Trouble};
use super::snowflake::Snowflake;

/// How often places without a message are stored.
const STORE: Duration = Duration::from_secs(20);
/// How long the descriptions of servers are waited for; one that is out of order has none.
const SETTLED: Duration = Duration::from_secs(60);
/// How often is looked whether something is to be stored.
const LOOK: Duration = Duration::from_secs(1);
/// Messages that Discord puts into one answer.
const PAGE: usize = 100;
/// Answers for what was missed in a channel.
const PAGES: usize = 100;
/// Direct chats that are read on after a session that could not go on.
const DIRECTS: usize = 300;
/// Waits before Discord is asked again.
const AGAIN: Duration = Duration::from_secs(2);
const AGAIN_MAX: Duration = Duration::from_secs(60);

/// What a thread learns that opens direct chats, and the inbox stores.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Places>>);

impl Shared {
    pub(crate) fn new(places: Places) -> Self {
        Self(Arc::new(Mutex::new(places)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Inbox {
    pub(crate) rest: Rest,
    pub(crate) me: User,
    pub(crate) state: State,
    pub(crate) channels: Channels,
    pub(crate) places: Shared,
    pub(crate) hand: Hand,
    pub(crate) news: Receiver<News>,
    pub(crate) files: PathBuf,
    /// The daemon's limit for a file, in bytes.
    pub(crate) file_max: u64,
    /// Servers of this session that were not described yet: what was missed there is not known.
    pub(crate) pending: BTreeSet<Snowflake>,
    /// When the session began.
    pub(crate) began: Duration,
    /// The number of the last event, if it is not stored.
    pub(crate) passed: Option<u64>,
    pub(crate) stored: Duration,
}

impl Inbox {
    /// Passes on until the main loop ends.
    pub(crate) fn work(mut self) {
        loop {
            let done = match self.news.recv_timeout(self.hand.wait().unwrap_or(LOOK).min(LOOK)) {
                Ok(news) => self.handle(news),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if done.and_then(|()| self.hand.again()).and_then(|_| self.store_passed()).is_err() {
                return;
            }
        }
    }

    fn handle(&mut self, News { seq, what }: News) -> Result<(), Ended> {
        match what {
            What::Ready { session, guilds } => {
                (self.pending, self.began) = (guilds.into_iter().collect(), now());
                self.places.lock().session = None;
                self.directs()?;
                self.places.lock().session = session;
                let cursors = self.general(seq);
                self.store(cursors)?;
            }
            What::Guild(guild) => self.guild(seq, &guild)?,
            What::Channel(channel) => self.channels.learn(&channel),
            What::Message(message) => return self.live(seq, &message),
            What::Passed => {}
        }
        self.passed = Some(seq);
        Ok(())
    }

    /// Stores now and then how far the session is.
    fn store_passed(&mut self) -> Result<(), Ended> {
        let is_due = now().saturating_sub(self.stored) > STORE;
        let Some(seq) = self.passed.take_if(|_| is_due) else { return Ok(()) };
        let cursors = self.general(seq);
        self.store(cursors)
    }

    fn store(&mut self, cursors: Cursors) -> Result<(), Ended> {
        self.stored = now();
        self.hand.store(cursors)
    }

    fn general(&self, seq: u64) -> Cursors {
        let mut places = self.places.lock();
        if let Some(session) = &mut places.session {
            session.seq = session.seq.max(seq);
        }
        // Until it is known what was missed, a bridge that dies has to begin a session anew.
        let is_settled = self.pending.is_empty() || now().saturating_sub(self.began) > SETTLED;
        places.general(is_settled)
    }

    /// A message that was just written.
    fn live(&mut self, seq: u64, message: &Message) -> Result<(), Ended> {
        if self.pending.is_empty() {
            let mut places = self.places.lock();
            places.at = places.at.max(message.id);
        }
        let cursors = self.general(seq);
        if self.pass_on(message, message.guild_id.is_none(), cursors)? {
            self.passed = None;
        } else {
            self.passed = Some(seq);
        }
        Ok(())
    }

    /// Passes on a message with the places after it. `false` if it is none for an agent.
    fn pass_on(&mut self, message: &Message, is_direct: bool, general: Cursors) -> Result<bool, Ended> {
        if !message.is_of_a_person() {
            return Ok(false);
        }
        let place = match is_direct {
            true => Place::Direct(message.channel_id),
            false => self
                .patiently(|inbox| inbox.channels.place(message.channel_id))?
                .unwrap_or(Place::Group(message.channel_id)),
        };
        let Some(mut event) = message.event(place, &self.me) else { return Ok(false) };
        if !message.files().is_empty() {
            let is_wanted = self.hand.is_wanted(&event)?;
            let number = self.hand.number();
            let files = Files { rest: &self.rest, directory: &self.files, number, max: self.file_max };
            event.files = files.fetch(message, is_wanted);
        }
        let mut cursors = general;
        {
            let mut places = self.places.lock();
            places.pass(message.channel_id, message.id, place.is_direct());
            cursors.extend(places.share(message.channel_id));
        }
        self.stored = now();
        // One that waits is read again after a crash, because places after it are held back.
        let (Given::Over | Given::Waits(_)) = self.hand.give(event, cursors)?;
        Ok(true)
    }

    /// A server is there: what was missed is in the channels whose last message is newer than the one that is known.
    fn guild(&mut self, seq: u64, guild: &Guild) -> Result<(), Ended> {
        let joined = guild.joined_at.as_deref().and_then(|text| text.get(..19)).unwrap_or_default();
        for channel in guild.channels.iter().chain(&guild.threads) {
            self.channels.learn(channel);
            let is_newer = |channel: &Channel| {
                let after = self.places.lock().after(channel.id);
                channel.last_message_id.is_some_and(|last| last > after)
            };
            if is_newer(channel) {
                self.catch_up(channel.id, joined, false)?;
            }
        }
        if self.pending.remove(&guild.id) && self.pending.is_empty() {
            // From here on the session can go on.
            let cursors = self.general(seq);
            self.store(cursors)?;
        }
        Ok(())
    }

    /// What was missed in direct chats.
    fn directs(&mut self) -> Result<(), Ended> {
        let directs = self.places.lock().directs();
        if directs.len() > DIRECTS {
            log(&format!("only the newest {DIRECTS} of {} direct chats are looked through", directs.len()));
        }
        directs.into_iter().take(DIRECTS).try_for_each(|channel| self.catch_up(channel, "", true))
    }

    /// Passes on what was written in a channel since its last message, and since the bot came.
    fn catch_up(&mut self, channel: Snowflake, joined: &str, is_direct: bool) -> Result<(), Ended> {
        let mut after = self.places.lock().after(channel);
        for _ in 0..PAGES {
            let Some(page) = self.page(channel, after)? else { return Ok(()) };
            let Some(newest) = page.iter().map(|message| message.id).max().filter(|newest| *newest > after) else {
                return Ok(());
            };
            let is_last = page.len() < PAGE;
            for message in page.iter().filter(|message| message.id > after) {
                if time_text(message.id.seconds()).as_str() < joined {
                    continue;
                }
                let general = self.places.lock().general(false);
                self.pass_on(message, is_direct, general)?;
            }
            after = newest;
            if is_last {
                return Ok(());
            }
        }
        log(&format!("more than {} messages were missed in channel {channel}: the newest are left out", PAGES * PAGE));
        Ok(())
    }

    /// A page of messages, the oldest first; nothing if Discord does not show them.
    fn page(&mut self, channel: Snowflake, after: Snowflake) -> Result<Option<Vec<Message>>, Ended> {
        let path = format!("channels/{channel}/messages?after={after}&limit={PAGE}");
        let about = channel.to_string();
        let found = self.patiently(|inbox| inbox.rest.get(path.clone(), "get messages", &about))?;
        let Some(serde_json::Value::Array(found)) = found else { return Ok(None) };
        let read = |value| {
            serde_json::from_value(value).inspect_err(|error| log(&format!("a message cannot be read: {error}"))).ok()
        };
        let mut page: Vec<Message> = found.into_iter().filter_map(read).collect();
        page.sort_by_key(|message| message.id);
        Ok(Some(page))
    }

    /// Asks until there is an answer; nothing if Discord refuses.
    fn patiently<T>(&mut self, ask: impl Fn(&mut Self) -> Result<T, Trouble>) -> Result<Option<T>, Ended> {
        let mut wait = AGAIN;
        loop {
            let trouble = match ask(self) {
                Ok(found) => return Ok(Some(found)),
                Err(trouble) => trouble,
            };
            match &trouble {
                Trouble::Paused(pause) => wait = *pause,
                // The process ends.
                Trouble::Token => return Err(Ended),
                _ if trouble.is_passing() => self.state.fails(Side::Inbox, trouble.to_string()),
                _ => {
                    log(&format!("Discord does not show something: {trouble}"));
                    return Ok(None);
                }
            }
            sleep(wait.min(AGAIN_MAX));
            wait = (wait * 2).min(AGAIN_MAX);
        }
    }
}
