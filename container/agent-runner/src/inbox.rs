//! Which messages a turn takes.

use std::collections::{BTreeMap, BTreeSet};

use hearth_wire::InMessage;

use crate::agent::AgentHalf;
use crate::host::{HostHalf, ReadError};
use crate::log;
use crate::stop::Error;

/// Reads the host's messages and keeps what was finished.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Messages that wait. Their files never change, so each is read once.
    waiting: BTreeMap<u64, InMessage>,
    /// Messages this process finished: the host may consume their acks at any time.
    finished: BTreeSet<u64>,
    /// Files that could not be read for now, said once.
    unreadable: BTreeSet<u64>,
}

/// What a look at the inbox found beside the messages.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Messages whose files can never be read, and why.
    pub(crate) broken: Vec<(u64, ReadError)>,
    /// The highest sequence number there is.
    pub(crate) highest: u64,
}

impl Inbox {
    /// Looks at everything that lies there. The acks are listed before the messages: the host removes a message before
    /// its ack, so a message that is still there without an ack has none.
    pub(crate) fn look(&mut self, host: &HostHalf, agent: &AgentHalf) -> Result<Found, Error> {
        let ended = agent.ended()?;
        let there = host.list()?;
        self.waiting.retain(|seq, _| there.contains(seq) && !ended.contains(seq));
        self.finished.retain(|seq| there.contains(seq));
        let mut found = Found { highest: there.last().copied().unwrap_or(0), ..Found::default() };
        for seq in there {
            if ended.contains(&seq) || self.finished.contains(&seq) || self.waiting.contains_key(&seq) {
                continue;
            }
            match host.message(seq) {
                Ok(message) => drop(self.waiting.insert(seq, message)),
                Err(error) if error.is_gone() => {}
                Err(error) if error.is_final() => found.broken.push((seq, error)),
                Err(error) => {
                    if self.unreadable.insert(seq) {
                        log::note(format_args!("message {seq} cannot be read now: {error}; it waits"));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Whether something asks for a turn.
    pub(crate) fn asks(&self) -> bool {
        self.waiting.values().any(|message| message.trigger)
    }

    /// Everything that waits, in order, for a turn that ends all of it.
    pub(crate) fn take(&mut self) -> Vec<InMessage> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    pub(crate) fn finish(&mut self, seq: u64) {
        self.finished.insert(seq);
    }
}
