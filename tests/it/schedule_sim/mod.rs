//! Schedules by chance: zones, tasks, crashes, suspends and wrong clocks, over years, with every slot accounted for.
//!
//! After every step there is one future occurrence of each active series, the one that the oracle names, and the store is
//! sound. At the end every slot ran once, or was skipped with a reason. The seed is printed; `HEARTH_SEED=3` repeats it,
//! `HEARTH_SEED=1-12` runs more of them.

use std::collections::BTreeSet;

use hearth::model::id::SessionId;
use hearth::model::incarnation::Exit;
use hearth::model::input::ClockChange;
use hearth::model::mailbox::RetryHint;
use hearth::model::report::Reply;
use hearth::model::task::TaskCommand;
use hearth::model::{Input, Millis};

use crate::slots::{Book, DAY, HOUR, House, MINUTE, awake, changes, until_due};
use crate::world::World;
use crate::world::chance::{Chance, seeds};
use crate::world::outside::{claim, end, failed, try_again};

const ZONES: [&str; 10] = [
    "America/New_York",
    "Europe/Berlin",
    "Europe/London",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Pacific/Auckland",
    "America/Santiago",
    "UTC",
];

struct Sim {
    world: World,
    chance: Chance,
    book: Book,
    /// Claims that nobody works on any more.
    hung: BTreeSet<(SessionId, u32, u64)>,
    clock_changes: Vec<i64>,
    steps: u64,
    check_every: u64,
}

impl House for Sim {
    fn world(&self) -> &World {
        &self.world
    }

    fn tell(&mut self, command: TaskCommand) -> Option<Reply> {
        Some(self.world.put(Input::Task(command)))
    }
}

impl Sim {
    fn new(seed: u64, years: i64, check_every: u64) -> Self {
        let mut world = World::in_memory();
        let agents: String = ZONES
            .iter()
            .enumerate()
            .map(|(n, zone)| format!("[[agents]]\nfolder = \"z{n}\"\ntimezone = \"{zone}\"\n"))
            .collect();
        // What became of every slot is asked for in the end.
        world.apply(&format!("[retention]\njournal = \"forever\"\n{agents}"));
        world.settle();
        let now = world.now().wall.millis();
        let mut clock_changes: Vec<i64> =
            ZONES.iter().flat_map(|zone| changes((now, now + years * 366 * DAY), zone.parse().unwrap())).collect();
        clock_changes.sort_unstable();
        Self {
            world,
            chance: Chance(seed),
            book: Book::new(&ZONES),
            hung: BTreeSet::new(),
            clock_changes,
            steps: 0,
            check_every,
        }
    }

    /// A sweep, and what agents make of it.
    fn sweep(&mut self) {
        self.world.sweep();
        self.book.look(self.now());
        self.world.settle();
        self.work();
    }

