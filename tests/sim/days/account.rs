//! The end: the faults stop, time goes on, and then everything that was ever accepted is accounted for.

use hearth::model::Millis;
use hearth::model::delivery::{Author, OutState};
use hearth::model::mailbox::Collection;
use hearth::model::message::{MessageState, Reason};
use hearth::model::task::TaskCommand;
use hearth::model::{Input, id::OutgoingId};

use super::agents::GHOST;
use super::platform::Mood;
use super::{Faults, Sim};

/// Looks at the clock until everything has to be over; the later ones are half a day apart, so that what nobody answers
/// lapses.
const ROUNDS: usize = 1_500;

/// Inputs that a time with hardly a page may leave without an answer; each of them comes again later.
const WITHOUT_ROOM: u64 = 100;

impl Sim {
    /// From now on everybody does what they should.
    pub(super) fn drain(&mut self) {
        if self.is_tight() {
            self.widen();
        }
        self.faults = Faults::NONE;
        self.platform.borrow_mut().mood = Mood::Good;
        self.world.outside.startable = true;
        self.crash();
        for at in 0..self.events.len() {
            if !self.events[at].taken {
                self.bring(at);
            }
        }
        let tasks: Vec<_> = self.world.read(|db, txn| db.tasks.iter(txn)?.collect());
        for (id, _) in tasks.into_iter().filter(|(_, task)| task.state.is_open()) {
            self.put(Input::Task(TaskCommand::Cancel(id)));
        }
        self.book.end(self.world.now().wall.millis());
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

    /// What still waits: messages that ask for a turn, everything said, everything asked.
    fn unfinished(&self) -> Vec<String> {
        let waits = |state: &MessageState| matches!(state, MessageState::Pending(_) | MessageState::Claimed { .. });
        let messages = self.world.all_messages().into_iter().filter(|(_, m)| m.trigger && waits(&m.state));
        let said = self.world.all_outbound().into_iter().filter(|(_, outbound)| {
            matches!(outbound.state, OutState::Later(_) | OutState::Waiting { .. } | OutState::Attempting { .. })
        });
        let mut found: Vec<String> = messages.map(|row| format!("{row:?}")).collect();
        found.extend(said.map(|row| format!("{row:?}")));
        let (approvals, questions, held) = self
            .world
            .read(|db, txn| Ok((db.approvals_due.len(txn)?, db.questions_due.len(txn)?, db.held_messages.len(txn)?)));
        if (approvals, questions, held) != (0, 0, 0) {
            found.push(format!("{approvals} approvals, {questions} questions, {held} held messages"));
        }
        found
    }

    /// Everything accepted has an end with a reason, nothing was said twice, nothing is lost.
    pub(super) fn account(&mut self) {
        self.plan.check_always = true;
        self.prove();
        for (id, message) in self.world.all_messages() {
            match message.state {
                MessageState::Completed { .. } | MessageState::Failed { .. } | MessageState::Dropped { .. } => {}
                MessageState::Pending(_) if !message.trigger => {}
                other => panic!("{id}: {other:?}"),
            }
        }
        self.account_for_answers();
        self.account_for_repetitions();
        self.account_for_events();
        self.room_was_seldom_short();
        let (ran, skipped) = self.book.account(&self.world);
        self.happened.insert("slots that ran", u64::try_from(ran).unwrap());
        self.happened.insert("slots skipped", u64::try_from(skipped).unwrap());
        self.happened.insert("messages", self.messages().0);
    }

    /// No platform waits, and no event is remembered as one that waits for a decision.
    fn account_for_events(&self) {
        assert!(self.events.iter().all(|event| event.taken), "a platform still waits");
        let waits = |reason| matches!(reason, Reason::SenderHeld | Reason::ChannelHeld);
        for (key, seen) in self.world.read(|db, txn| db.seen_events.iter(txn)?.collect::<Result<Vec<_>, _>>()) {
            assert!(!seen.refused.is_some_and(waits), "{key:?} was let go and nobody has it: {seen:?}");
        }
    }

    /// Nothing goes out once more but after an attempt of which nobody knows what became of it.
    fn account_for_repetitions(&mut self) {
        let sent: Vec<(OutgoingId, u32, bool)> = self.platform.borrow().sent().collect();
        for (id, times, once) in sent.into_iter().filter(|(_, times, _)| *times > 1) {
            let uncertain = self.memory.sent[&id.id].uncertain;
            assert!(times <= uncertain + 1, "{id} went out {times} times, {uncertain} of them uncertain");
            self.count(if once { "sent again by the same id" } else { "shown again and marked" });
        }
    }

    /// Times with hardly a page leave few inputs without an answer.
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
