//! Which messages a turn takes.

use std::collections::BTreeSet;

use hearth_wire::InMessage;

use crate::agent::AgentHalf;
use crate::host::{HostHalf, ReadError};
use crate::log;
use crate::stop::Error;

/// What lies in `host/in/` and is not finished.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Messages that can be read, in order.
    pub(crate) messages: Vec<InMessage>,
    /// Messages whose files can never be read, and why.
    pub(crate) broken: Vec<(u64, ReadError)>,
    /// Every sequence number seen.
    pub(crate) seen: Vec<u64>,
}

/// Reads the host's messages and keeps what was finished.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Messages this process finished: the host may consume their acks at any time.
    finished: BTreeSet<u64>,
    /// Files that could not be read for now, said once.
    unreadable: BTreeSet<u64>,
}

impl Inbox {
    /// Looks at everything that waits. The acks are listed before the messages: the host removes a message before its
    /// ack, so a message that is still there without an ack has none.
    pub(crate) fn look(&mut self, host: &HostHalf, agent: &AgentHalf) -> Result<Waiting, Error> {
        let ended = agent.ended()?;
        let seen = host.list()?;
        self.finished.retain(|seq| seen.contains(seq));
        let mut waiting = Waiting::default();
        for seq in seen.iter().copied().filter(|seq| !ended.contains(seq) && !self.finished.contains(seq)) {
            match host.message(seq) {
                Ok(message) => waiting.messages.push(message),
                Err(error) if error.is_gone() => {}
                Err(error) if error.is_final() => waiting.broken.push((seq, error)),
                Err(error) => {
                    if self.unreadable.insert(seq) {
                        log::note(format_args!("message {seq} cannot be read now: {error}; it waits"));
                    }
                }
            }
        }
        waiting.seen = seen;
        Ok(waiting)
    }

    pub(crate) fn finish(&mut self, seq: u64) {
        self.finished.insert(seq);
    }
}

impl Waiting {
    /// Whether something asks for a turn.
    pub(crate) fn asks(&self) -> bool {
        self.messages.iter().any(|message| message.trigger)
    }
}
