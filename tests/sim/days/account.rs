//! The end of a run: faults stop, time continues, and then every accepted message is accounted for.

use hearth::model::Millis;
use hearth::model::card::PromptSubject;
use hearth::model::configure::{Change, Configure};
use hearth::model::delivery::{Author, OutState};
use hearth::model::entity::Origin;
use hearth::model::mailbox::Collection;
use hearth::model::message::{MessageState, Reason};
use hearth::model::report::{Outcome, Reply};
use hearth::model::{Input, id::OutgoingId};

use super::agents::GHOST;
use super::people::{Event, folder};
use super::plan::Effects;
use super::platform::Mood;
use super::{Faults, Sim};
use crate::slots::DAY;

/// Sweeps until everything must have ended; the later sweeps are half a day apart, so that unanswered questions expire.
const ROUNDS: usize = 1_500;

/// Inputs that may be left without an answer in phases with almost no space; each of them comes again later.
const WITHOUT_ROOM: u64 = 100;

impl Sim {
    /// From now on all simulated parts do what they should.
    pub(super) fn drain(&mut self) {
        if self.is_tight() {
            self.widen();
        }
        self.faults = if self.plan.effects == Effects::Dropped { Faults::DROPPED } else { Faults::NONE };
        if !self.plan.flaky {
            self.platform.borrow_mut().mood = Mood::Good;
        }
        self.world.outside.startable = true;
        self.plan.twice = false;
        self.crash();
        for at in 0..self.events.len() {
            if !self.events[at].taken {
                self.bring(at);
            }
        }
        if std::mem::take(&mut self.doomed) {
            let remove = Change::RemoveAgent(folder("doomed"));
            self.put(Input::Configure(Configure::new(vec![remove], Origin::Runtime)));
        }
        self.cancel_tasks();
        if self.has_budgets() {
            self.remove_budgets();
        }
        for round in 0..ROUNDS {
            if round % 8 == 0 && self.unfinished().is_empty() {
                return;
            }
            let length = if round < ROUNDS / 2 { Millis::seconds(10) } else { Millis::minutes(12 * 60) };
            self.world.pass(length);
            self.sweep();
            self.perform(10_000);
            for (session, number) in self.running() {
                self.work_of(session, number);
                let found = self.world.outside.files_of(session);
                if found.len() != self.looked.insert(session, found.len()).unwrap_or_default() {
                    self.put(Input::Collected(Collection { session, found, closes: None }));
                }
            }
            self.perform(10_000);
            // Later so much time passes that what was said is forgotten soon.
            if round % 16 == 0 || round >= ROUNDS / 2 {
                self.prove();
            }
        }
        panic!("not done:\n{}", self.unfinished().join("\n"));
    }

