//! Schedules by chance: zones, tasks, crashes, suspends and wrong clocks, over years, with every slot accounted for.
//!
//! After every step there is one future occurrence of each active series, the one that the oracle names, and the store is
//! sound. At the end every slot ran once, or was skipped with a reason. The seed is printed; `SIM_SEED=3` repeats it, `SIM_SEED=1-12` runs more of them.

mod oracle;

use std::collections::{BTreeMap, BTreeSet};

use chrono_tz::Tz;
use hearth::model::id::{AgentId, SessionId, TaskId};
use hearth::model::incarnation::Exit;
use hearth::model::input::ClockChange;
use hearth::model::mailbox::Again;
use hearth::model::report::Reply;
use hearth::model::task::{
    Fire, FireOutcome, Missed, NewTask, Overlap, TaskChange, TaskCommand, TaskHome, TaskOrigin, TaskState,
};
use hearth::model::{Input, Millis, Timestamp};

use self::oracle::{Kind, On, Simple, changes, slots};
use crate::effects_dropped::Chance;
use crate::world::World;
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

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// What the simulator knows of a series.
struct Series {
    id: TaskId,
    agent: usize,
    kind: Kind,
    anchor: i64,
    created: i64,
    changed: i64,
    /// No slot before this one.
    floor: Option<i64>,
    /// Up to here slots were looked at.
    cursor: i64,
    paused: bool,
    over: bool,
    /// Slots that have to be accounted for.
    expected: BTreeSet<i64>,
}

impl Series {
    /// What a look at `now` finds, in the zone.
    fn look(&mut self, now: i64, zone: Tz) {
        if self.paused || self.over {
            return;
        }
        if let Some(floor) = self.floor {
            if floor > now {
                return;
            }
            if floor > self.cursor && (self.kind == Kind::Once || self.anchor == floor) {
                self.expected.insert(floor);
            }
            self.cursor = self.cursor.max(floor);
        }
        self.expected.extend(slots(&self.kind, self.anchor, (self.cursor, now), zone));
        self.cursor = self.cursor.max(now);
        self.over = self.kind == Kind::Once;
    }

    /// The clock was set back, or the zone is another one: slots after now come again, but for those that were used.
    fn renew(&mut self, now: i64, used: &BTreeSet<i64>) {
        if self.over || self.kind == Kind::Once {
            return;
        }
        if self.floor.is_some_and(|floor| floor > self.cursor) {
            return; // its first slot is still to come
        }
        self.expected.retain(|slot| *slot <= now || used.contains(slot));
        self.cursor = self.cursor.min(now);
        let asked = self.anchor != self.created && self.anchor != self.changed;
        self.floor = (self.anchor > now && asked).then_some(self.anchor);
    }

    /// The first slot after what was looked at that was not used.
    fn next(&self, used: &BTreeSet<i64>, zone: Tz) -> Option<i64> {
        let floor = self.floor.filter(|floor| *floor > self.cursor && !used.contains(floor));
        if let Some(floor) = floor.filter(|floor| self.kind == Kind::Once || self.anchor == *floor) {
            return Some(floor);
        }
        let from = self.floor.map_or(self.cursor, |floor| floor.max(self.cursor));
        let free = |days: i64| {
            slots(&self.kind, self.anchor, (from, from + days * DAY), zone)
                .into_iter()
                .find(|slot| !used.contains(slot))
        };
        free(3).or_else(|| free(70)).or_else(|| free(800))
    }
}

