//! Which messages a turn takes.

use std::collections::{BTreeMap, BTreeSet};

use hearth_wire::{AckName, InMessage, limits};

use crate::agent::AgentHalf;
use crate::host::{HostHalf, ReadError};
use crate::log;
use crate::stop::Error;

/// Reads the host's messages and keeps what was finished.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Messages that wait. Their files never change, so each is read once.
    waiting: BTreeMap<u64, InMessage>,
    /// Messages that were taken and have not ended.
    taken: BTreeSet<u64>,
    /// Messages that have ended: by an ack that was found, or by this process, since the host may consume an ack at any
    /// time.
    finished: BTreeSet<u64>,
    /// The acks that were found. They never change, so each is read once.
    known: BTreeSet<AckName>,
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
        let acks = agent.end_acks()?;
        for ack in acks.difference(&self.known) {
            self.finished.extend(agent.ends(ack)?);
            self.finished.insert(ack.seq);
        }
        self.known = acks;
        let there = host.list()?;
        self.finished.retain(|seq| there.binary_search(seq).is_ok());
        self.taken.retain(|seq| there.binary_search(seq).is_ok());
        self.waiting.retain(|seq, _| there.binary_search(seq).is_ok() && !self.finished.contains(seq));
        let mut found = Found { highest: there.last().copied().unwrap_or(0), ..Found::default() };
        for seq in there {
            if self.finished.contains(&seq) || self.taken.contains(&seq) || self.waiting.contains_key(&seq) {
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

    /// What waits, in order, as far as one ack can end it. Context of which there is more than that before the first
    /// message that asks is returned by itself, the oldest of it: it is too old to be told.
    pub(crate) fn take(&mut self) -> Vec<InMessage> {
        let first = self.waiting.values().position(|message| message.trigger).unwrap_or(0);
        let most = match first.saturating_sub(limits::ENDS_PER_ACK) {
            0 => limits::ENDS_PER_ACK + 1,
            too_old => too_old.min(limits::ENDS_PER_ACK + 1),
        };
        let later = self.waiting.keys().nth(most).copied().map(|seq| self.waiting.split_off(&seq));
        let now = std::mem::replace(&mut self.waiting, later.unwrap_or_default());
        self.taken.extend(now.keys());
        now.into_values().collect()
    }

    /// What was taken waits again.
    pub(crate) fn put_back(&mut self, messages: impl IntoIterator<Item = InMessage>) {
        for message in messages {
            self.taken.remove(&message.seq);
            self.waiting.insert(message.seq, message);
        }
    }

    pub(crate) fn finish(&mut self, seqs: &[u64]) {
        self.finished.extend(seqs);
        self.taken.retain(|seq| !seqs.contains(seq));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: u64, trigger: bool) -> InMessage {
        let (id, kind, timestamp) = (format!("ms{seq}"), "chat".to_owned(), String::new());
        InMessage { v: 1, seq, id, kind, trigger, timestamp, reply: None, content: serde_json::json!({}) }
    }

    /// How many messages each take has, and whether one of them asks.
    fn takes(context: u64, asking: u64) -> Vec<(usize, bool)> {
        let waiting = (1..=context + asking).map(|seq| (seq, message(seq, seq > context))).collect();
        let mut inbox = Inbox { waiting, ..Inbox::default() };
        let mut takes = Vec::new();
        while inbox.asks() {
            let taken = inbox.take();
            assert!(taken.is_sorted_by_key(|message| message.seq));
            assert!(inbox.waiting.keys().next() > taken.last().map(|message| &message.seq) || inbox.waiting.is_empty());
            takes.push((taken.len(), taken.iter().any(|message| message.trigger)));
        }
        takes
    }

    #[test]
    fn a_turn_has_as_many_messages_as_one_ack_can_end() {
        assert_eq!(takes(3, 1), [(4, true)]);
        assert_eq!(takes(0, 1_001), [(1_001, true)]);
        assert_eq!(takes(0, 1_002), [(1_001, true), (1, true)]);
        assert_eq!(takes(1_000, 2), [(1_001, true), (1, true)]);
        assert_eq!(takes(1_100, 1_000), [(100, false), (1_001, true), (999, true)]);
        assert_eq!(takes(2_500, 1), [(1_001, false), (499, false), (1_001, true)]);
    }
}
