//! The invariants: the promises of ARCHITECTURE.md, one function each. After every step they examine what changed.
//! Checks of the whole store run from time to time, and sooner after crashes: indexes agree with their rows, a series
//! has one next slot, ended things stay as they were. A plan with `check=every` runs them after every step, one with
//! `check=10` after every tenth.

use std::collections::{BTreeMap, BTreeSet};

use hearth::model::approval::ApprovalState;
use hearth::model::budget::Fallback;
use hearth::model::delivery::{Author, OutState, Outbound};
use hearth::model::id::{ApprovalId, MessageId, OutboundId, SessionId, TaskId};
use hearth::model::message::{Message, MessageState};
use hearth::model::task::Occurrence;
use hearth::model::{Effect, Timestamp};
use hearth::state::{ChatKey, ForeignKey, Meta, SeenKey};

use super::Sim;
use super::agents::GHOST;
use super::plan::Setting;
use super::{budgets, hosts};
use crate::slots::DAY;
use crate::world::World;

/// Steps between full checks while the store is empty. A check costs as much as the store is large, so checks become
/// rarer as it grows.
const EVERY: u64 = 8;

/// The state of earlier checks.
#[derive(Clone)]
pub(super) struct Memory {
    meta: Meta,
    /// Messages that have not ended, oldest first, and the number of messages seen.
    open: BTreeSet<MessageId>,
    newest: Option<MessageId>,
    /// How each message ended.
    over: BTreeMap<MessageId, MessageState>,
    newest_out: Option<OutboundId>,
    /// Outgoing messages that are not sent yet, and the final states of the others, even those removed since.
    unsent: BTreeSet<OutboundId>,
    pub(super) sent: BTreeMap<OutboundId, Outbound>,
    /// Agents' output, and used slots: each once.
    said: BTreeMap<(SessionId, String), OutboundId>,
    slots: BTreeSet<Occurrence>,
    /// Approvals that wait for a decision, and decisions that were made.
    pub(super) newest_asked: Option<ApprovalId>,
    pub(super) asked: BTreeSet<ApprovalId>,
    pub(super) decided: BTreeMap<ApprovalId, ApprovalState>,
    /// The questions that approvals of tool calls were passed on to.
    pub(super) tools: BTreeMap<ApprovalId, (SessionId, String)>,
    pub(super) hosts: hosts::Known,
    incarnations: BTreeMap<SessionId, u32>,
    pub(super) budgets: budgets::Seen,
    /// One-time tasks that the reference does not know.
    pub(super) errands: BTreeSet<TaskId>,
    /// Events up to this one were found in the expected state.
    found: usize,
    steps: u64,
    /// The daemon is new: everything has to be checked, as far as the cost allows.
    pub(super) restarted: bool,
}

impl Memory {
    pub(super) fn of(world: &World) -> Self {
        Self {
            meta: world.read(|db, txn| db.meta.require(txn, &())),
            open: BTreeSet::new(),
            newest: None,
            over: BTreeMap::new(),
            newest_out: None,
            said: BTreeMap::new(),
            slots: BTreeSet::new(),
            newest_asked: None,
            asked: BTreeSet::new(),
            decided: BTreeMap::new(),
            tools: BTreeMap::new(),
            unsent: BTreeSet::new(),
            sent: BTreeMap::new(),
            hosts: hosts::Known::default(),
            incarnations: BTreeMap::new(),
            budgets: budgets::Seen::default(),
            errands: BTreeSet::new(),
            found: 0,
            steps: 0,
            restarted: false,
        }
    }

    /// Whether enough time has passed since the last full check to justify another one.
    pub(super) fn is_time_for_all(&self, world: &World) -> bool {
        let rows = world.read(|db, txn| Ok(db.messages.len(txn)? + db.seen_events.len(txn)?));
        let paid = EVERY + rows / 8;
        self.steps >= if self.restarted { paid / 4 } else { paid }
    }
}

impl Sim {
    /// After a step.
    pub(super) fn prove(&mut self) {
        self.memory.steps += 1;
        let all = match self.plan.check {
            Some(steps) => self.memory.steps >= steps,
            None => self.memory.is_time_for_all(&self.world),
        };
        self.what_was_acknowledged_is_stored(all);
        self.every_message_is_in_one_state(all);
        self.one_incarnation_lives();
        self.each_run_has_its_provider();
        self.promised_files_are_there();
        self.what_was_written_is_taken_in();
        self.decisions_are_whole(all);
        self.approvals_of_tools_are_used_once();
        self.nothing_is_reached_undecided();
        self.nothing_is_shown_twice_unmarked();
        self.what_went_out_stays_out(all);
        self.a_store_is_only_its_own();
        self.nobody_is_let_in();
        self.note_budgets();
        // Without space, a slot that waited for a run is the next one again until there is space.
        if (all || self.plan.setting == Setting::Zones) && !self.is_tight() {
            self.book.prove(&self.world, &mut self.chance);
        }
        if all {
            self.what_waits_for_a_decision_is_held();
            self.budgets_hold();
            self.connections_are_counted_once();
            self.indexes_agree();
            self.what_is_found_was_said();
            self.memory.steps = 0;
            self.memory.restarted = false;
        }
    }

