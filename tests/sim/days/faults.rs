//! Faults of the machine: clocks, suspension, crashes, power cuts, full disks. Also the passing of time.

use hearth::model::id::SessionId;
use hearth::model::incarnation::{IncarnationId, Phase, StopReason, ToolUse};
use hearth::model::input::ClockChange;
use hearth::model::mailbox::{Beat, Collection, Observation, ObservedState};
use hearth::model::{Input, Millis};

use super::Sim;
use super::people::Event;
use super::plan::Setting;
use super::platform::Mood;
use crate::slots::{DAY, MINUTE, awake};

/// Maximum number of sweeps in a quiet period.
const SWEEPS: usize = 12;

impl Sim {
    /// A sweep that saw heartbeats, and perhaps progress. Of some sessions it saw nothing, because the look is not
    /// complete.
    pub(super) fn sweep(&mut self) {
        let mut observations = self.world.outside.observations();
        for observation in &mut observations {
            if self.chance.one_in(20) {
                observation.beat = Beat::Unseen;
                continue;
            }
            let newest = self.world.session(observation.session).last_number;
            observation.state = self.chance.one_in(3).then(|| ObservedState {
                tool: self.chance.one_in(3).then(|| ToolUse {
                    name: "Bash".into(),
                    timeout: self.chance.one_in(2).then(|| Millis::minutes(10)),
                }),
                progress: self.chance.one_in(2),
                about: self.chance.one_in(2).then(|| newest.saturating_sub(self.chance.next(4))),
            });
        }
        self.put(Input::Sweep(observations));
    }

    fn beats(&self) -> Vec<Observation> {
        self.world.outside.observations()
    }

    /// Awake time passes, with a sweep whenever something is due.
    fn pass(&mut self, mut length: i64) {
        for _ in 0..SWEEPS {
            let due = self.world.next_due().map_or(length, |due| i64::try_from(due.get()).unwrap_or(length));
            let part = due.clamp(1_000, length.max(1_000)).min(length);
            self.world.pass(awake(part));
            self.sweep();
            self.perform(self.faults.hands);
            length -= part;
            if length <= 0 {
                return;
            }
        }
        // The rest passes as if the machine had been suspended.
        self.world.step_clock(length);
        self.sweep();
    }

    pub(super) fn quiet(&mut self) {
        let most = *self.chance.pick(self.plan.setting.pace().quiet);
        let length = self.chance.below(most);
        if self.plan.setting == Setting::Zones {
            let length = self.until_season(length);
            return self.wait(length);
        }
        self.pass(length);
    }

    /// The machine sleeps.
    pub(super) fn suspend(&mut self) {
        let most = *self.chance.pick(self.plan.setting.pace().suspend);
        let length = self.chance.below(most);
        self.only_the_clock_moves(length, |_| {});
    }

    /// The clock moves without awake time: no age grows.
    fn only_the_clock_moves(&mut self, length: i64, tell: impl FnOnce(&mut Self)) {
        let beats = self.beats();
        self.put(Input::Sweep(beats));
        self.perform(10_000);
        let before = self.stopped_for_age();
        self.world.step_clock(length);
        tell(self);
        let beats = self.beats();
        self.put(Input::Sweep(beats));
        let after = self.stopped_for_age();
        assert_eq!(before, after, "agents were ended because the clock moved by {length} ms");
    }

    /// Incarnations that are being stopped because they took too long.
    fn stopped_for_age(&self) -> Vec<IncarnationId> {
        let age = |why| matches!(why, StopReason::ClaimStuck | StopReason::Ceiling | StopReason::Silent);
        self.world.read(|db, txn| {
            let mut found = Vec::new();
            for live in db.live_incarnations.iter(txn)? {
                let (session, number) = live?;
                let live = IncarnationId { session, number };
                if matches!(db.incarnations.require(txn, &live)?.phase, Phase::Stopping { why, .. } if age(why)) {
                    found.push(live);
                }
            }
            Ok(found)
        })
    }

    pub(super) fn set_back(&mut self) {
        let most = *self.chance.pick(self.plan.setting.pace().back);
        let length = self.chance.below(most);
        self.back(length);
    }

    fn back(&mut self, length: i64) {
        if self.is_tight() {
            return; // slots skipped for lack of space are listed apart from those not examined for other reasons
        }
        if length > MINUTE && self.chance.one_in(3) {
            self.world.step_clock(-length);
            return self.crash(); // the engine was not told; the start finds out
        }
        self.only_the_clock_moves(-length, |sim| {
            if length > MINUTE {
                sim.put(Input::Clock(ClockChange::SetBack(awake(length))));
                sim.book.renew(&sim.world);
            }
        });
    }

