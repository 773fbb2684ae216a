//! Output of agents: once an incarnation is closed, all of it is stored, and everything that it acknowledged has ended.

use std::collections::BTreeSet;

use hearth::model::id::SessionId;
use hearth::model::incarnation::{IncarnationId, Phase};
use hearth::model::mailbox::{Answer, CollectedRecord, Record, RetryHint};
use hearth::model::message::MessageState;
use hearth::model::spend::{Spend, Tokens};
use hearth::state::{InboxKey, SpendKey, Text, WireKey};

use super::Sim;

/// Everything that is, or was, in a mailbox of one incarnation.
#[derive(Debug, Default)]
pub(super) struct AgentOutputs {
    /// Names of outgoing messages.
    said: BTreeSet<String>,
    /// Positions of messages that were ended for good.
    ended: BTreeSet<u64>,
    /// Positions of messages whose ends say what their turns cost.
    paid: BTreeSet<u64>,
}

/// What a turn of this run used of its model.
pub(super) fn tokens_of(seq: u64, incarnation: u32) -> Tokens {
    Tokens { input: 1_000 * u64::from(incarnation) + seq, ..Tokens::default() }
}

impl AgentOutputs {
    pub(super) fn add(&mut self, found: &CollectedRecord) {
        self.said.extend(said(&found.record).into_iter().map(str::to_owned));
        self.ended.extend(ended(&found.record));
        if let Record::Used { seq, .. } = found.record {
            self.paid.insert(seq);
        }
    }

    /// The disk lost it.
    pub(super) fn lose(&mut self, found: &CollectedRecord) {
        for name in said(&found.record) {
            self.said.remove(name);
        }
        if let Some(seq) = ended(&found.record) {
            self.ended.remove(&seq);
        }
        if let Record::End { seq, .. } = found.record {
            self.paid.remove(&seq);
        }
    }
}

fn said(record: &Record) -> Vec<&str> {
    match record {
        Record::Said(said) | Record::Leftover(said) => vec![&said.wire_id],
        Record::End { answers, .. } => answers.iter().filter_map(name_of).collect(),
        Record::Claim { .. }
        | Record::Unreadable { .. }
        | Record::Hidden(_)
        | Record::Tools(_)
        | Record::Used { .. } => vec![],
    }
}

fn name_of(answer: &Answer) -> Option<&str> {
    if let Answer::Read(said) = answer { Some(&said.wire_id) } else { None }
}

fn ended(record: &Record) -> Option<u64> {
    let Record::End { seq, failure, .. } = record else { return None };
    let for_good = failure.as_ref().is_none_or(|failure| failure.again == RetryHint::Never);
    for_good.then_some(*seq)
}

impl Sim {
    /// A mailbox is collected completely before the next incarnation begins: nothing that was written is lost.
    pub(super) fn what_was_written_is_taken_in(&mut self) {
        let keys: Vec<(SessionId, u32)> = self.outputs.keys().copied().collect();
        for key in keys {
            let phase = self
                .world
                .read(|db, txn| Ok(db.incarnations.get(txn, &IncarnationId::new(key.0, key.1))?.map(|row| row.phase)));
            if !matches!(phase, Some(Phase::Closed { .. })) {
                continue;
            }
            let AgentOutputs { said, ended, paid } = self.outputs.remove(&key).unwrap_or_default();
            let (session, number) = key;
            for name in said {
                let text = Text::new(name.as_str()).unwrap();
                let stored = self.world.read(|db, txn| db.outbound_by_wire.get(txn, &WireKey { session, id: text }));
                assert!(stored.is_some(), "{session}.{number} said {name} and it is nowhere");
            }
            for seq in ended {
                let state = self.state_at(session, seq);
                let open = matches!(state, MessageState::Pending(_) | MessageState::Claimed { .. });
                assert!(!open, "{session}.{number} ended its message {seq}, and it is not over: {state:?}");
            }
            for seq in paid {
                let found = self.tokens_in_ledger(session, number, seq);
                assert_eq!(found, [tokens_of(seq, number)], "{session}.{number} said what the turn of {seq} cost");
            }
        }
    }

    fn tokens_in_ledger(&self, session: SessionId, incarnation: u32, seq: u64) -> Vec<Tokens> {
        let rows: Vec<(SpendKey, Spend)> = self.world.read(|db, txn| {
            let message = db.messages_by_session.require(txn, &InboxKey { session, seq })?;
            db.spend.collect_prefix(txn, &message, usize::MAX)
        });
        let of_run = rows.into_iter().filter(|(key, _)| key.incarnation == incarnation);
        of_run.flat_map(|(_, entry)| entry.uses).map(|used| used.tokens).collect()
    }

    fn state_at(&self, session: SessionId, seq: u64) -> MessageState {
        self.world.state_of(self.world.read(|db, txn| db.messages_by_session.require(txn, &InboxKey { session, seq })))
    }
}
