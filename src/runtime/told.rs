//! What a runtime has told of its incarnations, and which of them therefore never start again.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::mail::{Mail, Outbox};
use crate::model::id::SessionId;
use crate::model::incarnation::Exit;
use crate::model::input::RuntimeEvent;

/// Kept under the lock of a runtime's table, so that what is told comes in the order of what happened.
pub(in crate::runtime) struct Told {
    /// Highest incarnation that was reported gone: it never starts again, whatever call comes late.
    ended: HashMap<SessionId, u32>,
    closing: bool,
    outbox: Outbox,
}

impl Told {
    pub(in crate::runtime) fn new() -> (Self, Mail) {
        let (outbox, mail) = Outbox::new();
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

    /// Nothing starts any more.
    pub(in crate::runtime) fn close(&mut self) {
        self.closing = true;
    }

    /// Why an incarnation is not to be started, if there is a reason.
    pub(in crate::runtime) fn refusal(&self, session: SessionId, incarnation: u32) -> Option<String> {
        if self.closing {
            return Some("hearth is stopping".to_owned());
        }
        let ended = self.ended.get(&session).is_some_and(|ended| *ended >= incarnation);
        ended.then(|| format!("incarnation {incarnation} of {session} has ended and never starts again"))
    }

    /// The last that is told; [`LastWord::heard`] waits for it without the lock.
    pub(in crate::runtime) fn last_word(&self) -> LastWord {
        LastWord(self.outbox.flush())
    }
}

/// Comes when the listener knows everything.
pub(in crate::runtime) struct LastWord(Receiver<()>);

impl LastWord {
    /// Whether all has ended and the listener knows. What took too long is not waited for once more.
    pub(in crate::runtime) fn heard(&self, timed_out: bool) -> bool {
        let patience = if timed_out { Duration::ZERO } else { Duration::from_secs(1) };
        self.0.recv_timeout(patience).is_ok() && !timed_out
    }
}
