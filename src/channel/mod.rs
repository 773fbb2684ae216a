//! EDGE: where messages come from and go to. One file per network; what comes in is checked in [`event`].

use std::sync::Arc;

use crate::model::address::{Address, UserId};
use crate::model::delivery::{Delivery, DeliveryResult};
use crate::model::effect::Settled;
use crate::model::id::{OutboundId, SessionId};

pub mod event;
pub mod intake;
mod json;
pub mod split;
pub mod terminal;

/// Who is told what became of deliveries. Called from any thread, never while a channel holds a lock.
pub type Outcomes = Arc<dyn Fn(OutboundId, DeliveryResult) + Send + Sync>;

/// A network on which agents talk to people. Calls return at once.
pub trait Channel: Send + Sync {
    /// Delivers a message; its outcome is reported once.
    fn deliver(&self, delivery: Delivery);

    /// A message that came through this channel came to its end.
    fn settled(&self, settled: Settled);

    /// Opens a direct message with somebody and reports where it is; only channels that open them are asked.
    fn open_direct(&self, _user: UserId) {}

    /// Every message of a thread is wanted from now on; asked again it changes nothing.
    fn subscribe(&self, _thread: &Address) {}

    /// Shows that a session's agent is at work until it answers there or its message ends.
    fn typing(&self, _session: SessionId, _at: &Address) {}
}