    /// A run was started with the provider that the store knows to drive its session.
    fn each_run_has_its_provider(&self) {
        for (session, number) in &self.world.outside.running {
            let started = &self.world.outside.started[session];
            let (live, providers) = self.world.read(|db, txn| {
                Ok((
                    db.live_incarnations.get(txn, session)?,
                    db.session_providers.get(txn, session)?.unwrap_or_default(),
                ))
            });
            if live == Some(*number) && started.number == *number {
                assert_eq!(providers.fallback().map(Fallback::memory), started.memory, "{session}.{number}");
            }
        }
    }

    /// Every event that was acknowledged to a platform is in the store, through crashes, power cuts and full maps: as a
    /// message, as held, or as dropped with a reason.
    fn what_was_acknowledged_is_stored(&mut self, all: bool) {
        let from = if all { self.events.len().saturating_sub(200) } else { self.memory.found };
        let now = self.world.now().wall.millis();
        for event in &self.events[from..] {
            if !event.kept || event.chat.0.is_empty() || (now - event.at).abs() > 20 * DAY {
                continue;
            }
            let key = [event.chat.0, event.chat.1, &event.id].map(|text| ForeignKey::of(&text.to_owned()));
            let [channel, chat, id] = key;
            let seen = self
                .world
                .read(|db, txn| db.seen_events.get(txn, &SeenKey { chat: ChatKey { channel, chat }, message: id }));
            let seen = seen.unwrap_or_else(|| panic!("{event:?} was taken and is not there"));
            assert!(!seen.messages.is_empty() || seen.refused.is_some(), "{event:?} became nothing: {seen:?}");
        }
        self.memory.found = self.events.len();
    }

    /// A message that was accepted is pending, claimed by the live incarnation, or ended for good with a reason.
    fn every_message_is_in_one_state(&mut self, all: bool) {
        let next = self.memory.newest.map_or(MessageId::new(0), |id| MessageId::new(id.number() + 1));
        let new = self.world.read(|db, txn| db.messages.range(txn, next..)?.collect::<Result<Vec<_>, _>>());
        self.memory.newest = new.last().map(|(id, _)| *id).or(self.memory.newest);
        self.memory.open.extend(new.iter().map(|(id, _)| *id));
        for (id, message) in &new {
            self.nobody_strange_is_heard(*id, message);
            let first = message.slot.is_none_or(|slot| self.memory.slots.insert(slot));
            assert!(first, "{id} is of a slot that was used before: {:?}", message.slot);
        }
        let open = self.world.read(|db, txn| {
            let row = |id: &MessageId| Ok((*id, db.messages.require(txn, id)?));
            self.memory.open.iter().map(row).collect::<Result<Vec<_>, _>>()
        });
        for (id, message) in open {
            match &message.state {
                MessageState::Pending(_) => {}
                MessageState::Claimed { incarnation, .. } => {
                    let live = self.world.read(|db, txn| db.live_incarnations.get(txn, &message.session));
                    assert_eq!(live, Some(*incarnation), "{id} is claimed by somebody who does not live");
                }
                MessageState::Completed { .. } | MessageState::Dropped { .. } => self.is_over(id, message.state),
                MessageState::Failed { .. } => {
                    self.somebody_is_told(id, &message);
                    self.is_over(id, message.state);
                }
            }
        }
        if all {
            for (id, state) in &self.memory.over {
                assert_eq!(self.world.state_of(*id), *state, "{id} was over");
            }
        }
    }

    fn is_over(&mut self, id: MessageId, state: MessageState) {
        self.memory.open.remove(&id);
        self.memory.over.insert(id, state);
    }

