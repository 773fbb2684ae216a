//! Connection state: whether the server is reachable and accepts the token.

use std::sync::{Mutex, OnceLock, PoisonError};

/// State of the connection to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not known yet.
    Connecting,
    /// Messages are received.
    Up,
    /// Messages are not received.
    Down {
        /// Why.
        why: String,
        /// Whether messages can still be sent.
        sending: bool,
    },
}

/// The connection of one channel.
#[derive(Debug)]
pub(super) struct ChannelHealth {
    state: Mutex<State>,
    /// Name of the bot, once the server said it.
    bot: OnceLock<String>,
}

impl ChannelHealth {
    pub(super) const fn new() -> Self {
        Self { state: Mutex::new(State::Connecting), bot: OnceLock::new() }
    }

    pub(super) fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

    /// Sets the state. Returns whether it changed.
    pub(super) fn set(&self, state: State) -> bool {
        let mut known = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *known != state;
        *known = state;
        is_news
    }

    pub(super) fn is_up(&self) -> bool {
        self.state() == State::Up
    }

    /// Whether sending can succeed.
    pub(super) fn takes_messages(&self) -> bool {
        !matches!(self.state(), State::Down { sending: false, .. })
    }
}
