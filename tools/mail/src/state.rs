//! What the threads of the bridge know of its connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearth_bridge::Pong;
use mail_parser::DateTime;
use rustix::time::{ClockId, clock_gettime};

/// Seconds since 1970.
pub(crate) fn seconds() -> i64 {
    clock_gettime(ClockId::Realtime).tv_sec
}

/// A time in the form of the protocol.
pub(crate) fn time_text(seconds: i64) -> String {
    let date = DateTime::from_timestamp(seconds);
    let day = format!("{:04}-{:02}-{:02}", date.year, date.month, date.day);
    format!("{day}T{:02}:{:02}:{:02}Z", date.hour, date.minute, date.second)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Inbox,
    Outbox,
}

#[derive(Debug, Default)]
struct Known {
    heard: Option<i64>,
    inbox: Option<String>,
    outbox: Option<String>,
}

/// The state of both connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct State(Arc<Mutex<Known>>);

impl State {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server answered.
    pub(crate) fn works(&self, side: Side) {
        let mut known = self.known();
        known.heard = Some(seconds());
        match side {
            Side::Inbox => known.inbox = None,
            Side::Outbox => known.outbox = None,
        }
    }

    /// A connection does not work.
    pub(crate) fn fails(&self, side: Side, why: String) {
        let mut known = self.known();
        match side {
            Side::Inbox => known.inbox = Some(format!("IMAP: {why}")),
            Side::Outbox => known.outbox = Some(format!("SMTP: {why}")),
        }
    }

    pub(crate) fn pong(&self) -> Pong {
        let known = self.known();
        Pong { heard: known.heard.map(time_text), down: known.inbox.clone().or_else(|| known.outbox.clone()) }
    }
}