    /// What still waits: triggering messages, outgoing messages, and prompts.
    fn unfinished(&self) -> Vec<String> {
        let waits = |state: &MessageState| matches!(state, MessageState::Pending(_) | MessageState::Claimed { .. });
        let messages = self.world.all_messages().into_iter().filter(|(_, m)| m.trigger && waits(&m.state));
        let said = self.world.all_outbound().into_iter().filter(|(_, outbound)| {
            matches!(outbound.state, OutState::Later(_) | OutState::Waiting { .. } | OutState::Attempting { .. })
        });
        let mut found: Vec<String> = messages.map(|row| format!("{row:?}")).collect();
        found.extend(said.map(|row| format!("{row:?}")));
        found.extend(self.unfinished_tasks());
        let counts = self.world.read(|db, txn| {
            // A skip may wait for a person without limit.
            let asks = |row: &(_, PromptSubject)| !matches!(row.1, PromptSubject::Skip(_));
            let prompts: Vec<_> = db.open_prompts.iter(txn)?.collect::<Result<_, _>>()?;
            let prompts = u64::try_from(prompts.iter().filter(|row| asks(row)).count()).unwrap();
            Ok([
                ("approvals", db.approvals_due.len(txn)?),
                ("questions", db.questions_due.len(txn)?),
                ("held messages", db.held_messages.len(txn)?),
                ("open prompts", prompts),
                ("messages without their files", db.fetches.len(txn)?),
            ])
        });
        found.extend(counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")));
        found
    }

    /// Everything accepted has ended with a reason, nothing was sent twice, nothing is lost.
    pub(super) fn account(&mut self) {
        self.plan.check = Some(1);
        self.prove();
        for (id, message) in self.world.all_messages() {
            match message.state {
                MessageState::Completed { .. } | MessageState::Failed { .. } => {}
                MessageState::Dropped { reason: Reason::AgentRemoved | Reason::Budget, .. } => {}
                MessageState::Pending(_) if !message.trigger => {}
                other => panic!("{id}: {other:?}"),
            }
        }
        self.account_for_answers();
        self.account_for_repetitions();
        self.account_for_events();
        self.account_for_tasks();
        self.nothing_is_new_again();
        self.room_was_seldom_short();
        let (ran, skipped) = self.book.account(&self.world);
        self.happened.insert("slots that ran", u64::try_from(ran).unwrap());
        self.happened.insert("slots skipped", u64::try_from(skipped).unwrap());
        self.happened.insert("messages", self.messages().0);
    }

    /// No platform waits, and no event is recorded as waiting for a decision.
    fn account_for_events(&self) {
        assert!(self.events.iter().all(|event| event.taken), "a platform still waits");
        let waits = |reason| matches!(reason, Reason::SenderHeld | Reason::ChannelHeld);
        for (key, seen) in self.world.read(|db, txn| db.seen_events.iter(txn)?.collect::<Result<Vec<_>, _>>()) {
            assert!(!seen.refused.is_some_and(waits), "{key:?} was let go and nobody has it: {seen:?}");
        }
    }

    /// Repeats recent events. A drop in an unknown chat is not remembered.
    fn nothing_is_new_again(&mut self) {
        let now = self.world.now().wall.millis();
        let is_known = |event: &Event| event.kept || ["C", "D"].contains(&event.chat.1);
        let recent = |event: &Event| is_known(event) && !event.chat.0.is_empty() && (now - event.at).abs() < 8 * DAY;
        let recent: Vec<Event> = self.events.iter().filter(|event| recent(event)).cloned().collect();
        for event in recent {
            let reply = self.put(event.input());
            let known = matches!(&reply, Some(Reply::Routed(report)) if report.outcome == Outcome::Duplicate);
            assert!(known, "{event:?} is new again: {reply:?}");
        }
    }

    /// A message is sent again only after an attempt with an uncertain outcome.
    fn account_for_repetitions(&mut self) {
        let sent: Vec<(OutgoingId, u32, bool)> = self.platform.borrow().sent().collect();
        for (id, times, once) in sent.into_iter().filter(|(_, times, _)| *times > 1) {
            let uncertain = self.memory.sent[&id.id].uncertain;
            assert!(times <= uncertain + 1, "{id} went out {times} times, {uncertain} of them uncertain");
            self.count(if once { "sent again by the same id" } else { "shown again and marked" });
        }
    }

    /// Phases with almost no space leave few inputs without an answer.
    fn room_was_seldom_short(&self) {
        let [lost, times] = ["inputs without room", "times with some pages"]
            .map(|what| self.happened.get(what).copied().unwrap_or_default());
        assert!(lost <= WITHOUT_ROOM * times, "{lost} inputs found no room in {times} such times");
    }

    fn account_for_answers(&self) {
        for (id, outbound) in self.world.all_outbound() {
            let key = self.world.read(|db, txn| db.outgoing(txn, id));
            match outbound.state {
                OutState::Delivered { .. } => {
                    assert!(self.platform.borrow().was_shown(key), "{id} was delivered and nobody saw it");
                }
                OutState::Failed { .. }
                | OutState::Abandoned { .. }
                | OutState::Refused { .. }
                | OutState::Carried { .. } => {}
                other => panic!("{id}: {other:?}"),
            }
            let ghost = matches!(&outbound.author, Author::Agent { wire_id, .. } if wire_id.starts_with(GHOST));
            assert!(!ghost || !self.platform.borrow().was_shown(key), "{id} was said by somebody who was gone");
        }
    }
}