    /// A failed turn is reported where its answer would have gone. Several messages of a turn share one notice that
    /// shows each. No report is needed if the turn itself sent something.
    fn somebody_is_told(&self, id: MessageId, message: &Message) {
        let (Some(reply), MessageState::Failed { at, .. }) = (&message.reply, &message.state) else {
            return; // then the owner is told, at any time
        };
        let told = self.world.read(|db, txn| {
            let text = db.bodies.require(txn, &message.body)?.content.text;
            let words: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect();
            for row in db.outbound.iter(txn)? {
                let (_, outbound) = row?;
                // The owner's chat says what failed, other chats only that the agent failed.
                let alone = [
                    "Your ",
                    "The agent could not process your message",
                    "The agent could not do the scheduled task",
                    "Stopped because it reached the limit",
                ];
                let shown =
                    alone.iter().any(|begin| outbound.text.starts_with(begin)) || outbound.text.contains(&words);
                let told = match outbound.author {
                    Author::Hearth => outbound.to.as_ref() == Some(reply) && shown,
                    Author::Agent { session, .. } => session == message.session && outbound.to.is_some(),
                };
                if told && outbound.stored == *at {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        assert!(told, "{id} failed and nobody was told: {message:?}");
    }

    /// The running incarnations are those that the store lists as live, and numbers only grow.
    fn one_incarnation_lives(&mut self) {
        let live: Vec<(SessionId, u32)> = self.world.read(|db, txn| db.live_incarnations.iter(txn)?.collect());
        let live: BTreeMap<SessionId, u32> = live.into_iter().collect();
        for (session, number) in &self.world.outside.running {
            assert_eq!(live.get(session), Some(number), "{session}.{number} runs and was thought to be gone");
        }
        for (session, number) in live {
            let before = self.memory.incarnations.insert(session, number);
            assert!(before.is_none_or(|before| before <= number), "{session} went back from {before:?} to {number}");
        }
    }

    /// Agents that run can read every file that the store promises them.
    fn promised_files_are_there(&self) {
        for session in self.world.outside.running.keys() {
            let rows = self.world.read(|db, txn| db.session_files.collect_prefix(txn, session, usize::MAX));
            let there = self.world.outside.files.get(session);
            for (key, row) in rows {
                let seq = key.seq;
                assert!(there.is_some_and(|there| there.contains(&seq)), "{session} lacks files of {seq}: {row:?}");
            }
        }
    }

    /// An attempt is in the store before the network is called.
    pub(super) fn an_attempt_is_committed(&self, effect: &Effect) {
        let Effect::Deliver(delivery) = effect else { return };
        let row = self.world.outbound(delivery.id);
        assert!(row.attempts > 0, "{} goes out and no attempt is noted: {:?}", delivery.id, row.state);
    }

    /// A possible duplicate is marked on networks that cannot detect it; a delivered message was seen; apparent output
    /// of an incarnation that is gone is not sent.
    fn nothing_is_shown_twice_unmarked(&mut self) {
        assert_eq!(self.platform.borrow().broken, Vec::<String>::new());
        let next = self.memory.newest_out.map_or(OutboundId::new(0), |id| OutboundId::new(id.number() + 1));
        let new = self.world.read(|db, txn| db.outbound.range(txn, next..)?.collect::<Result<Vec<_>, _>>());
        for (id, outbound) in new {
            self.memory.newest_out = Some(id);
            self.memory.unsent.insert(id);
            if let Author::Agent { session, wire_id, .. } = &outbound.author {
                let goes = !matches!(outbound.state, OutState::Refused { .. } | OutState::Abandoned { .. });
                if let Some(before) = self.memory.said.insert((*session, wire_id.clone()), id) {
                    // A file that is still there after its message was removed by retention is recorded again, and not
                    // sent.
                    let known = self.world.read(|db, txn| db.outbound.contains(txn, &before));
                    assert!(!known && !goes, "{id} was stored before: {outbound:?}");
                }
                assert!(!goes || !wire_id.starts_with(GHOST), "{id} is of somebody who is gone: {outbound:?}");
            }
        }
    }

    /// A delivered or failed message is never attempted again and never changes its state.
    fn what_went_out_stays_out(&mut self, all: bool) {
        for id in self.memory.unsent.clone() {
            let row = self.world.outbound(id);
            if !matches!(row.state, OutState::Later(_) | OutState::Waiting { .. } | OutState::Attempting { .. }) {
                self.memory.unsent.remove(&id);
                self.memory.sent.insert(id, row);
            }
        }
        if all {
            let rows: BTreeMap<OutboundId, Outbound> = self.world.all_outbound().into_iter().collect();
            for (id, row) in rows {
                let ended = self.memory.sent.get(&id);
                let what = |row: &Outbound| (row.state.clone(), row.attempts, row.uncertain);
                assert!(ended.is_none_or(|ended| what(ended) == what(&row)), "{id} was over: {ended:?}, {row:?}");
            }
        }
    }

    /// Every index agrees with its rows: for example, an active series has one row in the index of due tasks.
    fn indexes_agree(&self) {
        let violations = self.world.violations();
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }

    /// The store keeps its identity and its format, whatever name the daemon would give to a new one.
    fn a_store_is_only_its_own(&mut self) {
        let meta: Meta = self.world.read(|db, txn| db.meta.require(txn, &()));
        assert_eq!((meta.format, meta.install), (self.memory.meta.format, self.memory.meta.install));
        assert!(meta.runs >= self.memory.meta.runs, "a start was forgotten");
        self.memory.meta = meta;
    }

    /// The number of messages, and when the newest was stored.
    pub(super) fn messages(&self) -> (u64, Option<Timestamp>) {
        self.world.read(|db, txn| Ok((db.messages.len(txn)?, db.messages.last(txn, ..)?.map(|(_, m)| m.stored))))
    }
}