struct Sim {
    world: World,
    chance: Chance,
    zones: Vec<usize>,
    series: Vec<Series>,
    /// Uses by hand.
    by_hand: BTreeSet<(TaskId, i64)>,
    /// Claims that nobody works on any more.
    hung: BTreeSet<(SessionId, u32, u64)>,
    clock_changes: Vec<i64>,
    steps: u64,
    check_every: u64,
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
            zones: (0..ZONES.len()).collect(),
            series: Vec::new(),
            by_hand: BTreeSet::new(),
            hung: BTreeSet::new(),
            clock_changes,
            steps: 0,
            check_every,
        }
    }

    fn now(&self) -> i64 {
        self.world.now().wall.millis()
    }

    fn below(&mut self, end: i64) -> i64 {
        i64::try_from(self.chance.next(u64::try_from(end).unwrap())).unwrap()
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.chance.next(u64::try_from(all.len()).unwrap())).unwrap()]
    }

    fn zone(&self, agent: usize) -> Tz {
        ZONES[self.zones[agent]].parse().unwrap()
    }

    fn fires(&self, id: TaskId) -> BTreeMap<i64, Fire> {
        self.world.read(|db, txn| {
            let rows = db.fires.collect_prefix(txn, &id, usize::MAX)?;
            Ok(rows.into_iter().map(|((_, at), fire)| (at.millis(), fire)).collect())
        })
    }

    fn used(&self, id: TaskId) -> BTreeSet<i64> {
        let skipped = |fire: &Fire| matches!(fire.outcome, FireOutcome::Skipped { .. });
        self.fires(id).into_iter().filter(|(_, fire)| !skipped(fire)).map(|(at, _)| at).collect()
    }

    fn look(&mut self) {
        let now = self.now();
        for at in 0..self.series.len() {
            let zone = self.zone(self.series[at].agent);
            self.series[at].look(now, zone);
        }
    }

    fn renew(&mut self) {
        let now = self.now();
        for at in 0..self.series.len() {
            self.renew_one(at, now);
        }
    }

    fn renew_one(&mut self, at: usize, now: i64) {
        if !self.series[at].over {
            let used = self.used(self.series[at].id);
            self.series[at].renew(now, &used);
        }
    }

    /// A sweep, and what agents make of it.
    fn sweep(&mut self) {
        self.world.sweep();
        self.look();
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
                    1 => vec![claim(seq, number), try_again(seq, vec![], number, Again::Later)],
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
        let now = self.now();
        let due = self.world.read(|db, txn| Ok(db.tasks_due.first(txn, ..)?.map(|((at, _), ())| at.millis())));
        let most = self.until_clock_change(20 * DAY);
        let length = due.map_or(HOUR, |due| (due - now).clamp(0, most)) + self.below(3) * 700;
        self.world.pass(Millis::new(u64::try_from(length).unwrap()));
        self.sweep();
    }

    fn pass(&mut self) {
        let most = *self.pick(&[MINUTE, 3 * HOUR, 30 * HOUR, 6 * DAY]);
        let length = self.below(most);
        let length = self.until_clock_change(length);
        self.world.pass(Millis::new(u64::try_from(length).unwrap()));
        self.sweep();
    }

    /// Not further than just before or after the next change of anybody's clocks.
    fn until_clock_change(&mut self, length: i64) -> i64 {
        let (now, around) = (self.now(), (self.below(5) - 2) * 20 * MINUTE);
        let next = self.clock_changes.iter().map(|at| at + around).find(|at| *at > now);
        next.map_or(length, |next| length.min(next - now))
    }

    fn suspend(&mut self) {
        let most = *self.pick(&[2 * HOUR, 12 * HOUR, 3 * DAY, 21 * DAY]);
        let length = self.below(most);
        self.world.step_clock(length);
        self.sweep();
    }

    fn set_back(&mut self) {
        let most = *self.pick(&[50_000, 3 * HOUR, 2 * DAY]);
        let length = self.below(most);
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
        let back = Millis::new(u64::try_from(length).unwrap());
        self.world.put(Input::Clock(ClockChange::SetBack(back)));
        self.renew();
        self.sweep();
    }

    fn wrong_future(&mut self) {
        let most = *self.pick(&[DAY, 40 * DAY, 800 * DAY]);
        let length = self.below(most);
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
        self.renew();
        self.look();
        self.world.settle();
        self.work();
    }

    fn kind(&mut self) -> Kind {
        let minutes = vec![u32::try_from(self.below(60)).unwrap()];
        let hour = |sim: &mut Self| u32::try_from(sim.below(24)).unwrap();
        match self.chance.next(8) {
            0 => Kind::Every((1 + self.below(50)) * HOUR + self.below(HOUR)),
            1 => Kind::Cron(Simple { minutes, hours: None, days: On::Week(vec![0]) }),
            2 => Kind::Cron(Simple { minutes, hours: Some(vec![1, 2, 3]), days: On::All }),
            3 => {
                let days = On::Month(vec![1 + u32::try_from(self.below(31)).unwrap()]);
                Kind::Cron(Simple { minutes, hours: Some(vec![hour(self)]), days })
            }
            4 => {
                let days = On::Week(vec![1, 2, 3, 4, 5]);
                Kind::Cron(Simple { minutes, hours: Some(vec![hour(self)]), days })
            }
            5 => Kind::Cron(Simple { minutes: vec![0, 30], hours: Some(vec![2]), days: On::Week(vec![0, 6]) }),
            _ => Kind::Cron(Simple { minutes, hours: Some(vec![hour(self)]), days: On::All }),
        }
    }

    fn command(&mut self) {
        self.world.sweep();
        self.look();
        self.world.settle();
        let open: Vec<usize> = (0..self.series.len()).filter(|at| !self.series[*at].over).collect();
        if open.len() < 2 * ZONES.len() {
            return self.add();
        }
        let at = *self.pick(&open);
        match self.chance.next(9) {
            0 | 1 => {
                self.tell(TaskCommand::Pause(self.series[at].id));
                self.series[at].paused = true;
            }
            2..=4 => self.resume(at),
            5 => self.change(at),
            6 => {
                let id = self.series[at].id;
                if self.tell(TaskCommand::Run(id)) {
                    self.by_hand.insert((id, self.now()));
                    self.series[at].changed = self.now();
                }
            }
            7 => self.move_agent(),
            _ => {
                self.tell(TaskCommand::Cancel(self.series[at].id));
                self.series[at].over = true;
            }
        }
        self.world.settle();
        self.work();
    }

    fn tell(&mut self, command: TaskCommand) -> bool {
        let id = match &command {
            TaskCommand::Pause(id) | TaskCommand::Resume(id) | TaskCommand::Set(id, _) => Some(*id),
            _ => None,
        };
        match self.world.put(Input::Task(command)) {
            Reply::Task(..) => {
                let now = self.now();
                for series in self.series.iter_mut().filter(|series| Some(series.id) == id) {
                    series.changed = now;
                }
                true
            }
            _ => false,
        }
    }

    fn resume(&mut self, at: usize) {
        self.tell(TaskCommand::Resume(self.series[at].id));
        self.series[at].paused = false;
        self.look();
    }

    fn change(&mut self, at: usize) {
        let kind = self.kind();
        if self.series[at].kind == Kind::Once || self.series[at].kind == kind {
            return;
        }
        let recurrence = Some(Some(text(&kind)));
        let change = TaskChange { recurrence, ..TaskChange::default() };
        assert!(self.tell(TaskCommand::Set(self.series[at].id, Box::new(change))));
        let now = self.now();
        let series = &mut self.series[at];
        (series.kind, series.anchor, series.cursor, series.floor) = (kind, now, now, None);
    }

    fn add(&mut self) {
        let agent = usize::try_from(self.chance.next(10)).unwrap();
        let once = self.chance.one_in(6);
        let kind = if once { Kind::Once } else { self.kind() };
        let now = self.now();
        let first = (once || self.chance.one_in(4)).then(|| now + HOUR + self.below(40 * DAY));
        let missed = *self.pick(&[Missed::RunOnce, Missed::RunOnce, Missed::Skip, Missed::RunAll(3)]);
        let overlap = *self.pick(&[Overlap::Refuse, Overlap::Queue]);
        let new = NewTask {
            agent: AgentId::new(u64::try_from(agent).unwrap() + 1),
            home: TaskHome::Maintenance,
            prompt: format!("{agent}"),
            script: None,
            reply: None,
            first: first.map(|at| Timestamp::from_millis(at).to_string()),
            recurrence: (!once).then(|| text(&kind)),
            missed,
            overlap,
            origin: TaskOrigin::Operator,
        };
        let reply = self.world.put(Input::Task(TaskCommand::Add(Box::new(new))));
        let Reply::Task(id, _) = reply else { panic!("{reply:?}") };
        let anchor = first.unwrap_or(now);
        self.series.push(Series {
            id,
            agent,
            kind,
            anchor,
            created: now,
            changed: now,
            floor: first,
            cursor: now,
            paused: false,
            over: false,
            expected: BTreeSet::new(),
        });
    }

    /// An agent's people move.
    fn move_agent(&mut self) {
        let agent = usize::try_from(self.chance.next(10)).unwrap();
        for at in 0..self.series.len() {
            if self.series[at].agent == agent && self.series[at].paused && !self.series[at].over {
                self.resume(at);
            }
        }
        let zone = usize::try_from(self.chance.next(10)).unwrap();
        self.world.apply(&format!("[[agents]]\nfolder = \"z{agent}\"\ntimezone = \"{}\"\n", ZONES[zone]));
        if self.zones[agent] == zone {
            return;
        }
        self.zones[agent] = zone;
        let now = self.now();
        for at in 0..self.series.len() {
            if self.series[at].agent == agent {
                self.renew_one(at, now);
            }
        }
    }

    fn prove(&mut self) {
        if self.steps.is_multiple_of(self.check_every) {
            self.world.assert_sound();
        }
        let now = self.now();
        for series in self.series.iter().filter(|series| !series.over) {
            let task = self.world.read(|db, txn| db.tasks.require(txn, &series.id));
            let state = if series.paused { TaskState::Paused } else { TaskState::Active };
            assert_eq!(task.state, state, "{} at {}", series.id, self.world.now().wall);
        }
        let open: Vec<usize> =
            (0..self.series.len()).filter(|at| !self.series[*at].over && !self.series[*at].paused).collect();
        if open.is_empty() {
            return;
        }
        let at = *self.pick(&open);
        let series = &self.series[at];
        let task = self.world.read(|db, txn| db.tasks.require(txn, &series.id));
        let next = series.next(&self.used(series.id), self.zone(series.agent)).map(Timestamp::from_millis);
        assert_eq!(
            task.next,
            next,
            "{} at {} (step {}), {:?} in {}: {task:?}",
            series.id,
            Timestamp::from_millis(now),
            self.steps,
            series.kind,
            self.zone(series.agent)
        );
    }

    /// Every slot ran once, or was skipped with a reason.
    fn account(&self) -> (usize, usize) {
        let mut messages: BTreeMap<(TaskId, i64), usize> = BTreeMap::new();
        for (_, message) in self.world.all_messages() {
            let Some(slot) = message.slot else { continue };
            *messages.entry((slot.task, slot.at.millis())).or_default() += 1;
        }
        let (mut ran, mut skipped) = (0, 0);
        for series in &self.series {
            let task = self.world.read(|db, txn| db.tasks.require(txn, &series.id));
            let fires = self.fires(series.id);
            let runs: Vec<(i64, i64)> = fires
                .iter()
                .filter_map(|(at, fire)| match fire.outcome {
                    FireOutcome::Skipped { until, .. } => Some((*at, until.millis())),
                    _ => None,
                })
                .collect();
            for slot in &series.expected {
                let about = || format!("{} {}: {:?}", series.id, Timestamp::from_millis(*slot), fires.get(slot));
                match fires.get(slot).map(|fire| &fire.outcome) {
                    Some(FireOutcome::Skipped { .. }) => skipped += 1,
                    None => {
                        let covers = runs.iter().filter(|(first, until)| first <= slot && slot <= until).count();
                        assert_eq!(covers, 1, "{}", about());
                        skipped += 1;
                    }
                    Some(FireOutcome::Queued) => {
                        assert_eq!(task.queued.map(Timestamp::millis), Some(*slot), "{}", about())
                    }
                    Some(_) => {
                        assert_eq!(messages.get(&(series.id, *slot)), Some(&1), "{}", about());
                        ran += 1;
                    }
                }
            }
            for (at, fire) in &fires {
                let known = series.expected.contains(at) || self.by_hand.contains(&(series.id, *at));
                assert!(known, "{} {} is no slot: {fire:?}", series.id, Timestamp::from_millis(*at));
            }
        }
        assert!(messages.values().all(|count| *count == 1));
        (ran, skipped)
    }
}

