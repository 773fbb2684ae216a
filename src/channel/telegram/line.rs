//! Connection state: whether the server is reachable and accepts the token.

use std::sync::{Mutex, PoisonError};

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
}

impl ChannelHealth {
    pub(super) const fn new() -> Self {
        Self { state: Mutex::new(State::Connecting) }
    }

    pub(super) fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
