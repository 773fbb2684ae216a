//! What a runtime has reported about its incarnations, and which of them therefore never start again.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::event_queue::{EventQueue, EventSender};
use crate::model::id::SessionId;
use crate::model::incarnation::Exit;
use crate::model::input::RuntimeEvent;

/// Guarded by the lock of a runtime's table, so that events are in the order in which they happened.
pub(in crate::runtime) struct FinishedSet {
    /// Highest incarnation that was reported gone. It never starts again, even if a call comes late.
    ended: HashMap<SessionId, u32>,
    closing: bool,
    outbox: EventSender,
}

impl FinishedSet {
    pub(in crate::runtime) fn new() -> (Self, EventQueue) {
        let (outbox, mail) = EventSender::new();
        (Self { ended: HashMap::new(), closing: false, outbox }, mail)
    }

    pub(in crate::runtime) fn running(&self, session: SessionId, incarnation: u32) {
        self.outbox.send(RuntimeEvent::Running(session, incarnation));
    }

    pub(in crate::runtime) fn outdated(&self, session: SessionId, incarnation: u32) {
        self.outbox.send(RuntimeEvent::Outdated(session, incarnation));
    }

    pub(in crate::runtime) fn gone(&mut self, session: SessionId, incarnation: u32, exit: Exit, stderr_tail: String) {
        let ended = self.ended.entry(session).or_default();
        *ended = incarnation.max(*ended);
        self.outbox.send(RuntimeEvent::Gone { session, incarnation, exit, stderr_tail });
    }

    /// Refuses all starts from now on.
    pub(in crate::runtime) fn close(&mut self) {
        self.closing = true;
    }

    /// Why an incarnation must not be started, if there is a reason.
    pub(in crate::runtime) fn refusal(&self, session: SessionId, incarnation: u32) -> Option<String> {
        if self.closing {
            return Some("hearth is stopping".to_owned());
        }
        let ended = self.ended.get(&session).is_some_and(|ended| *ended >= incarnation);
        ended.then(|| format!("incarnation {incarnation} of {session} has ended and never starts again"))
    }

    /// Marks the end of the events so far; [`Flushed::heard`] waits for it without the lock.
    pub(in crate::runtime) fn flush(&self) -> Flushed {
        Flushed(self.outbox.flush())
    }
}

/// Completes once the listener has every event.
pub(in crate::runtime) struct Flushed(Receiver<()>);

impl Flushed {
    /// Whether everything has ended and the listener has every event. After a timeout it does not wait again.
    pub(in crate::runtime) fn heard(&self, timed_out: bool) -> bool {
        let patience = if timed_out { Duration::ZERO } else { Duration::from_secs(1) };
        self.0.recv_timeout(patience).is_ok() && !timed_out
    }
}
