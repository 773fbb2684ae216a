//! The processing of one input: its transaction, outside values and effects.

use crate::Result;
use crate::model::budget::BudgetRequest;
use crate::model::card::PromptSubject;
use crate::model::delivery::Outbound;
use crate::model::effect::Effect;
use crate::model::id::{BodyId, MessageId, OutboundId, SessionId};
use crate::model::incarnation::IncarnationId;
use crate::model::message::MessageState;
use crate::model::policy::Policy;
use crate::model::report::Reply;
use crate::model::task::Occurrence;
use crate::model::time::Moment;
use crate::rules::pattern::Patterns;
use crate::search::Words;
use crate::state::{Store, Tables, Write};
use crate::time::zone::Zone;
use crate::tx::counted::CountedWords;
use crate::tx::entropy::Entropy;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub(crate) mod clock_guard;
pub mod counted;
pub mod entropy;

/// The first argument of all engine functions. It dereferences to the write transaction, so that a table call reads
/// `tx.db.TABLE.verb(tx, …)`. Functions that only read take `&Tx`.
pub struct Tx<'a, 't> {
    pub db: &'a Tables,
    /// Thresholds and limits.
    pub policy: &'a Policy,
    /// The time of this input.
    pub now: Moment,
    /// Other outside values.
    pub cx: Cx<'a>,
    /// What to do after the commit, in this order.
    pub effects: Vec<Effect>,
    /// Outcomes of task occurrences, for the metrics.
    pub(crate) fires: Vec<&'static str>,
    /// The words of the body that was stored last. Messages are made of it next.
    pub(crate) said: Option<(BodyId, Arc<Words>)>,
    problems: Vec<String>,
    txn: &'a mut Write<'t>,
}

/// Outside values of a transaction, besides the tables, the policy and the time.
#[derive(Clone, Copy)]
pub struct Cx<'a> {
    /// Seed for unguessable ids.
    pub entropy: &'a Entropy,
    /// Canonical path of the directory of the agent groups' folders, raw bytes.
    pub groups_path: &'a [u8],
    /// The machine's time zone, used where none is configured.
    pub zone: &'a Zone,
    /// Whether the daemon builds images of agents with packages.
    pub builds: bool,
    /// Whether the wall clock is trusted for irreversible decisions.
    pub steady: bool,
    /// Whether new work is accepted. While the store is full, scheduled work waits and everything else continues.
    pub has_room: bool,
    /// Words that were counted before the transaction.
    pub counted: &'a CountedWords,
    /// Compiled engage patterns.
    pub patterns: &'a Patterns,
    /// The store, for nested transactions. Set when the input failed on a damaged row and is repeated without the parts
    /// that need that row.
    pub salvage: Option<&'a Store>,
    /// Reports ends to higher layers at once, in the same transaction: [`hooks`](super::hooks()).
    pub hooks: fn(&mut Tx<'_, '_>, Hook<'_>) -> Result<()>,
}

/// The end of something in a lower layer to which a higher layer reacts.
pub enum Hook<'a> {
    /// The message of a task's occurrence ended.
    TaskRunEnded {
        slot: Occurrence,
        message: MessageId,
        /// How it ended.
        state: &'a MessageState,
    },
    /// A message that asks people a question was delivered, or failed for the given reason.
    PromptEnded {
        subject: PromptSubject,
        prompt: OutboundId,
        outcome: std::result::Result<(), &'a str>,
    },
    /// A budget has no room for a message, and a person is to be asked.
    BudgetSpent(BudgetRequest),
    /// A message ended in a session that asks people something.
    MessageEnded {
        session: SessionId,
        message: MessageId,
    },
    /// A run of an earlier daemon still lives.
    RunAdopted(IncarnationId),
    RunClosed(IncarnationId),
    /// An outgoing message reached any final state.
    OutboundEnded {
        id: OutboundId,
        /// Its current row.
        outbound: &'a Outbound,
    },
}

/// The result of a transaction.
#[derive(Debug)]
pub struct Applied {
    /// Its reply. A refusal undoes the transaction.
    pub reply: Reply,
    /// What to do after the commit.
    pub effects: Vec<Effect>,
    /// What was skipped because of damaged rows.
    pub problems: Vec<String>,
    /// Outcomes of task occurrences, for the metrics.
    pub fires: Vec<&'static str>,
}

impl<'a, 't> Tx<'a, 't> {
    /// Starts the processing of an input.
    pub fn new(db: &'a Tables, policy: &'a Policy, now: Moment, cx: Cx<'a>, txn: &'a mut Write<'t>) -> Self {
        Self { db, policy, now, cx, effects: Vec::new(), fires: Vec::new(), said: None, problems: Vec::new(), txn }
    }

    /// Does one of several independent pieces of work. While salvaging, a damaged row undoes only this piece and is
    /// recorded as a problem.
    pub(crate) fn isolated<T>(&mut self, work: impl FnOnce(&mut Tx<'_, '_>) -> Result<T>) -> Result<Option<T>> {
        let Some(store) = self.cx.salvage else { return work(self).map(Some) };
        let (db, policy, now, cx) = (self.db, self.policy, self.now, self.cx);
        let done = store.part(self.txn, |part| {
            let mut nested = Tx::new(db, policy, now, cx, part);
            work(&mut nested).map(|done| (done, nested.into_applied(Reply::Done)))
        });
        match done {
            Ok((done, mut nested)) => {
                self.effects.append(&mut nested.effects);
                self.fires.append(&mut nested.fires);
                self.problems.append(&mut nested.problems);
                Ok(Some(done))
            }
            Err(error) if error.is_damage() => {
                self.problems.push(error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reports the end of something to the higher layer that waits for it.
    pub(crate) fn call(&mut self, hook: Hook<'_>) -> Result<()> {
        (self.cx.hooks)(self, hook)
    }

    /// Ends the processing with a reply. The writes stay in the transaction.
    #[must_use]
    pub fn into_applied(self, reply: Reply) -> Applied {
        let Self { effects, problems, fires, .. } = self;
        Applied { reply, effects, problems, fires }
    }
}

impl<'t> Deref for Tx<'_, 't> {
    type Target = Write<'t>;

    fn deref(&self) -> &Self::Target {
        self.txn
    }
}

impl DerefMut for Tx<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.txn
    }
}
