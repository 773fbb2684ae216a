//! State of a channel's connection, as its adapter knows it.

use std::sync::{Mutex, PoisonError};

use crate::model::time::Timestamp;

/// State of the connection itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineState {
    /// The service has not answered yet.
    Connecting,
    /// The service answers. A channel that only listens is up as soon as it listens.
    Up,
    /// The last calls failed.
    Down,
    /// The service refuses the channel's token or secret.
    Refused,
}

/// The state of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The state of the connection.
    pub state: LineState,
    /// When the service last answered a call, or made one.
    pub last_contact: Option<Timestamp>,
    /// When the next call is made, if the channel waits.
    pub next_try: Option<Timestamp>,
    /// The last failure, worded for people; none while the channel is up.
    pub failure: Option<String>,
}

impl Health {
    /// A state without further details.
    #[must_use]
    pub const fn of(state: LineState) -> Self {
        Self { state, last_contact: None, next_try: None, failure: None }
    }
}

/// When the service last had contact.
#[derive(Debug)]
pub(super) struct LastContact(Mutex<Option<Timestamp>>);

impl LastContact {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub(super) fn set(&self, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    pub(super) fn get(&self) -> Option<Timestamp> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
