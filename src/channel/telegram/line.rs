//! Whether the server can be reached and takes the token.

use std::sync::{Mutex, PoisonError};

/// What is known of the line to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing yet.
    Connecting,
    /// Messages come in.
    Up,
    /// Messages do not come in, and why; whether it makes sense to send some.
    Down {
        /// Why.
        why: String,
        /// Whether messages can go out all the same.
        sending: bool,
    },
}

/// The line of one channel.
#[derive(Debug)]
pub(super) struct Line {
    state: Mutex<State>,
}

impl Line {
    pub(super) const fn new() -> Self {
        Self { state: Mutex::new(State::Connecting) }
    }

    pub(super) fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether that is news.
    pub(super) fn set(&self, state: State) -> bool {
        let mut known = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *known != state;
        *known = state;
        is_news
    }

    pub(super) fn is_up(&self) -> bool {
        self.state() == State::Up
    }

    /// Whether it makes sense to send something.
    pub(super) fn takes_messages(&self) -> bool {
        !matches!(self.state(), State::Down { sending: false, .. })
    }
}
