//! Simulated tasks: series whose slots are compared with the reference, and one-time tasks.

use hearth::model::Input;
use hearth::model::Millis;
use hearth::model::id::{AgentId, SessionId};
use hearth::model::report::Reply;
use hearth::model::task::{FireOutcome, TaskOrigin};
use hearth::model::task_command::{NewTask, TaskCommand};

use super::people::address;
use super::plan::Setting;
use super::setting::agent_in;
use super::{Book, Sim};
use crate::slots::{DAY, awake, until_due};
use crate::world::chance::Chance;
use crate::world::configuration;
use crate::world::schedules;

/// Maximum delay of an errand in seconds.
const SOON: u64 = 600;

impl Sim {
    /// A command adds or changes a task.
    pub(super) fn task(&mut self) {
        // All due slots must be handled before a task is changed; without space this has to wait.
        if self.is_tight() {
            return;
        }
        if self.plan.setting != Setting::Zones && self.chance.one_in(4) {
            return self.errand();
        }
        self.sweep();
        let mut book = std::mem::take(&mut self.book);
        let mut chance = self.chance.clone();
        let (open_max, series_max) = self.plan.setting.tasks();
        if book.open().len() < open_max && book.series.len() < series_max {
            book.add(self, &mut chance);
        } else if self.plan.setting == Setting::Zones && chance.one_in(9) {
            self.move_agent(&mut book, &mut chance);
        } else if !book.open().is_empty() {
            book.command(self, &mut chance);
        }
        (self.book, self.chance) = (book, chance);
    }

    /// An agent gets another time zone.
    fn move_agent(&mut self, book: &mut Book, chance: &mut Chance) {
        let zones = self.plan.setting.zones();
        let (agent, zone) = (chance.index(zones.len()), *chance.pick(zones));
        self.put(Input::Configure(configuration(&agent_in(agent, zone))));
        book.moved(&self.world, agent, zone.parse().unwrap());
    }

    /// A one-time task, due soon, that answers in a chat. Half of them look as if an agent had added them.
    pub(super) fn errand(&mut self) {
        let after = 1 + self.chance.next(SOON);
        let at = *self.chance.pick(&[("web", "C"), ("net", "D"), ("net", "M")]);
        let session = SessionId::new(1 + self.chance.next(4));
        let origin = if self.chance.one_in(2) { TaskOrigin::Agent(session) } else { TaskOrigin::Operator };
        let task = NewTask {
            agent: AgentId::new(1 + self.chance.next(5)),
            reply: Some(address(at, None)),
            origin,
            ..schedules::new(&self.world, after, None)
        };
        if let Some(Reply::Task(id, _)) = self.put(Input::Task(TaskCommand::Add(Box::new(task)))) {
            self.memory.errands.insert(id);
            self.count("errands");
        }
    }

    /// Awake until a task is due, or until just after that.
    pub(super) fn until_due(&mut self) {
        let most = self.until_season(20 * DAY);
        let length = until_due(&self.world, most) + self.chance.below(3) * 700;
        self.wait(length);
    }

    /// Awake for this long, with one sweep at the end.
    pub(super) fn wait(&mut self, length: i64) {
        self.world.pass(awake(length));
        self.sweep();
    }

    /// Ends all tasks except errands, which run.
    pub(super) fn cancel_tasks(&mut self) {
        let tasks: Vec<_> = self.world.read(|db, txn| db.tasks.iter(txn)?.collect());
        for (id, _) in tasks.into_iter().filter(|(_, task)| task.state.is_open()) {
            if !self.memory.errands.contains(&id) {
                self.put(Input::Task(TaskCommand::Cancel(id)));
            }
        }
        self.book.end(self.world.now().wall.millis());
    }

    /// Tasks that still wait for something.
    pub(super) fn unfinished_tasks(&self) -> Vec<String> {
        let tasks: Vec<_> = self.world.read(|db, txn| db.tasks.iter(txn)?.collect());
        let open = tasks.into_iter().filter(|(_, task)| task.state.is_open() || task.running.is_some());
        open.map(|row| format!("{row:?}")).collect()
    }

    /// Every errand ran once, and no run is in progress.
    pub(super) fn account_for_tasks(&self) {
        let runs: Vec<_> = self.world.read(|db, txn| db.task_runs.iter(txn)?.collect());
        for (key, run) in &runs {
            assert!(!matches!(run.outcome, FireOutcome::Running(_)), "{key:?} goes on: {run:?}");
        }
        for errand in &self.memory.errands {
            let own: Vec<_> = runs.iter().filter(|(key, _)| key.task == *errand).collect();
            assert!(own.len() == 1, "{errand} ran {} times", own.len());
            let unused = |outcome: &FireOutcome| matches!(outcome, FireOutcome::Skipped { .. } | FireOutcome::Queued);
            assert!(own.iter().all(|(_, run)| !unused(&run.outcome)), "{errand} did not run: {own:?}");
        }
    }

    /// After a step of weeks, agents do what waits: well, badly, or never.
    pub(super) fn everyone_works(&mut self) {
        self.perform(10_000);
        for (session, number) in self.running() {
            self.work_of(session, number);
            self.work_of(session, number);
            let all = self.everything_of(session);
            self.put(all);
            self.perform(10_000);
        }
    }

    /// At most until just before or after the next change of any agent's clocks.
    pub(super) fn until_season(&mut self, length: i64) -> i64 {
        let now = self.world.now().wall.millis();
        self.next_season().map_or(length, |next| length.min(next - now))
    }

    /// Just before or after the next change of any agent's clocks.
    pub(super) fn next_season(&mut self) -> Option<i64> {
        let (now, around) = (self.world.now().wall.millis(), (self.chance.below(5) - 2) * AROUND);
        self.seasons.iter().map(|at| at + around).find(|at| *at > now)
    }
}

/// The distance from a clock change that is of interest.
const AROUND: i64 = 20 * crate::slots::MINUTE;

/// Maximum difference between the machine's time and the real time.
const SKEW: u64 = Millis::minutes(60).get();

impl Sim {
    /// The clock moves, and the engine is not told.
    pub(super) fn skew(&mut self) {
        self.world.step_clock(i64::try_from(self.chance.next(2 * SKEW)).unwrap() - i64::try_from(SKEW).unwrap());
    }
}
