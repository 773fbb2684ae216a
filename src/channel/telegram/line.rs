//! Connection state: whether the server is reachable and accepts the token.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::channel::health::{Health, LastContact, LineState};
use crate::model::time::{Millis, Timestamp};

/// State of the connection to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not known yet.
    Connecting,
    /// Messages are received.
    Up,
    /// Messages are not received.
    Down {
        why: String,
        /// Whether messages can still be sent.
        sending: bool,
    },
}

/// The connection of one channel.
#[derive(Debug)]
pub(super) struct ChannelHealth {
    line: Mutex<Line>,
    contact: LastContact,
    /// Name of the bot, once the server said it.
    bot: OnceLock<String>,
    /// The wall clock.
    now: fn() -> Timestamp,
}

#[derive(Debug)]
struct Line {
    state: State,
    /// End of the current pause.
    next_try: Option<Timestamp>,
}

impl ChannelHealth {
    pub(super) const fn new(now: fn() -> Timestamp) -> Self {
        let line = Line { state: State::Connecting, next_try: None };
        Self { line: Mutex::new(line), contact: LastContact::new(), bot: OnceLock::new(), now }
    }

    pub(super) fn state(&self) -> State {
        self.lock().state.clone()
    }

    /// The state for the daemon.
    pub(super) fn health(&self) -> Health {
        let line = self.lock();
        let (state, failure) = match &line.state {
            State::Connecting => (LineState::Connecting, None),
            State::Up => (LineState::Up, None),
            State::Down { why, sending: true } => (LineState::Down, Some(why.clone())),
            State::Down { why, sending: false } => (LineState::Refused, Some(why.clone())),
        };
        let next_try = line.next_try.filter(|_| state != LineState::Up);
        Health { state, last_contact: self.contact.get(), next_try, failure }
    }

    /// Name of the bot, once the server said it.
    pub(super) fn bot(&self) -> Option<&str> {
        self.bot.get().map(String::as_str)
    }

    /// Records the bot's name. A bot whose name changes keeps the first one until the channel is connected again.
    pub(super) fn identified(&self, bot: Option<&str>) {
        if let Some(bot) = bot {
            self.bot.get_or_init(|| bot.to_owned());
        }
    }

    /// Records that a call succeeded.
    pub(super) fn answered(&self) {
        self.contact.set((self.now)());
    }

    /// Records the pause before the next call, or its end.
    pub(super) fn pauses(&self, pause: Option<Duration>) {
        let length = |pause: Duration| Millis::new(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
        self.lock().next_try = pause.map(|pause| (self.now)().plus(length(pause)));
    }

    /// Sets the state. Returns whether it changed.
    pub(super) fn set(&self, state: State) -> bool {
        let mut line = self.lock();
        let is_news = line.state != state;
        line.state = state;
        is_news
    }

    pub(super) fn is_up(&self) -> bool {
        self.state() == State::Up
    }

    /// Whether sending can succeed.
    pub(super) fn takes_messages(&self) -> bool {
        !matches!(self.state(), State::Down { sending: false, .. })
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