fn text(kind: &Kind) -> String {
    match kind {
        Kind::Once => String::new(),
        Kind::Cron(simple) => simple.text(),
        Kind::Every(length) => length.to_string(),
    }
}

#[expect(clippy::print_stdout, reason = "a test that fails shows its seed")]
fn run(seed: u64, years: i64, check_every: u64) {
    println!("SIM_SEED={seed}");
    let mut sim = Sim::new(seed, years, check_every);
    let end = sim.now() + years * 366 * DAY;
    while sim.now() < end {
        sim.step();
    }
    sim.sweep();
    let (ran, skipped) = sim.account();
    println!("{} steps, {} series: {ran} slots ran, {skipped} were skipped", sim.steps, sim.series.len());
}

fn seeds(default: &str, years: i64, check_every: u64) {
    let seeds = std::env::var("SIM_SEED").unwrap_or_else(|_| default.to_owned());
    let (first, last) = seeds.split_once('-').unwrap_or((&seeds, &seeds));
    for seed in first.parse().unwrap()..=last.parse().unwrap() {
        run(seed, years, check_every);
    }
}

#[test]
fn a_year_of_ten_zones_leaves_no_slot_unaccounted_for() {
    seeds("1", 1, 10);
}

#[test]
fn ten_years_of_ten_zones_leave_no_slot_unaccounted_for() {
    seeds("3", 10, 200);
}
