//! Reference for the outcomes of the slots of many series. It knows only the commands and the sweeps, and the simulator
//! compares the engine with it.

mod oracle;

use std::collections::{BTreeMap, BTreeSet};

use chrono_tz::Tz;
use hearth::model::id::{AgentId, TaskId};
use hearth::model::report::Reply;
use hearth::model::task::{Fire, FireOutcome, Missed, Overlap, TaskHome, TaskOrigin, TaskState};
use hearth::model::task_command::{NewTask, Patch, TaskChange, TaskCommand};
use hearth::model::{Millis, Timestamp};

pub(crate) use self::oracle::changes;
use self::oracle::{Kind, On, Simple, slots};
use crate::world::World;
use crate::world::chance::Chance;

pub(crate) const MINUTE: i64 = 60_000;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;

/// The store that holds the tasks.
pub(crate) trait TaskHost {
    fn world(&self) -> &World;

    /// Sends a command; none if there was no space for it.
    fn tell(&mut self, command: TaskCommand) -> Option<Reply>;

    fn now(&self) -> i64 {
        self.world().now().wall.millis()
    }
}

/// The state of a series.
#[derive(Clone)]
pub(crate) struct Series {
    pub(crate) id: TaskId,
    agent: usize,
    kind: Kind,
    anchor: i64,
    created: i64,
    changed: i64,
    /// No slot before this one.
    floor: Option<i64>,
    /// Slots up to this one were examined.
    cursor: i64,
    paused: bool,
    over: bool,
    /// Slots that must have a record.
    expected: BTreeSet<i64>,
}

impl Series {
    /// Examines the slots until `now`, in the time zone.
    fn look(&mut self, now: i64, zone: Tz) {
        if !self.paused && !self.over {
            self.pass(now, zone);
        }
    }