    pub(super) fn jump_ahead(&mut self) {
        if self.is_tight() {
            return;
        }
        let most = *self.chance.pick(self.plan.setting.pace().ahead);
        let length = self.chance.below(most);
        self.only_the_clock_moves(length, |_| {});
        self.perform(self.faults.hands);
        if self.chance.one_in(2) {
            self.wait(50 * MINUTE);
            self.prove();
        }
        self.back(length);
    }

    /// Close to the next clock change of a time zone, if that is not too far away.
    pub(super) fn season(&mut self) {
        let now = self.world.now().wall.millis();
        match self.next_season() {
            Some(next) if next - now < 3 * DAY => self.pass(next - now),
            _ => {}
        }
    }

    /// The daemon dies between two steps and starts again; its agents die with it, or live on.
    pub(super) fn crash(&mut self) {
        self.forget();
        if self.chance.one_in(2) {
            self.world.outside.running.clear();
        }
        let looks_away = self.plan.setting == Setting::Zones || self.is_tight();
        if !looks_away && self.chance.one_in(4) {
            self.world.refuse_a_newer_store();
            self.count("newer stores refused");
        }
        self.world.reopen(|_| {});
        self.started();
    }

    pub(super) fn started(&mut self) {
        self.put(Input::Start);
        self.memory.restarted = true;
        self.forget_old_minds();
        // Incarnations that live on keep their memory; the platform repeats events that were not acknowledged.
        let waiting: Vec<usize> = (0..self.events.len()).rev().take(40).filter(|at| !self.events[*at].taken).collect();
        for at in waiting {
            if self.chance.one_in(2) {
                self.bring(at);
            }
        }
    }

    /// The power fails during a commit: the commit is lost entirely, and all processes die.
    pub(super) fn cut(&mut self) {
        let torn = match self.chance.next(4) {
            0 => vec![Input::Sweep(self.beats())],
            1 => match self.somebody() {
                Some((session, _)) => vec![self.everything_of(session)],
                None => vec![Input::Sweep(Vec::new())],
            },
            _ => self.events.iter().rev().take(3).map(Event::input).collect(),
        };
        self.forget();
        let before = self.world.store().reader().last_change();
        self.world.cut_power(torn);
        // One more than before, because the start of the run was counted.
        assert_eq!(self.world.store().reader().last_change(), before + 1, "the torn commit is there");
        self.world.outside.running.clear();
        // Of the files that an agent wrote last, the newest may be lost, too.
        for (session, files) in &mut self.world.outside.written {
            if !files.is_empty() && self.chance.one_in(3) {
                let kept = usize::try_from(self.chance.next(u64::try_from(files.len()).unwrap() + 1)).unwrap();
                let outputs = self.outputs.iter_mut().filter(|((of, _), _)| of == session);
                outputs.for_each(|(_, outputs)| files[kept..].iter().for_each(|file| outputs.lose(file)));
                files.truncate(kept);
            }
        }
        self.started();
    }

    /// The same input twice in a row has the same result as once.
    pub(super) fn twice(&mut self) {
        if self.is_tight() {
            return; // a refusal is not a suitable first input
        }
        let (input, word) = match self.chance.next(3) {
            0 => (self.old_news(), "news of the runtime compared"),
            1 => (self.some_mailbox().map(|session| self.everything_of(session)), "mailboxes compared"),
            _ => (self.events.last().map(Event::input), "events compared"),
        };
        let Some(input) = input else { return };
        if matches!(input, Input::Inbound(_)) {
            self.bring(self.events.len() - 1);
        } else {
            self.put(input.clone());
        }
        if self.pays_for_comparison() {
            self.changes_nothing(input);
            self.count(word);
        }
    }

    /// A mailbox with content, of a running or a removed session.
    fn some_mailbox(&mut self) -> Option<SessionId> {
        let written = self.world.outside.written.iter();
        let sessions: Vec<SessionId> = written.filter(|(_, files)| !files.is_empty()).map(|(id, _)| *id).collect();
        (!sessions.is_empty()).then(|| *self.chance.pick(&sessions))
    }

    /// Everything in a mailbox, as one look.
    pub(super) fn everything_of(&self, session: SessionId) -> Input {
        Input::Collected(Collection { session, found: self.world.outside.files_of(session), closes: None })
    }

    /// A network gets better or worse, and so does the runtime.
    pub(super) fn change_mood(&mut self) {
        let mood = *self.chance.pick(&[Mood::Good, Mood::Good, Mood::Flaky, Mood::Flaky, Mood::Down]);
        self.platform.borrow_mut().mood = mood;
        self.world.outside.startable = !self.chance.one_in(4);
    }
}