    /// Agents work on what they were brought: well, badly, or for ever.
    fn work(&mut self) {
        let running: Vec<(SessionId, u32)> =
            self.world.outside.running.iter().map(|(id, number)| (*id, *number)).collect();
        for (session, number) in running {
            let waiting: Vec<u64> =
                self.world.outside.inbox.get(&session).map(|inbox| inbox.keys().copied().collect()).unwrap_or_default();
            for seq in waiting {
                if self.hung.contains(&(session, number, seq)) || !self.world.outside.running.contains_key(&session) {
                    continue;
                }
                let found = match self.chance.next(12) {
                    0 => vec![claim(seq, number), failed(seq, number, "no luck")],
                    1 => vec![claim(seq, number), try_again(seq, vec![], number, RetryHint::Later)],
                    2 => {
                        self.hung.insert((session, number, seq));
                        vec![claim(seq, number)]
                    }
                    3 => {
                        let gone = self.world.outside.end(session, number, Exit::Code(1));
                        self.world.put(gone);
                        self.world.settle();
                        continue;
                    }
                    _ => vec![claim(seq, number), end(seq, number, vec![])],
                };
                let written = self.world.outside.write(session, found);
                self.world.put(written);
                self.world.settle();
            }
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        match self.chance.next(40) {
            0..=15 => self.until_due(),
            16..=23 => self.pass(),
            24..=26 => self.suspend(),
            27 => self.set_back(),
            28 => self.wrong_future(),
            29..=30 => self.crash(),
            _ => self.command(),
        }
        self.prove();
    }

    /// Awake until something is due, or just before or after that.
    fn until_due(&mut self) {
        let most = self.until_clock_change(20 * DAY);
        let length = until_due(&self.world, most) + self.chance.below(3) * 700;
        self.world.pass(awake(length));
        self.sweep();
    }

    fn pass(&mut self) {
        let most = *self.chance.pick(&[MINUTE, 3 * HOUR, 30 * HOUR, 6 * DAY]);
        let length = self.chance.below(most);
        let length = self.until_clock_change(length);
        self.world.pass(awake(length));
        self.sweep();
    }

    /// Not further than just before or after the next change of anybody's clocks.
    fn until_clock_change(&mut self, length: i64) -> i64 {
        let (now, around) = (self.now(), (self.chance.below(5) - 2) * 20 * MINUTE);
        let next = self.clock_changes.iter().map(|at| at + around).find(|at| *at > now);
        next.map_or(length, |next| length.min(next - now))
    }

    fn suspend(&mut self) {
        let most = *self.chance.pick(&[2 * HOUR, 12 * HOUR, 3 * DAY, 21 * DAY]);
        let length = self.chance.below(most);
        self.world.step_clock(length);
        self.sweep();
    }

    fn set_back(&mut self) {
        let most = *self.chance.pick(&[50_000, 3 * HOUR, 2 * DAY]);
        let length = self.chance.below(most);
        self.back(length);
    }

    fn back(&mut self, length: i64) {
        self.world.step_clock(-length);
        if length <= MINUTE {
            return self.sweep();
        }
        if self.chance.one_in(3) {
            return self.crash(); // nobody told the engine; the start finds out
        }
        let back = awake(length);
        self.world.put(Input::Clock(ClockChange::SetBack(back)));
        self.book.renew(&self.world);
        self.sweep();
    }

    fn wrong_future(&mut self) {
        let most = *self.chance.pick(&[DAY, 40 * DAY, 800 * DAY]);
        let length = self.chance.below(most);
        let before = self.now();
        self.world.step_clock(length);
        self.sweep();
        if self.chance.one_in(2) {
            self.world.pass(Millis::minutes(50));
            self.sweep();
        }
        self.prove();
        let passed = self.now() - before - length;
        self.back(length.min(self.now() - before - passed));
    }

    /// The daemon dies, and what it was about to do with it.
    fn crash(&mut self) {
        self.world.lose_effects();
        self.world.restart();
        self.book.renew(&self.world);
        self.book.look(self.now());
        self.world.settle();
        self.work();
    }

    fn command(&mut self) {
        self.world.sweep();
        self.book.look(self.now());
        self.world.settle();
        let mut book = std::mem::take(&mut self.book);
        let mut chance = self.chance.clone();
        if book.open().len() < 2 * ZONES.len() {
            book.add(self, &mut chance);
        } else if chance.one_in(9) {
            self.move_agent(&mut book, &mut chance);
        } else {
            book.command(self, &mut chance);
        }
        (self.book, self.chance) = (book, chance);
        self.world.settle();
        self.work();
    }

    /// An agent's people move.
    fn move_agent(&mut self, book: &mut Book, chance: &mut Chance) {
        let (agent, zone) = (usize::try_from(chance.next(10)).unwrap(), *chance.pick(&ZONES));
        self.world.apply(&format!("[[agents]]\nfolder = \"z{agent}\"\ntimezone = \"{zone}\"\n"));
        book.moved(&self.world, agent, zone.parse().unwrap());
    }

    /// Every task is cancelled: what rests has no record of what has come, else.
    fn end(&mut self) {
        let tasks: Vec<_> = self.world.read(|db, txn| db.tasks.iter(txn)?.collect());
        for (id, _) in tasks.into_iter().filter(|(_, task)| task.state.is_open()) {
            self.world.put(Input::Task(TaskCommand::Cancel(id)));
        }
        self.book.end(self.now());
    }

    fn prove(&mut self) {
        if self.steps.is_multiple_of(self.check_every) {
            self.world.assert_sound();
        }
        self.book.prove(&self.world, &mut self.chance);
    }
}

#[expect(clippy::print_stdout, reason = "a test that fails shows its seed")]
fn run(seed: u64, years: i64, check_every: u64) {
    println!("HEARTH_SEED={seed}");
    let mut sim = Sim::new(seed, years, check_every);
    let end = sim.now() + years * 366 * DAY;
    while sim.now() < end {
        sim.step();
    }
    sim.sweep();
    sim.end();
    let (ran, skipped) = sim.book.account(&sim.world);
    println!("{} steps, {} series: {ran} slots ran, {skipped} were skipped", sim.steps, sim.book.series.len());
}

#[test]
fn a_year_of_ten_zones_leaves_no_slot_unaccounted_for() {
    seeds("1").for_each(|seed| run(seed, 1, 10));
}

#[test]
fn ten_years_of_ten_zones_leave_no_slot_unaccounted_for() {
    seeds("3").for_each(|seed| run(seed, 10, 200));
}