    /// All slots until now have come.
    fn pass(&mut self, now: i64, zone: Tz) {
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

    /// The clock was set back, or the time zone changed: slots after now come again, except used ones.
    fn renew(&mut self, now: i64, used: &BTreeSet<i64>) {
        if self.over || self.kind == Kind::Once {
            return;
        }
        if self.floor.is_some_and(|floor| floor > self.cursor) {
            return; // its first slot is still to come
        }
        self.expected.retain(|slot| *slot <= now || used.contains(slot));
        self.cursor = self.cursor.min(now);
        self.settle(now);
        self.floor = (self.anchor > now).then_some(self.anchor);
    }

    /// A start in the future without a request comes from a clock that was ahead: the task then counts as created in
    /// 1970.
    fn settle(&mut self, now: i64) {
        let made_then = self.anchor == self.created || self.anchor == self.changed;
        if self.kind != Kind::Once && self.anchor > now && made_then {
            self.anchor = if let Kind::Every(length) = self.kind { self.anchor.rem_euclid(length) } else { 0 };
        }
    }

    /// Records that a command was applied to the task.
    fn touch(&mut self, now: i64) {
        self.settle(now);
        self.changed = now;
    }

    /// The first unused slot after the examined ones.
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

/// All series, and the time zones of their agents.
#[derive(Default, Clone)]
pub(crate) struct Book {
    /// Indexed by the agent's number minus one.
    pub(crate) zones: Vec<Tz>,
    pub(crate) series: Vec<Series>,
    /// Uses by hand.
    by_hand: BTreeSet<(TaskId, i64)>,
}

impl Book {
    pub(crate) fn new(zones: &[&str]) -> Self {
        let zones = zones.iter().map(|zone| zone.parse().unwrap()).collect();
        Self { zones, ..Self::default() }
    }

    /// The engine examined the slots.
    pub(crate) fn look(&mut self, now: i64) {
        for series in &mut self.series {
            series.look(now, self.zones[series.agent]);
        }
    }

    fn pass(&mut self, now: i64, at: usize) {
        let series = &mut self.series[at];
        series.pass(now, self.zones[series.agent]);
    }

    /// The engine recomputed everything.
    pub(crate) fn renew(&mut self, world: &World) {
        (0..self.series.len()).for_each(|at| self.renew_one(world, at));
    }

    fn renew_one(&mut self, world: &World, at: usize) {
        if !self.series[at].over {
            let used = used(world, self.series[at].id);
            self.series[at].renew(world.now().wall.millis(), &used);
        }
    }

    /// An agent's time zone changes. Slots until now follow the old one, even those of paused tasks.
    pub(crate) fn moved(&mut self, world: &World, agent: usize, zone: Tz) {
        if self.zones[agent] == zone {
            return;
        }
        let theirs: Vec<usize> = self.open().into_iter().filter(|at| self.series[*at].agent == agent).collect();
        for at in &theirs {
            if self.series[*at].kind != Kind::Once {
                self.pass(world.now().wall.millis(), *at);
            }
        }
        self.zones[agent] = zone;
        theirs.into_iter().for_each(|at| self.renew_one(world, at));
    }

    pub(crate) fn open(&self) -> Vec<usize> {
        (0..self.series.len()).filter(|at| !self.series[*at].over).collect()
    }

    /// Applies a command to one of the tasks. All queued inputs were processed before.
    pub(crate) fn command(&mut self, host: &mut impl TaskHost, chance: &mut Chance) {
        let at = *chance.pick(&self.open());
        let id = self.series[at].id;
        match chance.next(8) {
            0 | 1 => {
                self.series[at].paused |= self.tell(host, TaskCommand::Pause(id));
            }
            2..=4 => self.resume(host, at),
            5 => self.change(host, chance, at),
            6 => {
                if self.tell(host, TaskCommand::Run(id)) {
                    self.by_hand.insert((id, host.now()));
                    self.series[at].touch(host.now());
                }
            }
            _ => {
                if self.tell(host, TaskCommand::Cancel(id)) {
                    self.pass(host.now(), at);
                    self.series[at].over = true;
                }
            }
        }
    }

    fn tell(&mut self, host: &mut impl TaskHost, command: TaskCommand) -> bool {
        let id = match &command {
            TaskCommand::Pause(id) | TaskCommand::Resume(id) | TaskCommand::Set(id, _) => Some(*id),
            _ => None,
        };
        let done = matches!(host.tell(command), Some(Reply::Task(..)));
        for series in self.series.iter_mut().filter(|series| done && Some(series.id) == id) {
            series.touch(host.now());
        }
        done
    }

    fn resume(&mut self, host: &mut impl TaskHost, at: usize) {
        if self.tell(host, TaskCommand::Resume(self.series[at].id)) {
            self.series[at].paused = false;
            self.look(host.now());
        }
    }

    fn change(&mut self, host: &mut impl TaskHost, chance: &mut Chance, at: usize) {
        let kind = kind(chance);
        if self.series[at].kind == Kind::Once || self.series[at].kind == kind {
            return;
        }
        let change = TaskChange { recurrence: Patch::Set(text(&kind)), ..TaskChange::default() };
        if self.tell(host, TaskCommand::Set(self.series[at].id, Box::new(change))) {
            self.pass(host.now(), at); // slots of the old schedule that had come were skipped
            let (now, series) = (host.now(), &mut self.series[at]);
            (series.kind, series.anchor, series.cursor, series.floor) = (kind, now, now, None);
        }
    }

    /// Every task is cancelled.
    pub(crate) fn end(&mut self, now: i64) {
        for at in self.open() {
            self.pass(now, at);
            self.series[at].over = true;
        }
    }

    /// Adds a series to some agent.
    pub(crate) fn add(&mut self, host: &mut impl TaskHost, chance: &mut Chance) {
        let agent = usize::try_from(chance.next(u64::try_from(self.zones.len()).unwrap())).unwrap();
        let once = chance.one_in(6);
        let kind = if once { Kind::Once } else { kind(chance) };
        let now = host.now();
        let first = (once || chance.one_in(4)).then(|| now + HOUR + chance.below(40 * DAY));
        let missed = *chance.pick(&[Missed::RunOnce, Missed::RunOnce, Missed::Skip, Missed::RunAll(3)]);
        let overlap = *chance.pick(&[Overlap::Refuse, Overlap::Queue]);
        let new = NewTask {
            agent: AgentId::new(u64::try_from(agent).unwrap() + 1),
            home: TaskHome::Maintenance,
            prompt: format!("{agent}"),
            script: chance.one_in(5).then(|| "exit 0".to_owned()),
            reply: None,
            first: first.map(|at| Timestamp::from_millis(at).to_string()),
            recurrence: (!once).then(|| text(&kind)),
            missed,
            overlap,
            origin: TaskOrigin::Operator,
            allow: Vec::new(),
        };
        let Some(reply) = host.tell(TaskCommand::Add(Box::new(new))) else { return };
        let Reply::Task(id, _) = reply else { panic!("{reply:?}") };
        self.series.push(Series {
            id,
            agent,
            kind,
            anchor: first.unwrap_or(now),
            created: now,
            changed: now,
            floor: first,
            cursor: now,
            paused: false,
            over: false,
            expected: BTreeSet::new(),
        });
    }

    /// Each open series is active or paused as commanded, and one of its slots is the next one that the oracle names.
    pub(crate) fn prove(&self, world: &World, chance: &mut Chance) {
        for series in self.series.iter().filter(|series| !series.over) {
            let task = world.read(|db, txn| db.tasks.require(txn, &series.id));
            let state = if series.paused { TaskState::Paused } else { TaskState::Active };
            assert_eq!(task.state, state, "{} at {}", series.id, world.now().wall);
        }
        let going: Vec<&Series> = self.series.iter().filter(|series| !series.over && !series.paused).collect();
        if going.is_empty() {
            return;
        }
        let series = *chance.pick(&going);
        let task = world.read(|db, txn| db.tasks.require(txn, &series.id));
        let zone = self.zones[series.agent];
        let next = series.next(&used(world, series.id), zone).map(Timestamp::from_millis);
        let (id, now, kind) = (series.id, world.now().wall, &series.kind);
        let known = (series.anchor, series.floor, series.cursor);
        assert_eq!(task.next, next, "{id} at {now}, {kind:?} in {zone}, {known:?}: {task:?}");
    }

    /// Every slot ran once, or was skipped with a reason. Returns how many ran and how many were skipped.
    pub(crate) fn account(&self, world: &World) -> (usize, usize) {
        let mut messages: BTreeMap<(TaskId, i64), usize> = BTreeMap::new();
        for (_, message) in world.all_messages() {
            let Some(slot) = message.slot else { continue };
            *messages.entry((slot.task, slot.at.millis())).or_default() += 1;
        }
        assert!(messages.values().all(|count| *count == 1), "a slot ran twice");
        let each = self.series.iter().map(|series| self.account_for(world, series, &messages));
        each.fold((0, 0), |(ran, skipped), one| (ran + one.0, skipped + one.1))
    }

    fn account_for(&self, world: &World, series: &Series, messages: &BTreeMap<(TaskId, i64), usize>) -> (usize, usize) {
        let (mut ran, mut skipped) = (0, 0);
        let task = world.read(|db, txn| db.tasks.require(txn, &series.id));
        let fires = fires(world, series.id);
        let until = |fire: &Fire| match fire.outcome {
            FireOutcome::Skipped { until, .. } => Some(until.millis()),
            _ => None,
        };
        let runs: Vec<(i64, i64)> = fires.iter().filter_map(|(at, fire)| Some((*at, until(fire)?))).collect();
        for slot in &series.expected {
            let about = || format!("{} {}: {:?}", series.id, Timestamp::from_millis(*slot), fires.get(slot));
            match fires.get(slot).map(|fire| &fire.outcome) {
                Some(FireOutcome::Skipped { .. }) => skipped += 1,
                None => {
                    let covers: Vec<&Fire> = runs
                        .iter()
                        .filter(|(first, until)| first <= slot && slot <= until)
                        .map(|(at, _)| &fires[at])
                        .collect();
                    assert_eq!(covers.len(), 1, "{}: {covers:?} of {task:?}", about());
                    skipped += 1;
                }
                Some(FireOutcome::Queued) => {
                    let due = task.next.is_some_and(|next| next.millis() <= *slot);
                    assert!(due || task.queued.map(Timestamp::millis) == Some(*slot), "{}", about());
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
        (ran, skipped)
    }
}

fn fires(world: &World, id: TaskId) -> BTreeMap<i64, Fire> {
    world.read(|db, txn| {
        let rows = db.task_runs.collect_prefix(txn, &id, usize::MAX)?;
        Ok(rows.into_iter().map(|(slot, fire)| (slot.at.millis(), fire)).collect())
    })
}

fn used(world: &World, id: TaskId) -> BTreeSet<i64> {
    let skipped = |fire: &Fire| matches!(fire.outcome, FireOutcome::Skipped { .. });
    fires(world, id).into_iter().filter(|(_, fire)| !skipped(fire)).map(|(at, _)| at).collect()
}

/// A random schedule.
fn kind(chance: &mut Chance) -> Kind {
    let minutes = vec![u32::try_from(chance.below(60)).unwrap()];
    let hour = |chance: &mut Chance| u32::try_from(chance.below(24)).unwrap();
    match chance.next(8) {
        0 => Kind::Every((1 + chance.below(50)) * HOUR + chance.below(HOUR)),
        1 => Kind::Cron(Simple { minutes, hours: None, days: On::Week(vec![0]) }),
        2 => Kind::Cron(Simple { minutes, hours: Some(vec![1, 2, 3]), days: On::All }),
        3 => {
            let days = On::Month(vec![1 + u32::try_from(chance.below(31)).unwrap()]);
            Kind::Cron(Simple { minutes, hours: Some(vec![hour(chance)]), days })
        }
        4 => {
            let days = On::Week(vec![1, 2, 3, 4, 5]);
            Kind::Cron(Simple { minutes, hours: Some(vec![hour(chance)]), days })
        }
        5 => Kind::Cron(Simple { minutes: vec![0, 30], hours: Some(vec![2]), days: On::Week(vec![0, 6]) }),
        _ => Kind::Cron(Simple { minutes, hours: Some(vec![hour(chance)]), days: On::All }),
    }
}

fn text(kind: &Kind) -> String {
    match kind {
        Kind::Once => String::new(),
        Kind::Cron(simple) => simple.text(),
        Kind::Every(length) => length.to_string(),
    }
}

/// The time until the next deadline, at most `most`.
pub(crate) fn until_due(world: &World, most: i64) -> i64 {
    let due = world.read(|db, txn| Ok(db.tasks_due.first(txn, ..)?.map(|(key, ())| key.at.millis())));
    due.map_or(HOUR, |due| (due - world.now().wall.millis()).clamp(0, most))
}

pub(crate) fn awake(length: i64) -> Millis {
    Millis::new(u64::try_from(length).unwrap())
}
