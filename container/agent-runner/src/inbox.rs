//! Selects the messages of a turn.

use std::collections::{BTreeMap, BTreeSet};

use hearth_wire::{AckName, InMessage, limits};

use crate::agent::AgentHalf;
use crate::host::HostHalf;
use crate::log;
use crate::read_error::ReadError;
use crate::stop::Error;

/// Reads the host's messages and tracks which are finished.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Messages not yet taken. Their files never change, so each is read once.
    waiting: BTreeMap<u64, InMessage>,
    /// Messages taken and not finished.
    taken: BTreeSet<u64>,
    /// Finished messages: by an ack that was found, or by this process, since the host may consume an ack at any time.
    finished: BTreeSet<u64>,
    /// Acks that were found. They never change, so each is read once.
    known: BTreeSet<AckName>,
    /// Temporarily unreadable files, each logged once.
    unreadable: BTreeSet<u64>,
}

/// Other results of reading the inbox.
#[derive(Debug, Default)]
pub(crate) struct InboxScan {
    /// Messages whose files can never be read, with reasons.
    pub(crate) broken: Vec<(u64, ReadError)>,
    /// The highest existing sequence number.
    pub(crate) highest: u64,
}

impl Inbox {
    /// Reads the inbox. Acks are listed before messages: the host removes a message before its ack, so an existing
    /// message without an ack in the list has none.
    pub(crate) fn look(&mut self, host: &HostHalf, agent: &AgentHalf) -> Result<InboxScan, Error> {
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
        let mut found = InboxScan { highest: there.last().copied().unwrap_or(0), ..InboxScan::default() };
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

    /// Whether a message triggers a turn.
    pub(crate) fn asks(&self) -> bool {
        self.waiting.values().any(|message| message.trigger)
    }

    /// Takes the waiting messages in order, up to the limit of one ack. If there is more context than that before the
    /// first triggering message, only the oldest context is returned: it is too old to be shown.
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

    /// Returns messages that were taken.
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
        InMessage {
            v: 1,
            seq,
            id,
            kind,
            trigger,
            timestamp,
            unknown_sender: false,
            reply: None,
            content: serde_json::json!({}),
        }
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
